//! Names in directories: created, linked, removed, renamed, listed.

use bytes::Bytes;

use super::attributes::{Attributes, FileKind};
use super::target::{Credentials, Target};

/// Create a directory.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MakeDirectoryRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Its path.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// Permission bits.
    #[prost(uint32, tag = "3")]
    pub mode: u32,
    /// Bits that `mode` loses, unless the directory's default ACL decides.
    #[prost(uint32, tag = "4")]
    pub umask: u32,
    /// The client wants to know all names in it for as long as others change none: whoever does is
    /// answered when this client's watch has told it of that.
    #[prost(bool, tag = "5")]
    pub lease: bool,
}

/// A directory was made.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MakeDirectoryReply {
    /// Its attributes.
    #[prost(message, required, tag = "1")]
    pub attributes: Attributes,
    /// The client has the lease that it wanted.
    #[prost(bool, tag = "2")]
    pub leased: bool,
}

/// Create a symbolic link.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MakeLinkRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Its path.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// The link's text.
    #[prost(bytes = "bytes", tag = "3")]
    pub text: Bytes,
}

/// Create a fifo, socket or device node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MakeNodeRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Its path.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// What it is.
    #[prost(enumeration = "FileKind", tag = "3")]
    pub kind: i32,
    /// Permission bits.
    #[prost(uint32, tag = "4")]
    pub mode: u32,
    /// Device number.
    #[prost(uint64, tag = "5")]
    pub device: u64,
    /// Bits that `mode` loses, unless the directory's default ACL decides.
    #[prost(uint32, tag = "6")]
    pub umask: u32,
}

/// A hard link.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LinkRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub source: Target,
    /// Its further name.
    #[prost(message, required, tag = "3")]
    pub target: Target,
}

/// Remove a name.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UnlinkRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The name.
    #[prost(message, required, tag = "2")]
    pub target: Target,
}

/// Remove an empty directory.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RemoveDirectoryRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The directory.
    #[prost(message, required, tag = "2")]
    pub target: Target,
}

/// Done; which file lost a name.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UnlinkReply {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Names it has left.
    #[prost(uint32, tag = "2")]
    pub links: u32,
    /// The directory that lost the name, as it is now.
    #[prost(message, optional, tag = "3")]
    pub directory: Option<Attributes>,
}

/// Rename.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RenameRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Old name.
    #[prost(message, required, tag = "2")]
    pub source: Target,
    /// New name.
    #[prost(message, required, tag = "3")]
    pub target: Target,
    /// Fail if the new name exists.
    #[prost(bool, tag = "4")]
    pub no_replace: bool,
    /// Swap both names.
    #[prost(bool, tag = "5")]
    pub exchange: bool,
}

/// Done; which files it was about.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RenameReply {
    /// The file that has another name now.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The file that had the new name; 0: none.
    #[prost(uint64, tag = "2")]
    pub other: u64,
}

/// One page of a directory.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The directory.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// Continue after this name; empty: from the start.
    #[prost(bytes = "bytes", tag = "3")]
    pub after: Bytes,
    /// At most so many entries.
    #[prost(uint32, tag = "4")]
    pub limit: u32,
}

/// A name and what it names.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Entry {
    /// Name.
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    /// Attributes.
    #[prost(message, required, tag = "2")]
    pub attributes: Attributes,
}

/// Entries in ascending order of the names' bytes, without `.` and `..`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListReply {
    /// The entries.
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<Entry>,
    /// There are more: ask again after the last one.
    #[prost(bool, tag = "2")]
    pub more: bool,
    /// The directory itself.
    #[prost(message, required, tag = "3")]
    pub directory: Attributes,
}

/// Read a symbolic link.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadLinkRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The link.
    #[prost(message, required, tag = "2")]
    pub target: Target,
}

/// The link's text.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadLinkReply {
    /// The text.
    #[prost(bytes = "bytes", tag = "1")]
    pub text: Bytes,
}
