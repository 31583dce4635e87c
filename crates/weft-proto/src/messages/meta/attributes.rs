//! Attributes of a file: read, changed, truncated.

use super::target::{Credentials, Target};

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum FileKind {
    /// Never sent.
    Unspecified = 0,
    /// A grid of cells.
    Regular = 1,
    /// A directory.
    Directory = 2,
    /// A symbolic link.
    Symlink = 3,
    /// A fifo.
    Fifo = 4,
    /// A socket.
    Socket = 5,
    /// A block device.
    BlockDevice = 6,
    /// A character device.
    CharDevice = 7,
}

/// The layout of a file on the servers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Layout {
    /// Cells.
    #[prost(uint32, tag = "1")]
    pub cells: u32,
    /// Bytes of a basic striping unit.
    #[prost(uint64, tag = "2")]
    pub bsu: u64,
    /// Bytes of a chunk.
    #[prost(uint32, tag = "3")]
    pub chunk: u32,
    /// Server ids, base first.
    #[prost(uint32, repeated, tag = "4")]
    pub servers: Vec<u32>,
    /// 0 plain, 1 addressed.
    #[prost(uint32, tag = "5")]
    pub storage: u32,
    /// Parity of the file when it is quiet: 256 k + m for k+m; 0: none.
    #[prost(uint32, tag = "6")]
    pub parity: u32,
}

/// The attributes of a file. Times are nanoseconds since the epoch.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Attributes {
    /// The file's id.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its kind.
    #[prost(enumeration = "FileKind", tag = "2")]
    pub kind: i32,
    /// Permission bits with setuid, setgid and sticky: 12 bits.
    #[prost(uint32, tag = "3")]
    pub mode: u32,
    /// Owner.
    #[prost(uint32, tag = "4")]
    pub uid: u32,
    /// Group.
    #[prost(uint32, tag = "5")]
    pub gid: u32,
    /// Number of its names.
    #[prost(uint32, tag = "6")]
    pub links: u32,
    /// Size in canonical order as last reported (directories: entries; links: bytes of the target).
    #[prost(uint64, tag = "7")]
    pub size: u64,
    /// No client has had the file open for writing since `size` and `modified` were reported.
    #[prost(bool, tag = "8")]
    pub size_exact: bool,
    /// Last access, as far as it is recorded.
    #[prost(int64, tag = "9")]
    pub accessed: i64,
    /// Last modification as last reported or set.
    #[prost(int64, tag = "10")]
    pub modified: i64,
    /// Last change of attributes.
    #[prost(int64, tag = "11")]
    pub changed: i64,
    /// Creation.
    #[prost(int64, tag = "12")]
    pub created: i64,
    /// When `modified` was last set explicitly: a server's time of a write counts only if it is
    /// later.
    #[prost(int64, tag = "13")]
    pub modified_set: i64,
    /// Device number of a device node.
    #[prost(uint64, tag = "14")]
    pub device: u64,
    /// Layout of a regular file, or what a directory gives to new files.
    #[prost(message, optional, tag = "15")]
    pub layout: Option<Layout>,
    /// The parent directory (directories only).
    #[prost(uint64, tag = "16")]
    pub parent: u64,
    /// The bytes of this regular file lie with its metadata; its cells are empty.
    #[prost(bool, tag = "17")]
    pub inline: bool,
    /// For a file in the image of a tree's checkpoint whose bytes lie in cells: the file that owns
    /// the cells; else 0.
    #[prost(uint64, tag = "18")]
    pub source: u64,
    /// The number of the checkpoint of `source` that holds the bytes.
    #[prost(uint64, tag = "19")]
    pub checkpoint: u64,
    /// It has extended attributes, or permissions beyond `mode`.
    #[prost(bool, tag = "20")]
    pub xattrs: bool,
    /// The consistency policy of a file, or what a directory gives to what is made in it; empty:
    /// none. Only clients know what a name means.
    #[prost(string, tag = "21")]
    pub policy: String,
}

/// The layout that a creator requests; the service fills in the rest.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LayoutOptions {
    /// Cells; absent: inherited from the directory, else one per server.
    #[prost(uint32, optional, tag = "1")]
    pub cells: Option<u32>,
    /// Bytes of a basic striping unit.
    #[prost(uint64, optional, tag = "2")]
    pub bsu: Option<u64>,
    /// Bytes of a chunk.
    #[prost(uint32, optional, tag = "3")]
    pub chunk: Option<u32>,
    /// Server ids, base first; empty: all that are up, from `base`.
    #[prost(uint32, repeated, tag = "4")]
    pub servers: Vec<u32>,
    /// The server of cell 0; absent: chosen pseudo-randomly.
    #[prost(uint32, optional, tag = "5")]
    pub base: Option<u32>,
    /// 0 plain, 1 addressed; absent: inherited from the directory, else plain.
    #[prost(uint32, optional, tag = "6")]
    pub storage: Option<u32>,
    /// Only servers with at least so many replicas; absent: inherited from the directory, else
    /// any.
    #[prost(uint32, optional, tag = "7")]
    pub replicas: Option<u32>,
    /// Parity, 256 k + m for k+m: k + m servers at least, with m + 1 replicas each; 0: none;
    /// absent: inherited from the directory, else none.
    #[prost(uint32, optional, tag = "8")]
    pub parity: Option<u32>,
}

/// Attributes of one path.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StatRequest {
    /// The acting user.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
}

/// Attributes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StatReply {
    /// Attributes.
    #[prost(message, required, tag = "1")]
    pub attributes: Attributes,
}

/// A time to set.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TimeUpdate {
    /// The service's clock instead of `nanos`.
    #[prost(bool, tag = "1")]
    pub now: bool,
    /// Nanoseconds since the epoch.
    #[prost(int64, tag = "2")]
    pub nanos: i64,
}

/// Change what is present.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SetAttributesRequest {
    /// The acting user.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// Permission bits.
    #[prost(uint32, optional, tag = "3")]
    pub mode: Option<u32>,
    /// Owner.
    #[prost(uint32, optional, tag = "4")]
    pub uid: Option<u32>,
    /// Group.
    #[prost(uint32, optional, tag = "5")]
    pub gid: Option<u32>,
    /// Last access.
    #[prost(message, optional, tag = "6")]
    pub accessed: Option<TimeUpdate>,
    /// Last modification.
    #[prost(message, optional, tag = "7")]
    pub modified: Option<TimeUpdate>,
    /// Layout for new files in a directory.
    #[prost(message, optional, tag = "8")]
    pub layout: Option<LayoutOptions>,
    /// The file loses its set-id bits, as after a write by an unprivileged user. A setgid bit
    /// without the group's execute bit stays where the caller is in the file's group, and where the
    /// caller is root, which acts for an unknown user.
    #[prost(bool, tag = "9")]
    pub kill_priv: bool,
    /// The consistency policy of a file or directory; empty: none from now on.
    #[prost(string, optional, tag = "10")]
    pub policy: Option<String>,
}

/// Set a file's size; the service truncates the cells on the I/O servers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TruncateRequest {
    /// The acting user.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// New size in canonical order.
    #[prost(uint64, tag = "3")]
    pub size: u64,
    /// The caller holds the file open for writing: permission was checked at attach.
    #[prost(bool, tag = "4")]
    pub attached: bool,
    /// Only grow: the file is charged for the new size, and the caller extends its cells
    /// ([`crate::io::ExtendCellsRequest`]); the service extends an inline file itself.
    #[prost(bool, tag = "5")]
    pub grow: bool,
}
