//! Messages about quotas: bounds for the bytes and files of users, groups and directory trees, and
//! growth limits, by which a file's servers enforce them.

use crate::io::Grid;
use crate::meta::{Credentials, Target};

/// The kinds of owners whose bytes and files are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum QuotaKind {
    /// A kind of a newer peer.
    Unspecified = 0,
    /// What a user owns.
    User = 1,
    /// What belongs to a group.
    Group = 2,
    /// A directory and everything below it.
    Tree = 3,
}

/// A new bound.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Bound {
    /// The maximum; absent: there is no bound.
    #[prost(uint64, optional, tag = "1")]
    pub most: Option<u64>,
}

/// Bounds and usage of a user, a group or a tree.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct QuotaInfo {
    /// The kind of owner.
    #[prost(enumeration = "QuotaKind", tag = "1")]
    pub kind: i32,
    /// User, group, or the directory's id.
    #[prost(uint64, tag = "2")]
    pub id: u64,
    /// Bytes of files and of their forks, holes included; growth that writers have not reported yet
    /// is included as far as the service knows it.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// Files, directories and other inodes.
    #[prost(uint64, tag = "4")]
    pub files: u64,
    /// The bound of bytes.
    #[prost(uint64, optional, tag = "5")]
    pub bytes_max: Option<u64>,
    /// The bound of files.
    #[prost(uint64, optional, tag = "6")]
    pub files_max: Option<u64>,
    /// For a tree: the directory of the nearest enclosing quota; 0: none.
    #[prost(uint64, tag = "7")]
    pub above: u64,
    /// For a tree: its path from the root.
    #[prost(bytes = "bytes", tag = "8")]
    pub path: bytes::Bytes,
}

/// Set, change or remove bounds. Only root may.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SetQuotaRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The kind of owner.
    #[prost(enumeration = "QuotaKind", tag = "2")]
    pub kind: i32,
    /// User or group.
    #[prost(uint32, tag = "3")]
    pub id: u32,
    /// The directory of a tree.
    #[prost(message, optional, tag = "4")]
    pub target: Option<Target>,
    /// Absent: unchanged.
    #[prost(message, optional, tag = "5")]
    pub bytes: Option<Bound>,
    /// Absent: unchanged.
    #[prost(message, optional, tag = "6")]
    pub files: Option<Bound>,
    /// Remove the bounds; a tree then counts towards the enclosing quotas only.
    #[prost(bool, tag = "7")]
    pub clear: bool,
}

/// Done, and survives power loss.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SetQuotaReply {
    /// The new bounds.
    #[prost(message, required, tag = "1")]
    pub quota: QuotaInfo,
}

/// One page of all usages and bounds that the caller may see: root sees all, others see theirs,
/// those of their groups, and those of trees whose directory they own.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListQuotasRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Those of this kind after the id `after`, and those of later kinds.
    #[prost(enumeration = "QuotaKind", tag = "2")]
    pub kind: i32,
    /// See `kind`.
    #[prost(uint64, optional, tag = "3")]
    pub after: Option<u64>,
}

/// A page, users first, then groups, then trees; each by its id.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListQuotasReply {
    /// At most `LIST_PAGE_MAX`.
    #[prost(message, repeated, tag = "1")]
    pub quotas: Vec<QuotaInfo>,
    /// There may be more after the last one.
    #[prost(bool, tag = "2")]
    pub more: bool,
}

/// Ask which quotas a file or directory counts towards.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct QuotasOfRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file or directory.
    #[prost(message, required, tag = "2")]
    pub target: Target,
}

/// The trees that contain it, innermost first; then its user and its group, as far as the caller
/// may see them.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct QuotasOfReply {
    /// The quotas, in that order.
    #[prost(message, repeated, tag = "1")]
    pub quotas: Vec<QuotaInfo>,
}

/// The growth limit of a file and its forks.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct GrowthLimit {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Layout parameters.
    #[prost(message, required, tag = "2")]
    pub grid: Grid,
    /// The largest size in canonical order that a write may give it; absent: no limit, only the
    /// size is requested.
    #[prost(uint64, optional, tag = "3")]
    pub limit: Option<u64>,
    /// Bytes that its other forks may have on this server together; absent: no limit.
    #[prost(uint64, optional, tag = "4")]
    pub others: Option<u64>,
}

/// Ask for the sizes of growing files, and limit them (from the metadata service). A limit ends
/// when the next request of this kind does not repeat it, and after three grace periods of the
/// service (a minute). With `keep`, limits of other files stay. Limits that such a request has set
/// last at least a second.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LimitGrowthRequest {
    /// At most `GROWTH_BATCH_MAX`.
    #[prost(message, repeated, tag = "1")]
    pub files: Vec<GrowthLimit>,
    /// Limits of files that are not named stay as they are.
    #[prost(bool, tag = "2")]
    pub keep: bool,
}

/// The limits are in force.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LimitGrowthReply {
    /// The size in canonical order that the server's cells give each file, in the request's order.
    #[prost(uint64, repeated, tag = "1")]
    pub sizes: Vec<u64>,
    /// Bytes of the server's other forks of each file together. Absent from older servers.
    #[prost(uint64, repeated, tag = "2")]
    pub others: Vec<u64>,
}
