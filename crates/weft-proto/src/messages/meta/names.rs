//! Names in directories: created, linked, removed, renamed, listed.

use bytes::Bytes;

use super::attributes::{Attributes, FileKind};
use super::target::{Credentials, Target};

/// Create a directory.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MakeDirectoryRequest {
    /// The acting user.
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
    /// Request a lease on the names in it: a client that changes one is answered only when this
    /// client's watch has reported the change.
    #[prost(bool, tag = "5")]
    pub lease: bool,
}

/// The directory was created.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MakeDirectoryReply {
    /// Its attributes.
    #[prost(message, required, tag = "1")]
    pub attributes: Attributes,
    /// The client has the requested lease.
    #[prost(bool, tag = "2")]
    pub leased: bool,
}

/// Create a symbolic link.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MakeLinkRequest {
    /// The acting user.
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
    /// The acting user.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Its path.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// Its kind.
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

/// Create a hard link.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LinkRequest {
    /// The acting user.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub source: Target,
    /// Its additional name.
    #[prost(message, required, tag = "3")]
    pub target: Target,
}

/// Remove a name.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UnlinkRequest {
    /// The acting user.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The name.
    #[prost(message, required, tag = "2")]
    pub target: Target,
}

/// Remove an empty directory.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RemoveDirectoryRequest {
    /// The acting user.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The directory.
    #[prost(message, required, tag = "2")]
    pub target: Target,
}

/// The file that lost a name.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UnlinkReply {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Number of names it has left.
    #[prost(uint32, tag = "2")]
    pub links: u32,
    /// The new attributes of the directory that lost the name.
    #[prost(message, optional, tag = "3")]
    pub directory: Option<Attributes>,
}

/// Rename a file or directory.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RenameRequest {
    /// The acting user.
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

/// The files whose names changed.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RenameReply {
    /// The file that was renamed.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The file that had the new name before; 0: none.
    #[prost(uint64, tag = "2")]
    pub other: u64,
}

/// One page of a directory.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListRequest {
    /// The acting user.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The directory.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// Continue after this name; empty: from the start.
    #[prost(bytes = "bytes", tag = "3")]
    pub after: Bytes,
    /// The maximum number of entries.
    #[prost(uint32, tag = "4")]
    pub limit: u32,
}

/// A name and the attributes of its file.
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
    /// The acting user.
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
