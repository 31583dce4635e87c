//! Messages to the metadata service by which clients of one volume keep out of each other's way:
//! locks, offsets for appends, news of changes, and when names are durable.

use bytes::Bytes;

use crate::stamp::Position;

/// Make every metadata operation acknowledged so far, to anybody, survive power loss.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SyncNamespaceRequest {
    /// What the client was told when it changed something: with [`Lost`](crate::Code::Lost) the
    /// service answers that some of it is gone.
    #[prost(message, repeated, tag = "1")]
    pub changed: Vec<Position>,
}

/// Done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SyncNamespaceReply {}

/// Where to append: the service deals out offsets, so that no two appends overlap.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AppendRequest {
    /// The file, which the client has attached for writing.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Bytes that will be written.
    #[prost(uint64, tag = "2")]
    pub length: u64,
    /// One past the last canonical byte that this client knows of.
    #[prost(uint64, tag = "3")]
    pub known_end: u64,
}

/// Write there.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AppendReply {
    /// The first byte's place in canonical order.
    #[prost(uint64, tag = "1")]
    pub offset: u64,
}

/// Ask what others have changed; answered at once if there is something, else empty after two
/// seconds.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct WatchRequest {
    /// The life of the service that `cursor` is of; 0: from now on.
    #[prost(uint64, tag = "1")]
    pub boot: u64,
    /// What the last answer said.
    #[prost(uint64, tag = "2")]
    pub cursor: u64,
}

/// A name in a directory that names something else now, or nothing.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Message)]
pub struct ChangedEntry {
    /// The directory.
    #[prost(uint64, tag = "1")]
    pub parent: u64,
    /// The name.
    #[prost(bytes = "bytes", tag = "2")]
    pub name: Bytes,
}

/// What other clients changed after the cursor, each thing once.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WatchReply {
    /// This life of the service.
    #[prost(uint64, tag = "1")]
    pub boot: u64,
    /// Where to go on.
    #[prost(uint64, tag = "2")]
    pub cursor: u64,
    /// Anything may have changed: the cursor was of another life, too old, or none.
    #[prost(bool, tag = "3")]
    pub everything: bool,
    /// Files whose attributes or data changed.
    #[prost(uint64, repeated, tag = "4")]
    pub files: Vec<u64>,
    /// Names whose entry changed.
    #[prost(message, repeated, tag = "5")]
    pub entries: Vec<ChangedEntry>,
    /// Delegated directories that others wait for: the client is to give them back.
    #[prost(uint64, repeated, tag = "6")]
    pub recalled: Vec<u64>,
}

/// The two families of locks, which do not see each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum LockFamily {
    /// Both: only to unlock all that an owner holds of a file.
    Any = 0,
    /// `flock`: the whole file; converting lets go first.
    Whole = 1,
    /// `fcntl`: ranges of bytes, which split and merge.
    Range = 2,
}

/// What is asked of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum LockKind {
    /// No lock.
    Unlock = 0,
    /// Beside other shared ones.
    Shared = 1,
    /// Alone.
    Exclusive = 2,
}

/// A lock that somebody holds.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct HeldLock {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Which family.
    #[prost(enumeration = "LockFamily", tag = "2")]
    pub family: i32,
    /// Shared or exclusive.
    #[prost(enumeration = "LockKind", tag = "3")]
    pub kind: i32,
    /// The client's number for who holds it.
    #[prost(uint64, tag = "4")]
    pub owner: u64,
    /// The process that took it, for people to see.
    #[prost(uint32, tag = "5")]
    pub pid: u32,
    /// First byte.
    #[prost(uint64, tag = "6")]
    pub start: u64,
    /// Last byte, included.
    #[prost(uint64, tag = "7")]
    pub last: u64,
}

/// Lock, convert or unlock a range of a file that the client has attached.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LockRequest {
    /// What is to hold afterwards.
    #[prost(message, required, tag = "1")]
    pub lock: HeldLock,
    /// Wait until it can be granted. The wait ends with the call.
    #[prost(bool, tag = "2")]
    pub wait: bool,
}

/// How a lock request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum LockOutcome {
    /// Never sent.
    Unspecified = 0,
    /// It is done.
    Granted = 1,
    /// Somebody else holds a lock in the way, and the request did not want to wait.
    Held = 2,
    /// Waiting would never end: whoever is in the way waits for this owner.
    Deadlock = 3,
    /// The client, or all clients together, hold or wait for as many locks as they may.
    TooMany = 4,
}

/// How it went.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LockReply {
    /// How it went.
    #[prost(enumeration = "LockOutcome", tag = "1")]
    pub outcome: i32,
    /// What is in the way, if something is.
    #[prost(message, optional, tag = "2")]
    pub blocker: Option<HeldLock>,
}

/// Ask what would be in the way of a lock.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TestLockRequest {
    /// The lock.
    #[prost(message, required, tag = "1")]
    pub lock: HeldLock,
}

/// What is in the way.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TestLockReply {
    /// The first lock in the way; absent: none.
    #[prost(message, optional, tag = "1")]
    pub blocker: Option<HeldLock>,
}
