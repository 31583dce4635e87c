//! Messages to the metadata service that coordinate the clients of a volume: locks, offsets for
//! appends, notifications of changes, and durability of names.

use bytes::Bytes;

use crate::stamp::Position;

/// Make every metadata operation that was acknowledged so far, to any client, survive power loss.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SyncNamespaceRequest {
    /// The positions that the client got for its changes: the service answers
    /// [`Lost`](crate::Code::Lost) if it lacks one of them.
    #[prost(message, repeated, tag = "1")]
    pub changed: Vec<Position>,
}

/// Done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SyncNamespaceReply {}

/// Reserve a range to append to: the service assigns offsets, so that no two appends overlap.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AppendRequest {
    /// The file, which the client has attached for writing.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Bytes that will be written.
    #[prost(uint64, tag = "2")]
    pub length: u64,
    /// One past the last canonical byte that this client knows.
    #[prost(uint64, tag = "3")]
    pub known_end: u64,
}

/// The reserved range.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AppendReply {
    /// Its first byte in canonical order.
    #[prost(uint64, tag = "1")]
    pub offset: u64,
}

/// Wait for changes by other clients; answered at once if there are any, else empty after two
/// seconds.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct WatchRequest {
    /// The run of the service that `cursor` belongs to; 0: report changes from now on.
    #[prost(uint64, tag = "1")]
    pub boot: u64,
    /// The cursor of the last answer.
    #[prost(uint64, tag = "2")]
    pub cursor: u64,
    /// The client may have bytes that programs wrote to open files and that it has not sent.
    #[prost(bool, tag = "3")]
    pub gathers: bool,
}

/// A name in a directory whose entry was replaced or removed.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Message)]
pub struct ChangedEntry {
    /// The directory.
    #[prost(uint64, tag = "1")]
    pub parent: u64,
    /// The name.
    #[prost(bytes = "bytes", tag = "2")]
    pub name: Bytes,
}

/// Changes by other clients after the cursor, without duplicates.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WatchReply {
    /// This run of the service.
    #[prost(uint64, tag = "1")]
    pub boot: u64,
    /// Where the next request continues.
    #[prost(uint64, tag = "2")]
    pub cursor: u64,
    /// Anything may have changed: the cursor belongs to another run, is too old, or absent.
    #[prost(bool, tag = "3")]
    pub everything: bool,
    /// Files whose attributes or data changed.
    #[prost(uint64, repeated, tag = "4")]
    pub files: Vec<u64>,
    /// Names whose entry changed.
    #[prost(message, repeated, tag = "5")]
    pub entries: Vec<ChangedEntry>,
    /// Delegated directories that other clients wait for: the client must return them.
    #[prost(uint64, repeated, tag = "6")]
    pub recalled: Vec<u64>,
    /// Files that other clients are opening: before its next `Watch`, the client sends what was
    /// written to them.
    #[prost(uint64, repeated, tag = "7")]
    pub opened: Vec<u64>,
}

/// The two families of locks, which do not conflict with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum LockFamily {
    /// Both: only to release all locks of an owner on a file.
    Any = 0,
    /// `flock`: the whole file; a conversion releases the old lock first.
    Whole = 1,
    /// `fcntl`: ranges of bytes, which split and merge.
    Range = 2,
}

/// The requested state of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum LockKind {
    /// No lock.
    Unlock = 0,
    /// Compatible with other shared locks.
    Shared = 1,
    /// Compatible with no other lock.
    Exclusive = 2,
}

/// A held lock.
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
    /// The client's number for the owner.
    #[prost(uint64, tag = "4")]
    pub owner: u64,
    /// The process that took it, for display.
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
    /// The lock to hold afterwards.
    #[prost(message, required, tag = "1")]
    pub lock: HeldLock,
    /// Wait until it can be granted. The wait ends with the call.
    #[prost(bool, tag = "2")]
    pub wait: bool,
}

/// The outcome of a lock request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum LockOutcome {
    /// Never sent.
    Unspecified = 0,
    /// The lock is granted or released.
    Granted = 1,
    /// Another owner holds a conflicting lock, and the request does not wait.
    Held = 2,
    /// Waiting would never end: the holder of the conflicting lock waits for this owner.
    Deadlock = 3,
    /// The client, or all clients together, have reached the limit of held or waiting locks.
    TooMany = 4,
}

/// The outcome.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LockReply {
    /// The outcome.
    #[prost(enumeration = "LockOutcome", tag = "1")]
    pub outcome: i32,
    /// The conflicting lock, if there is one.
    #[prost(message, optional, tag = "2")]
    pub blocker: Option<HeldLock>,
}

/// Ask for a lock that conflicts with this one.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TestLockRequest {
    /// The lock.
    #[prost(message, required, tag = "1")]
    pub lock: HeldLock,
}

/// The conflicting lock.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TestLockReply {
    /// The first conflicting lock; absent: none.
    #[prost(message, optional, tag = "1")]
    pub blocker: Option<HeldLock>,
}
