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
    /// Bytes of chunk; 0: not fixed yet.
    #[prost(uint32, tag = "6")]
    pub chunk: u32,
}

/// One page of the forks of cells that a server has, in the order of file, cell and name.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListCellsRequest {
    /// Those of this file that come after `after`, and those of all later files.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Absent: from the file's first on.
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
    /// There are more behind the last one.
    #[prost(bool, tag = "2")]
    pub more: bool,
    /// Cells of files before this one that the server does not have may have been there: reading
    /// them is an error. Of all files, or of the one that was asked for; 0: none.
    #[prost(uint64, tag = "3")]
    pub doubted_below: u64,
    /// Of the one file that was asked for: it is in doubt whether its cells are longer, or others
    /// are there.
    #[prost(bool, tag = "4")]
    pub doubted_ends: bool,
}

/// A checkpoint of a file on a server.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct KeptState {
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
    /// Those of this file above `number`, and those of all later files.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// 0: from the file's first on.
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
    pub kept: Vec<KeptState>,
    /// There are more behind the last one.
    #[prost(bool, tag = "2")]
    pub more: bool,
}

/// Which of some files a server has deleted.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WhichDeletedRequest {
    /// Of these.
    #[prost(uint64, repeated, tag = "1")]
    pub files: Vec<u64>,
}

/// The files that were deleted.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WhichDeletedReply {
    /// In the order in which they were asked for.
    #[prost(uint64, repeated, tag = "1")]
    pub files: Vec<u64>,
}

/// Check a part of a server's own store.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CheckStoreRequest {
    /// The pass, a number that its client chose. A number that the server does not know begins a
    /// pass and ends the one that is under way.
    #[prost(uint64, tag = "1")]
    pub pass: u64,
    /// How many parts of this pass the client was told; another number than the server's:
    /// [`crate::Code::Stale`].
    #[prost(uint64, tag = "2")]
    pub part: u64,
    /// Read every block and compare it with its checksum.
    #[prost(bool, tag = "3")]
    pub data: bool,
    /// Repair what can be.
    #[prost(bool, tag = "4")]
    pub repair: bool,
}

/// What a part of a check looked at.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckStoreReply {
    /// The pass is at its end.
    #[prost(bool, tag = "1")]
    pub done: bool,
    /// Chunks looked at in this part.
    #[prost(uint64, tag = "2")]
    pub chunks: u64,
    /// Bytes of their blocks.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// Bytes that the store held when the pass began.
    #[prost(uint64, tag = "4")]
    pub total: u64,
    /// What is wrong.
    #[prost(message, repeated, tag = "5")]
    pub findings: Vec<Finding>,
    /// Findings of this part that did not fit.
    #[prost(uint64, tag = "6")]
    pub more: u64,
}
