//! Messages about quotas: what bounds the bytes and files of users, groups and directory trees, and
//! how a file's servers are told how long it may become.

use crate::io::Grid;
use crate::meta::{Credentials, Target};

/// Whose bytes and files are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum QuotaKind {
    /// A kind of a newer peer.
    Unspecified = 0,
    /// What a user owns.
    User = 1,
    /// What belongs to a group.
    Group = 2,
    /// What lies below a directory, which counts itself.
    Tree = 3,
}

/// Another bound than before.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Bound {
    /// The most there may be; absent: there is no bound.
    #[prost(uint64, optional, tag = "1")]
    pub most: Option<u64>,
}

/// Bounds of a user, a group or a tree, and what is used.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct QuotaInfo {
    /// Of what sort.
    #[prost(enumeration = "QuotaKind", tag = "1")]
    pub kind: i32,
    /// User, group, or the directory's id.
    #[prost(uint64, tag = "2")]
    pub id: u64,
    /// Bytes of files and of their forks, holes included; what writers have not told yet is in it
    /// as far as the service knows.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// Files, directories and other inodes.
    #[prost(uint64, tag = "4")]
    pub files: u64,
    /// The most bytes.
    #[prost(uint64, optional, tag = "5")]
    pub bytes_max: Option<u64>,
    /// The most files.
    #[prost(uint64, optional, tag = "6")]
    pub files_max: Option<u64>,
    /// Of a tree: the directory with the next quota above; 0: none.
    #[prost(uint64, tag = "7")]
    pub above: u64,
    /// Of a tree: its path from the root.
    #[prost(bytes = "bytes", tag = "8")]
    pub path: bytes::Bytes,
}

/// Set, change or remove bounds. Only root may.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SetQuotaRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Of what sort.
    #[prost(enumeration = "QuotaKind", tag = "2")]
    pub kind: i32,
    /// User or group.
    #[prost(uint32, tag = "3")]
    pub id: u32,
    /// The directory of a tree.
    #[prost(message, optional, tag = "4")]
    pub target: Option<Target>,
    /// Absent: as it is.
    #[prost(message, optional, tag = "5")]
    pub bytes: Option<Bound>,
    /// Absent: as it is.
    #[prost(message, optional, tag = "6")]
    pub files: Option<Bound>,
    /// Remove the bounds; what lies below a directory then counts for the next quota above only.
    #[prost(bool, tag = "7")]
    pub clear: bool,
}

/// Done, and survives power loss.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SetQuotaReply {
    /// As it is now.
    #[prost(message, required, tag = "1")]
    pub quota: QuotaInfo,
}

/// One page of all usages and bounds that the caller may see: root all, others their own, those of
/// their groups, and of trees whose directory they own.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListQuotasRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Those of this kind that come after `id`, and those of later kinds.
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
    /// There may be more behind the last one.
    #[prost(bool, tag = "2")]
    pub more: bool,
}

/// What a file or directory counts for.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct QuotasOfRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file or directory.
    #[prost(message, required, tag = "2")]
    pub target: Target,
}

/// The trees that it lies in, the nearest first; then its user and its group, as far as the caller
/// may see them.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct QuotasOfReply {
    /// See above.
    #[prost(message, repeated, tag = "1")]
    pub quotas: Vec<QuotaInfo>,
}

/// How long a file and its forks may become.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct GrowthLimit {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Layout parameters.
    #[prost(message, required, tag = "2")]
    pub grid: Grid,
    /// The largest size in canonical order that a write may give it; absent: no limit, only its
    /// size is asked.
    #[prost(uint64, optional, tag = "3")]
    pub limit: Option<u64>,
    /// How long its other forks may be on this server, all together; absent: there is no limit.
    #[prost(uint64, optional, tag = "4")]
    pub others: Option<u64>,
}

/// Ask for the sizes of files that grow, and limit them (from the metadata service). A limit ends
/// when the next request of this kind does not repeat it, and after five seconds. Other files keep
/// theirs where `keep` says so, and for a second what such a request has said of them.
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
    /// How long the server's other forks of each file are, all together. Absent from older servers.
    #[prost(uint64, repeated, tag = "2")]
    pub others: Vec<u64>,
}
