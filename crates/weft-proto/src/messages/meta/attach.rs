//! Attachments: opening a file, reporting size and times, closing it, and what is still open after
//! a reconnect.

use bytes::Bytes;

use super::attributes::{Attributes, LayoutOptions};
use super::target::{Credentials, Target};
use crate::coord::HeldLock;

/// Create the file if it does not exist.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Create {
    /// Permission bits.
    #[prost(uint32, tag = "1")]
    pub mode: u32,
    /// Fail if it exists.
    #[prost(bool, tag = "2")]
    pub exclusive: bool,
    /// Layout of the new file.
    #[prost(message, optional, tag = "3")]
    pub layout: Option<LayoutOptions>,
    /// Bits that `mode` loses, unless the directory's default ACL decides.
    #[prost(uint32, tag = "4")]
    pub umask: u32,
}

/// Attach a file: the one request needed before its data can be accessed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AttachRequest {
    /// The acting user.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// It will be read.
    #[prost(bool, tag = "3")]
    pub read: bool,
    /// It will be written.
    #[prost(bool, tag = "4")]
    pub write: bool,
    /// Create it if needed.
    #[prost(message, optional, tag = "5")]
    pub create: Option<Create>,
    /// The client supports inline files; for other clients every file has its bytes in its cells. A
    /// file that such a client creates begins inline.
    #[prost(bool, tag = "6")]
    pub inline: bool,
    /// The client keeps small files that it only reads.
    #[prost(message, optional, tag = "7")]
    pub keep: Option<KeepSmall>,
}

/// A client that watches keeps small files attached, after they are closed, and opens them again
/// without a request. It asks for the lease of the file that it attaches, and of others that it
/// will probably read next.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeepSmall {
    /// A directory; 0: no others.
    #[prost(uint64, tag = "1")]
    pub directory: u64,
    /// The others follow this name in it.
    #[prost(bytes = "bytes", tag = "2")]
    pub after: Bytes,
    /// At most so many, and [`ATTACH_AHEAD_MAX`](crate::limits::ATTACH_AHEAD_MAX).
    #[prost(uint32, tag = "3")]
    pub files: u32,
}

/// The files of a [`KeepSmall`]: leased to the client until one of them is changed. Whoever changes
/// one is answered after the client has acknowledged the change with its next `Watch`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeptSmall {
    /// Files that are attached for reading in addition.
    #[prost(message, repeated, tag = "1")]
    pub ahead: Vec<SmallFile>,
}

/// A small file that was attached for reading.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SmallFile {
    /// Its name in the directory.
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    /// Its attributes with layout.
    #[prost(message, required, tag = "2")]
    pub attributes: Attributes,
    /// All its bytes.
    #[prost(bytes = "bytes", tag = "3")]
    pub inline: Bytes,
}

/// What a client needs to access a file's data.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AttachReply {
    /// Attributes with layout.
    #[prost(message, required, tag = "1")]
    pub attributes: Attributes,
    /// The server map's epoch.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// The file was created by this call.
    #[prost(bool, tag = "3")]
    pub created: bool,
    /// All bytes of an inline file, possibly none yet. Absent: the file's bytes are in its cells
    /// for good.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub inline: Option<Bytes>,
    /// Attached for writing while size and times were exact and no other client had it open for
    /// writing.
    #[prost(bool, tag = "5")]
    pub sole: bool,
    /// Clients of two applications have the file open, and one of them writes: operations on it
    /// must have a claim.
    #[prost(bool, tag = "6")]
    pub shared: bool,
    /// The file is small and leased to the client.
    #[prost(message, optional, tag = "7")]
    pub kept: Option<KeptSmall>,
}

/// Report a writer's size and time; with `detach`, close the file.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a field of its own on the wire"
)]
pub struct ReportRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The file's size, if the client asked all its servers; needs `turn`.
    #[prost(uint64, optional, tag = "2")]
    pub size: Option<u64>,
    /// Time of the last write; absent: nothing was written.
    #[prost(int64, optional, tag = "3")]
    pub modified: Option<i64>,
    /// The attachment ends.
    #[prost(bool, tag = "4")]
    pub detach: bool,
    /// The attachment was one for writing.
    #[prost(bool, tag = "5")]
    pub write: bool,
    /// One past the last canonical byte that this attachment wrote, if known: the size follows from
    /// it if no other client wrote meanwhile.
    #[prost(uint64, optional, tag = "6")]
    pub end: Option<u64>,
    /// An unprivileged writer wrote: the file loses its set-id bits.
    #[prost(bool, tag = "7")]
    pub kill_priv: bool,
    /// The `turn` of the reply that requested the size; the client asked the servers after it.
    #[prost(uint64, optional, tag = "8")]
    pub turn: Option<u64>,
    /// The client can ask the servers for the size, if the service requests it.
    #[prost(bool, tag = "9")]
    pub can_ask: bool,
    /// Forks other than `data` were written or removed: the service asks the servers for their
    /// lengths.
    #[prost(bool, tag = "10")]
    pub forks: bool,
}

/// Done, unless the service requests the size.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReportReply {
    /// The size does not follow from `end`, and no other writer is left to report it: nothing was
    /// done; ask the servers and report again with `size` and `turn`.
    #[prost(bool, tag = "1")]
    pub size_wanted: bool,
    /// The attributes, where a writer's attachment has ended and they are exact.
    #[prost(message, optional, tag = "2")]
    pub attributes: Option<Attributes>,
    /// No other client has written the file during this attachment.
    #[prost(bool, tag = "3")]
    pub alone: bool,
    /// Identifies the period for which a requested size is valid: it ends when another writer
    /// attaches (which may detach before the size is reported) or the file is truncated.
    #[prost(uint64, tag = "4")]
    pub turn: u64,
}

/// End attachments that have nothing to report: those of readers, and of writers whose writes were
/// all stored or reported; and report access times. Files that do not exist or are not attached are
/// skipped.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DetachRequest {
    /// Files, once for each attachment for reading that ends.
    #[prost(uint64, repeated, tag = "1")]
    pub reading: Vec<u64>,
    /// Files, once for each attachment for writing that ends.
    #[prost(uint64, repeated, tag = "2")]
    pub writing: Vec<u64>,
    /// The last access times of files, directories and links, each once: they replace earlier
    /// times.
    #[prost(message, repeated, tag = "3")]
    pub accessed: Vec<Accessed>,
}

/// The access time of a file, directory or link.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Accessed {
    /// Its id.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The time, in nanoseconds since the epoch.
    #[prost(int64, tag = "2")]
    pub time: i64,
}

/// Done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DetachReply {}

/// Report what a client still has open after its connection was lost.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReassertRequest {
    /// Files, one entry per attachment.
    #[prost(uint64, repeated, tag = "1")]
    pub reading: Vec<u64>,
    /// Files attached for writing, one entry per attachment.
    #[prost(uint64, repeated, tag = "2")]
    pub writing: Vec<u64>,
    /// Locks that it holds.
    #[prost(message, repeated, tag = "3")]
    pub locks: Vec<HeldLock>,
    /// The service may acknowledge this client's operations before they survive power loss, by at
    /// most about a second.
    #[prost(bool, tag = "4")]
    pub lazy: bool,
    /// The client's name, for the administrator.
    #[prost(string, tag = "5")]
    pub name: String,
    /// The application that the client belongs to; empty: none in particular.
    #[prost(string, tag = "6")]
    pub application: String,
}

/// Which of them are lost.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReassertReply {
    /// Files that were deleted meanwhile.
    #[prost(uint64, repeated, tag = "1")]
    pub gone: Vec<u64>,
    /// Locks that it no longer holds: other clients hold conflicting ones.
    #[prost(message, repeated, tag = "2")]
    pub lost: Vec<HeldLock>,
}
