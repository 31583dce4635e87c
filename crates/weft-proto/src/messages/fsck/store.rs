//! Messages to I/O servers: what a store holds, and the check of the store in itself.

use super::finding::Finding;
use crate::io::ForkPlace;

/// A fork of a cell on a server.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CellState {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The cell.
    #[prost(uint32, tag = "2")]
    pub cell: u32,
    /// The fork.
    #[prost(string, tag = "3")]
    pub fork: String,
    /// One past its last byte.
    #[prost(uint64, tag = "4")]
    pub length: u64,
    /// Its last write, nanoseconds since the epoch.
    #[prost(int64, tag = "5")]
    pub modified: i64,
    /// Bytes of a chunk; 0: not set yet.
    #[prost(uint32, tag = "6")]
    pub chunk: u32,
}

/// One page of the forks of cells that a server has, in the order of file, cell and name.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListCellsRequest {
    /// Forks of this file after `after`, and those of all later files.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Absent: from the file's first.
    #[prost(message, optional, tag = "2")]
    pub after: Option<ForkPlace>,
    /// Only those of `file`.
    #[prost(bool, tag = "3")]
    pub only: bool,
}

/// A page of forks.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListCellsReply {
    /// In order.
    #[prost(message, repeated, tag = "1")]
    pub cells: Vec<CellState>,
    /// There are more after the last one.
    #[prost(bool, tag = "2")]
    pub more: bool,
    /// Cells that the server lacks of files with smaller ids may have existed: reading them fails.
    /// About all files, or about the requested one; 0: none.
    #[prost(uint64, tag = "3")]
    pub doubted_below: u64,
    /// For the one requested file: its cells may be longer, or others may exist.
    #[prost(bool, tag = "4")]
    pub doubted_ends: bool,
}

/// A checkpoint of a file on a server.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CheckpointedState {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The checkpoint's number.
    #[prost(uint64, tag = "2")]
    pub number: u64,
    /// When it was made.
    #[prost(int64, tag = "3")]
    pub made: i64,
}

/// One page of the checkpoints that a server has, in the order of file and number.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ListKeptRequest {
    /// Checkpoints of this file after `number`, and those of all later files.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// 0: from the file's first.
    #[prost(uint64, tag = "2")]
    pub number: u64,
    /// Only those of `file`.
    #[prost(bool, tag = "3")]
    pub only: bool,
}

/// A page of checkpoints.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListKeptReply {
    /// In order.
    #[prost(message, repeated, tag = "1")]
    pub kept: Vec<CheckpointedState>,
    /// There are more after the last one.
    #[prost(bool, tag = "2")]
    pub more: bool,
}

/// Ask which of some files a server has deleted.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WhichDeletedRequest {
    /// The files.
    #[prost(uint64, repeated, tag = "1")]
    pub files: Vec<u64>,
}

/// The files that were deleted.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WhichDeletedReply {
    /// In the order of the request.
    #[prost(uint64, repeated, tag = "1")]
    pub files: Vec<u64>,
}

/// Check a section of a server's store.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CheckStoreRequest {
    /// The pass, a number chosen by the client. A number that the server does not know begins a new
    /// pass and ends the current one.
    #[prost(uint64, tag = "1")]
    pub pass: u64,
    /// How many sections of this pass the client has received; a number other than the server's is
    /// answered with [`crate::Code::Stale`].
    #[prost(uint64, tag = "2")]
    pub part: u64,
    /// Read every block and compare it with its checksum.
    #[prost(bool, tag = "3")]
    pub data: bool,
    /// Repair what can be repaired.
    #[prost(bool, tag = "4")]
    pub repair: bool,
}

/// The result of one section.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckStoreReply {
    /// The pass has ended.
    #[prost(bool, tag = "1")]
    pub done: bool,
    /// Chunks checked in this section.
    #[prost(uint64, tag = "2")]
    pub chunks: u64,
    /// Bytes of their blocks.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// Bytes that the store held when the pass began.
    #[prost(uint64, tag = "4")]
    pub total: u64,
    /// The faults found.
    #[prost(message, repeated, tag = "5")]
    pub findings: Vec<Finding>,
    /// Findings of this section that did not fit.
    #[prost(uint64, tag = "6")]
    pub more: u64,
}
