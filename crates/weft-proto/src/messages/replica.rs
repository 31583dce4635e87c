//! Messages between the replicas of a server (`docs/design/0046-replicas.md`).

use bytes::Bytes;

use crate::stamp::Position;

/// The primary is there, and asks whether the backup is.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct BeaconRequest {
    /// The primary's term.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// The primary's number.
    #[prost(uint32, tag = "2")]
    pub primary: u32,
    /// Incarnations whose acknowledged changes the primary's store has, its own among them.
    #[prost(fixed64, repeated, tag = "3")]
    pub incarnations: Vec<u64>,
    /// The last frame of the primary's log; absent: not said.
    #[prost(message, optional, tag = "4")]
    pub position: Option<Position>,
}

/// The backup is there, and has the same term.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct BeaconReply {
    /// The incarnation of its store.
    #[prost(fixed64, tag = "1")]
    pub incarnation: u64,
    /// The last frame of its log.
    #[prost(uint64, tag = "2")]
    pub sequence: u64,
}

/// A fork of a cell.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ForkId {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The cell.
    #[prost(uint32, tag = "2")]
    pub cell: u32,
    /// The fork's name.
    #[prost(string, tag = "3")]
    pub fork: String,
}

/// Pieces that are written to one fork.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ForkWrite {
    /// The fork.
    #[prost(message, required, tag = "1")]
    pub fork: ForkId,
    /// The chunk size, and how chunks are kept.
    #[prost(uint32, tag = "2")]
    pub chunk: u32,
    /// Runs of pieces, four numbers each: offset of the first piece, bytes of a piece, pieces,
    /// distance from one piece to the next. Their bytes follow each other in the payload, after
    /// those of earlier forks.
    #[prost(uint64, repeated, tag = "3")]
    pub runs: Vec<u64>,
}

/// Write pieces; they are the payload. All take effect together.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WritePieces {
    /// The forks.
    #[prost(message, repeated, tag = "1")]
    pub forks: Vec<ForkWrite>,
}

/// A range of a fork.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ForkRange {
    /// The fork.
    #[prost(message, required, tag = "1")]
    pub fork: ForkId,
    /// The first byte.
    #[prost(uint64, tag = "2")]
    pub start: u64,
    /// One past the last byte.
    #[prost(uint64, tag = "3")]
    pub end: u64,
}

/// Make holes of ranges.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ClearRanges {
    /// The ranges.
    #[prost(message, repeated, tag = "1")]
    pub ranges: Vec<ForkRange>,
}

/// The length of a fork.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ForkLength {
    /// The fork.
    #[prost(message, required, tag = "1")]
    pub fork: ForkId,
    /// Its length in bytes.
    #[prost(uint64, tag = "2")]
    pub length: u64,
    /// The chunk size, and how chunks are kept.
    #[prost(uint32, tag = "3")]
    pub chunk: u32,
}

/// Set the lengths of forks of a file, once for each number.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SetLengths {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The lengths.
    #[prost(message, repeated, tag = "2")]
    pub lengths: Vec<ForkLength>,
    /// The operation's number.
    #[prost(uint64, tag = "3")]
    pub op: u64,
}

/// What a numbered operation does to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum FileAction {
    /// Nothing: the replica learns that the operation was done.
    Note = 0,
    /// Make a checkpoint, whose number is the operation's.
    Checkpoint = 1,
    /// Roll back to a checkpoint.
    RollBack = 2,
    /// Drop a checkpoint.
    DropCheckpoint = 3,
    /// Accept a checkpoint in which files have nothing here.
    AcceptCheckpoint = 4,
    /// Delete the files, whose ids are refused from now on.
    Delete = 5,
    /// Remove all forks, checkpoints and operations of the files.
    Empty = 6,
    /// Drop the blocks of a checkpoint, or of the current file, of which there is parity.
    Code = 7,
}

/// A numbered operation on whole files.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FileOperation {
    /// The files.
    #[prost(uint64, repeated, tag = "1")]
    pub files: Vec<u64>,
    /// What happens to them.
    #[prost(enumeration = "FileAction", tag = "2")]
    pub action: i32,
    /// The operation's number; 0: it has none.
    #[prost(uint64, tag = "3")]
    pub op: u64,
    /// The checkpoint; 0: none.
    #[prost(uint64, tag = "4")]
    pub checkpoint: u64,
}

/// A change of a store.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum Change {
    /// Write pieces.
    #[prost(message, tag = "2")]
    Write(WritePieces),
    /// Make holes.
    #[prost(message, tag = "3")]
    Clear(ClearRanges),
    /// Set lengths.
    #[prost(message, tag = "4")]
    SetLengths(SetLengths),
    /// Extend a fork.
    #[prost(message, tag = "5")]
    Extend(ForkLength),
    /// Create a fork; its length is 0.
    #[prost(message, tag = "6")]
    CreateFork(ForkLength),
    /// Remove a fork.
    #[prost(message, tag = "7")]
    RemoveFork(ForkId),
    /// Operate on files.
    #[prost(message, tag = "8")]
    Files(FileOperation),
    /// Sync the store.
    #[prost(bool, tag = "9")]
    Sync(bool),
}

/// Apply a change.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApplyRequest {
    /// The primary's term.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// The change.
    #[prost(oneof = "Change", tags = "2, 3, 4, 5, 6, 7, 8, 9")]
    pub change: Option<Change>,
    /// When the primary made the change, in nanoseconds since the epoch.
    #[prost(int64, tag = "10")]
    pub time: i64,
    /// Bytes of payload.
    #[prost(uint64, tag = "11")]
    pub bytes: u64,
    /// The replica's last `fence` in this term; 0: none.
    #[prost(uint64, tag = "12")]
    pub pass: u64,
}

/// Applied: it survives the death of the process; after a sync, power loss.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ApplyReply {}

/// May a backup show what it has read of a file? Answered when all changes of it that had begun
/// have ended.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ConfirmReadRequest {
    /// The term that the backup knew before it read.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// The file.
    #[prost(uint64, tag = "2")]
    pub file: u64,
    /// The backup's number.
    #[prost(uint32, tag = "3")]
    pub replica: u32,
    /// The incarnation of its store.
    #[prost(fixed64, tag = "4")]
    pub incarnation: u64,
}

/// It may: it is in sync, and was when it read.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ConfirmReadReply {}

/// One page of the files of a replica.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ReplicaFilesRequest {
    /// The primary's term.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// Files with larger ids.
    #[prost(uint64, tag = "2")]
    pub after: u64,
    /// Only this file; 0: any.
    #[prost(uint64, tag = "3")]
    pub only: u64,
    /// The replica begins to catch up, and lists nothing: from now on it refuses changes of this
    /// term with a smaller `pass`. 0: no.
    #[prost(uint64, tag = "4")]
    pub fence: u64,
    /// With `fence`: a position that the replica said before; absent: none.
    #[prost(message, optional, tag = "5")]
    pub position: Option<Position>,
}

/// A fork of a replica.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReplicaFork {
    /// The checkpoint that it is in; 0: none.
    #[prost(uint64, tag = "1")]
    pub checkpoint: u64,
    /// The cell.
    #[prost(uint32, tag = "2")]
    pub cell: u32,
    /// The fork's name.
    #[prost(string, tag = "3")]
    pub fork: String,
    /// Its length in bytes.
    #[prost(uint64, tag = "4")]
    pub length: u64,
    /// The chunk size, and how chunks are kept.
    #[prost(uint32, tag = "5")]
    pub chunk: u32,
    /// When it was changed last.
    #[prost(int64, tag = "6")]
    pub modified: i64,
}

/// A file of a replica.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReplicaFile {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The last numbered operation that it has seen.
    #[prost(uint64, tag = "2")]
    pub op: u64,
    /// It is deleted.
    #[prost(bool, tag = "3")]
    pub deleted: bool,
    /// Its checkpoints, ascending.
    #[prost(uint64, repeated, tag = "4")]
    pub checkpoints: Vec<u64>,
    /// Its forks, and those of its checkpoints.
    #[prost(message, repeated, tag = "5")]
    pub forks: Vec<ReplicaFork>,
}

/// Files, ascending by id.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReplicaFilesReply {
    /// The files.
    #[prost(message, repeated, tag = "1")]
    pub files: Vec<ReplicaFile>,
    /// There are more.
    #[prost(bool, tag = "2")]
    pub more: bool,
    /// The store still has everything up to `position`.
    #[prost(bool, tag = "3")]
    pub has: bool,
}

/// Hash the parts of a fork, of 1 MiB each, that hold data.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReplicaPartsRequest {
    /// The primary's term.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// The fork.
    #[prost(message, required, tag = "2")]
    pub fork: ForkId,
    /// The checkpoint that it is in; 0: none.
    #[prost(uint64, tag = "3")]
    pub checkpoint: u64,
    /// The first part.
    #[prost(uint64, tag = "4")]
    pub first: u64,
    /// The part behind the last one; absent: all that follow.
    #[prost(uint64, optional, tag = "5")]
    pub end: Option<u64>,
}

/// Read bytes of a fork, for a primary that cannot read its own.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReplicaReadRequest {
    /// The primary's term.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// The fork.
    #[prost(message, required, tag = "2")]
    pub fork: ForkId,
    /// The first byte.
    #[prost(uint64, tag = "3")]
    pub offset: u64,
    /// How many, at most 512 KiB.
    #[prost(uint64, tag = "4")]
    pub length: u64,
}

/// The bytes; fewer where the fork ends.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReplicaReadReply {
    /// The bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
}

/// Verify stored chunks of a replica, from a position on, at least one chunk.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReplicaScrubRequest {
    /// The primary's term.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// The `next` of an earlier reply; absent: from the beginning.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub from: Option<Bytes>,
    /// About how many bytes to read.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReplicaScrubReply {
    /// Where to go on; absent: this was all.
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub next: Option<Bytes>,
    /// Bytes read from the disk.
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
    /// Damaged ranges of live forks, which the primary can write anew.
    #[prost(message, repeated, tag = "3")]
    pub damaged: Vec<ForkRange>,
    /// Damaged ranges of checkpoints and of addressed chunks, which it cannot.
    #[prost(uint64, tag = "4")]
    pub others: u64,
}

/// A part of a fork.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReplicaPart {
    /// Its number: its first byte has the offset of so many MiB.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// BLAKE3 of its bytes without zeros at the end, 32 bytes; empty: they cannot be read.
    #[prost(bytes = "bytes", tag = "2")]
    pub hash: Bytes,
    /// Some of its bytes are only in parity.
    #[prost(bool, tag = "3")]
    pub coded: bool,
}

/// Parts that are not zeros alone, ascending.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReplicaPartsReply {
    /// The parts.
    #[prost(message, repeated, tag = "1")]
    pub parts: Vec<ReplicaPart>,
    /// Where the next request begins; absent: this was all.
    #[prost(uint64, optional, tag = "2")]
    pub next: Option<u64>,
}
