//! Messages about *delegated* directories, in which one client changes names by itself and reports
//! the changes later.

use bytes::Bytes;

use crate::error::Failure;
use crate::meta::{Attributes, Credentials, FileKind, Layout, SetAttributesRequest};

/// Ask for the delegation of a directory, until the service recalls it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DelegateRequest {
    /// The directory.
    #[prost(uint64, tag = "1")]
    pub directory: u64,
    /// Ids for new files in it, at most [`IDS_AHEAD_MAX`](crate::limits::IDS_AHEAD_MAX).
    #[prost(uint32, tag = "2")]
    pub ids: u32,
    /// Directories that the client will change next, if it goes on as it began: at most
    /// [`DELEGATED_ALSO_MAX`](crate::limits::DELEGATED_ALSO_MAX).
    #[prost(uint64, repeated, tag = "3")]
    pub also: Vec<u64>,
}

/// Whether the directory is delegated, and the ids and layouts of new files in it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DelegateReply {
    /// It is delegated.
    #[prost(bool, tag = "1")]
    pub granted: bool,
    /// The id of the first new file; the other ids follow it.
    #[prost(uint64, tag = "2")]
    pub first: u64,
    /// The layout of each.
    #[prost(message, repeated, tag = "3")]
    pub layouts: Vec<Layout>,
    /// Those of [`DelegateRequest::also`] that are delegated, too.
    #[prost(uint64, repeated, tag = "4")]
    pub also: Vec<u64>,
}

/// A regular file or a directory that was created in a delegated directory.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NewFile {
    /// Permission bits that its creator requested.
    #[prost(uint32, tag = "1")]
    pub mode: u32,
    /// Bits that `mode` loses.
    #[prost(uint32, tag = "2")]
    pub umask: u32,
    /// The layout of a regular file.
    #[prost(message, required, tag = "3")]
    pub layout: Layout,
    /// The client has it attached for reading.
    #[prost(bool, tag = "4")]
    pub reading: bool,
    /// The client has it attached for writing.
    #[prost(bool, tag = "5")]
    pub writing: bool,
    /// All its bytes, at most [`INLINE_MAX`](crate::limits::INLINE_MAX), if it was written.
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub data: Option<Bytes>,
    /// Time of the last write, in nanoseconds since the epoch.
    #[prost(int64, tag = "7")]
    pub modified: i64,
    /// Its bytes lie in its cells from the beginning.
    #[prost(bool, tag = "8")]
    pub spilled: bool,
    /// What it is: a directory, which is delegated to the client from the beginning, and leased; or
    /// a regular file.
    #[prost(enumeration = "FileKind", tag = "9")]
    pub kind: i32,
}

/// A name that was created or removed in a delegated directory, or attributes that were set of a
/// file that was created there.
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
    /// The file that has the name from now on, or had it.
    #[prost(uint64, tag = "4")]
    pub file: u64,
    /// When, in nanoseconds since the epoch.
    #[prost(int64, tag = "5")]
    pub time: i64,
    /// The file that was created; absent, and `set` too: the name was removed.
    #[prost(message, optional, tag = "6")]
    pub made: Option<NewFile>,
    /// Attributes of the file that were set, after it was created; without the caller and the
    /// target.
    #[prost(message, optional, boxed, tag = "7")]
    pub set: Option<Box<SetAttributesRequest>>,
    /// When they were set, in nanoseconds since the epoch.
    #[prost(int64, tag = "8")]
    pub set_time: i64,
    /// The time of the latest change of a name in the directory, if that is later than `time`:
    /// changes need not be reported in the order in which they were made.
    #[prost(int64, tag = "9")]
    pub directory_time: i64,
    /// When the time of modification among them was set, if it was.
    #[prost(int64, tag = "10")]
    pub modified_time: i64,
}

/// Report changes in delegated directories, in order.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ChangeNamesRequest {
    /// At most [`NAMES_AHEAD_MAX`](crate::limits::NAMES_AHEAD_MAX).
    #[prost(message, repeated, tag = "1")]
    pub changes: Vec<NameChange>,
    /// Directories that are no longer delegated to the client.
    #[prost(uint64, repeated, tag = "2")]
    pub given_back: Vec<u64>,
}

/// The result of a change.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NameChanged {
    /// Why it was refused.
    #[prost(message, optional, tag = "1")]
    pub refused: Option<Failure>,
    /// The attributes of a file that came with its content.
    #[prost(message, optional, tag = "2")]
    pub attributes: Option<Attributes>,
    /// A directory that was created is not leased: others may make names in it without notice once
    /// it is no longer delegated.
    #[prost(bool, tag = "3")]
    pub unleased: bool,
    /// A directory that was created is not delegated to the client.
    #[prost(bool, tag = "4")]
    pub undelegated: bool,
}

/// The result of each change.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ChangeNamesReply {
    /// In the order of the request.
    #[prost(message, repeated, tag = "1")]
    pub done: Vec<NameChanged>,
}
