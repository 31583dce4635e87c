//! Files with parity: which are to be coded, and how they are (`docs/design/0050-parity.md`).

use bytes::Bytes;

use crate::meta::Layout;
use crate::replica::ForkId;

/// One page of the files with parity, in the order of their ids.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ListParityRequest {
    /// Files with larger ids.
    #[prost(uint64, tag = "1")]
    pub after: u64,
}

/// The files.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListParityReply {
    /// Ascending.
    #[prost(message, repeated, tag = "1")]
    pub files: Vec<ParityState>,
    /// Ask again after this id; 0: there are no more.
    #[prost(uint64, tag = "2")]
    pub next: u64,
}

/// A file with parity.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ParityState {
    /// Its id.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Its layout, with the parity that it should have.
    #[prost(message, required, tag = "2")]
    pub layout: Layout,
    /// When it was changed last, in nanoseconds since the epoch.
    #[prost(int64, tag = "3")]
    pub changed: i64,
    /// Its cells may have been changed since, or be changed just now.
    #[prost(bool, tag = "4")]
    pub busy: bool,
    /// It was not changed since it was coded.
    #[prost(bool, tag = "5")]
    pub same: bool,
    /// It has checkpoints that need what is coded now: it cannot be coded again.
    #[prost(bool, tag = "6")]
    pub pinned: bool,
    /// How it is coded.
    #[prost(message, optional, tag = "7")]
    pub coded: Option<Coding>,
    /// How it is being coded.
    #[prost(message, optional, tag = "8")]
    pub coding: Option<Coding>,
}

/// A state of a file of which there is parity.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Coding {
    /// The checkpoint of the file that the rows are made of.
    #[prost(uint64, tag = "1")]
    pub checkpoint: u64,
    /// The file whose cells have the parity: cell s on the server of slot s.
    #[prost(uint64, tag = "2")]
    pub parity_file: u64,
    /// 256 k + m.
    #[prost(uint32, tag = "3")]
    pub shape: u32,
    /// For each slot, the number of the replica that was primary, and has all its bytes; 0: the
    /// server had one store.
    #[prost(uint32, repeated, tag = "4")]
    pub primaries: Vec<u32>,
}

/// Begin to code a file: make a checkpoint of it, and an empty parity file. What an earlier attempt
/// left is removed.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct BeginCodingRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
}

/// All servers have the checkpoint.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct BeginCodingReply {
    /// The file, with `coding`.
    #[prost(message, required, tag = "1")]
    pub state: ParityState,
}

/// The parity file is complete and survives power loss: it counts from now on, and an earlier one
/// is removed with its checkpoint.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EndCodingRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// What was begun, with the primaries.
    #[prost(message, required, tag = "2")]
    pub coding: Coding,
}

/// Done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct EndCodingReply {}

/// How a file, or the file of which this one is the parity, is coded.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct FindCodingRequest {
    /// A file or a parity file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
}

/// The file; without one, neither is coded.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FindCodingReply {
    /// With the id of the file itself.
    #[prost(message, optional, tag = "1")]
    pub state: Option<ParityState>,
}

/// Read a piece of a row, to compute another one of it: bytes of a fork, at most 512 KiB.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadPieceRequest {
    /// The fork.
    #[prost(message, required, tag = "1")]
    pub fork: ForkId,
    /// The number of a checkpoint of the file; 0: the current file.
    #[prost(uint64, tag = "2")]
    pub checkpoint: u64,
    /// The first byte.
    #[prost(uint64, tag = "3")]
    pub offset: u64,
    /// How many bytes.
    #[prost(uint64, tag = "4")]
    pub length: u64,
    /// Of the current file: bytes that the server has only in rows are brought back there first.
    #[prost(bool, tag = "5")]
    pub restore: bool,
}

/// The bytes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadPieceReply {
    /// Fewer than were asked for where the fork ends.
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
}

/// Parity of a checkpoint, or of a file, is complete: the backups of the server need not keep its
/// blocks.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CodeCellsRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The number of its checkpoint; 0: the current file.
    #[prost(uint64, tag = "2")]
    pub checkpoint: u64,
}

/// The backups were told.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CodeCellsReply {}
