//! Attachments: opening a file, reporting size and times, closing it, and what is still open after a
//! reconnect.

use bytes::Bytes;

use super::attributes::{Attributes, LayoutWish};
use super::target::{Credentials, Target};
use crate::coord::HeldLock;

/// Create the file if it is not there.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Create {
    /// Permission bits.
    #[prost(uint32, tag = "1")]
    pub mode: u32,
    /// Fail if it is there.
    #[prost(bool, tag = "2")]
    pub exclusive: bool,
    /// Layout of the new file.
    #[prost(message, optional, tag = "3")]
    pub layout: Option<LayoutWish>,
    /// Bits that `mode` loses, unless the directory's default ACL decides.
    #[prost(uint32, tag = "4")]
    pub umask: u32,
}

/// Attach: the one request before data can be accessed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AttachRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Which file.
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
    /// The client can work with an inline file; to others every file has its bytes in its cells. A
    /// file that is created so begins inline.
    #[prost(bool, tag = "6")]
    pub inline: bool,
}

/// All that is needed to access data.
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
    /// All bytes of an inline file, perhaps none yet. Absent: the file's bytes are in its cells and
    /// stay there.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub inline: Option<Bytes>,
    /// Attached for writing: size and times were exact until now, and nobody else has it open for
    /// writing.
    #[prost(bool, tag = "5")]
    pub sole: bool,
}

/// What a writer knows of size and time; closes with `detach`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a field of its own on the wire"
)]
pub struct ReportRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The file's size, if the client asked all its servers; worth nothing without `turn`.
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
    /// One past the last canonical byte that this attachment wrote, if that is known: the size
    /// follows from it if nobody else wrote meanwhile.
    #[prost(uint64, optional, tag = "6")]
    pub end: Option<u64>,
    /// A writer that is not privileged wrote: the file loses its set-id bits.
    #[prost(bool, tag = "7")]
    pub kill_priv: bool,
    /// That of the answer that wanted the size, which was asked for after it.
    #[prost(uint64, optional, tag = "8")]
    pub turn: Option<u64>,
    /// The client can ask the servers for the size, if it is wanted.
    #[prost(bool, tag = "9")]
    pub can_ask: bool,
    /// Other forks than `data` were written or removed: how long they are the service asks the
    /// servers.
    #[prost(bool, tag = "10")]
    pub forks: bool,
}

/// Done, unless the size is wanted.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReportReply {
    /// `end` does not tell the size, and no other writer is left to tell it: nothing was done; ask
    /// the servers and report again with `size` and `turn`.
    #[prost(bool, tag = "1")]
    pub size_wanted: bool,
    /// Attributes after it, where a writer's attachment has ended and they are exact.
    #[prost(message, optional, tag = "2")]
    pub attributes: Option<Attributes>,
    /// Nobody else has written it while this attachment lasted.
    #[prost(bool, tag = "3")]
    pub alone: bool,
    /// What a size that is wanted is good for: until another writer comes, who may be gone before
    /// it is told, or the file is truncated.
    #[prost(uint64, tag = "4")]
    pub turn: u64,
}

/// End attachments that have nothing to tell: of readers, and of writers whose writes were all
/// stored or reported; and tell of what was read. Files that are not there, or not attached, are
/// passed over.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DetachRequest {
    /// Files, once for each attachment for reading that ends.
    #[prost(uint64, repeated, tag = "1")]
    pub reading: Vec<u64>,
    /// Files, once for each attachment for writing that ends.
    #[prost(uint64, repeated, tag = "2")]
    pub writing: Vec<u64>,
    /// When files, directories and links were read last, each once: those that have an earlier time
    /// get this one.
    #[prost(message, repeated, tag = "3")]
    pub accessed: Vec<Accessed>,
}

/// A file, directory or link was read.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Accessed {
    /// Its id.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// When, in nanoseconds since the epoch.
    #[prost(int64, tag = "2")]
    pub time: i64,
}

/// Done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DetachReply {}

/// What a client still has open after its connection was lost.
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
    /// To this client operations may be acknowledged before they survive power loss: at most about
    /// a second before.
    #[prost(bool, tag = "4")]
    pub lazy: bool,
    /// What the client calls itself, for the administrator's eyes.
    #[prost(string, tag = "5")]
    pub name: String,
}

/// Which of them no longer exist.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReassertReply {
    /// Files that were deleted meanwhile.
    #[prost(uint64, repeated, tag = "1")]
    pub gone: Vec<u64>,
    /// Locks that it holds no longer: others hold what they exclude.
    #[prost(message, repeated, tag = "2")]
    pub lost: Vec<HeldLock>,
}
