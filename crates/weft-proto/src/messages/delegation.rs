//! Messages about directories in which one client changes names by itself, ahead of the service
//! (*delegated*).

use bytes::Bytes;

use crate::error::Failure;
use crate::meta::{Attributes, Credentials, Layout};

/// Let this client change names in a directory ahead of the service, until it is asked to give that
/// back.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DelegateRequest {
    /// The directory.
    #[prost(uint64, tag = "1")]
    pub directory: u64,
    /// Ids for new files in it, at most [`IDS_AHEAD_MAX`](crate::limits::IDS_AHEAD_MAX).
    #[prost(uint32, tag = "2")]
    pub ids: u32,
}

/// Whether it may, and what new files in it are.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DelegateReply {
    /// It may.
    #[prost(bool, tag = "1")]
    pub granted: bool,
    /// The id of the first new file; the others follow.
    #[prost(uint64, tag = "2")]
    pub first: u64,
    /// The layout of each.
    #[prost(message, repeated, tag = "3")]
    pub layouts: Vec<Layout>,
}

/// A regular file that was made ahead of the service.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NewFile {
    /// Permission bits that its creator asked for.
    #[prost(uint32, tag = "1")]
    pub mode: u32,
    /// Bits taken away from them.
    #[prost(uint32, tag = "2")]
    pub umask: u32,
    /// How it lies on the servers.
    #[prost(message, required, tag = "3")]
    pub layout: Layout,
    /// The client has it attached for reading.
    #[prost(bool, tag = "4")]
    pub reading: bool,
    /// The client has it attached for writing.
    #[prost(bool, tag = "5")]
    pub writing: bool,
    /// Its whole content, at most [`INLINE_MAX`](crate::limits::INLINE_MAX) bytes, if it was
    /// written.
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub data: Option<Bytes>,
    /// Time of the last write, in nanoseconds since the epoch.
    #[prost(int64, tag = "7")]
    pub modified: i64,
}

/// A name that was made or removed ahead of the service.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NameChange {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The directory.
    #[prost(uint64, tag = "2")]
    pub directory: u64,
    /// The name in it.
    #[prost(bytes = "bytes", tag = "3")]
    pub name: Bytes,
    /// What has the name from now on, or had it.
    #[prost(uint64, tag = "4")]
    pub file: u64,
    /// When, in nanoseconds since the epoch.
    #[prost(int64, tag = "5")]
    pub time: i64,
    /// The file that was made; absent: the name was removed.
    #[prost(message, optional, tag = "6")]
    pub made: Option<NewFile>,
}

/// What a client has done ahead of the service, in order.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ChangeNamesRequest {
    /// At most [`NAMES_AHEAD_MAX`](crate::limits::NAMES_AHEAD_MAX).
    #[prost(message, repeated, tag = "1")]
    pub changes: Vec<NameChange>,
    /// Directories in which it does nothing ahead any more.
    #[prost(uint64, repeated, tag = "2")]
    pub given_back: Vec<u64>,
}

/// What became of a change.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NameChanged {
    /// Why it was not done.
    #[prost(message, optional, tag = "1")]
    pub refused: Option<Failure>,
    /// A file that came with its content, as it is now.
    #[prost(message, optional, tag = "2")]
    pub attributes: Option<Attributes>,
}

/// What became of each change.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ChangeNamesReply {
    /// In the order of the request.
    #[prost(message, repeated, tag = "1")]
    pub done: Vec<NameChanged>,
}
