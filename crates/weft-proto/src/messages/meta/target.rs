//! The file of a request, and the user it acts for.

use bytes::Bytes;

/// The root directory's id.
pub const ROOT: u64 = 1;

/// The user that a request acts for.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Credentials {
    /// User.
    #[prost(uint32, tag = "1")]
    pub uid: u32,
    /// Group of new files.
    #[prost(uint32, tag = "2")]
    pub gid: u32,
    /// Supplementary groups.
    #[prost(uint32, repeated, tag = "3")]
    pub groups: Vec<u32>,
}

/// A path and the directory that it starts from.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Target {
    /// The directory (or, with an empty path, the file itself).
    #[prost(uint64, tag = "1")]
    pub at: u64,
    /// Relative path; a leading `/` starts at the root.
    #[prost(bytes = "bytes", tag = "2")]
    pub path: Bytes,
    /// Follow a symbolic link in the last component.
    #[prost(bool, tag = "3")]
    pub follow: bool,
}
