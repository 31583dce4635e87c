//! Ranges of cells: where data is, zeroing, extending, copying, advice.

use super::access::{Access, Grid};
use crate::stamp::ServerPosition;

/// Ask where a fork has data in the cells on one server.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DataRunsRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Layout parameters.
    #[prost(message, required, tag = "2")]
    pub grid: Grid,
    /// The receiving server's position in the layout's server list.
    #[prost(uint32, tag = "3")]
    pub slot: u32,
    /// The fork.
    #[prost(string, tag = "4")]
    pub fork: String,
    /// Data at or after this offset of the canonical order.
    #[prost(uint64, tag = "5")]
    pub from: u64,
    /// The number of a checkpoint of the file; 0: the file as it is.
    #[prost(uint64, tag = "6")]
    pub checkpoint: u64,
}

/// Consecutive bytes of a cell's fork that are no hole.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DataRun {
    /// Cell.
    #[prost(uint32, tag = "1")]
    pub cell: u32,
    /// First byte in the cell.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    /// How many bytes.
    #[prost(uint64, tag = "3")]
    pub length: u64,
}

/// Runs of data; ascending, disjoint and not empty within each cell.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DataRunsReply {
    /// The runs, cut at `next`.
    #[prost(message, repeated, tag = "1")]
    pub runs: Vec<DataRun>,
    /// All data before this offset of the canonical order was told: ask again from there. Absent:
    /// all data was.
    #[prost(uint64, optional, tag = "2")]
    pub next: Option<u64>,
}

/// Make what a request touches on one server zeros; no length changes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ClearRangeRequest {
    /// What.
    #[prost(message, required, tag = "1")]
    pub access: Access,
}

/// Done, and survives the death of the server's process.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ClearRangeReply {}

/// Make each cell on one server so long that it holds the pieces of a request, with holes; none
/// becomes shorter, and no byte changes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExtendCellsRequest {
    /// What is to be held.
    #[prost(message, required, tag = "1")]
    pub access: Access,
    /// The chunk size of the file.
    #[prost(uint32, tag = "2")]
    pub chunk: u32,
}

/// Done, and survives the death of the server's process.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ExtendCellsReply {}

/// What a client knows of bytes and a server does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Advice {
    /// Advice of a newer peer: nothing is done.
    Unknown = 0,
    /// They will be read soon: bring them into the cache.
    Fetch = 1,
    /// They will not be touched soon: write what is dirty to its place, and let them go first.
    Release = 2,
}

/// Bring what a request touches into the server's cache, or let it go.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AdviseRequest {
    /// Which bytes.
    #[prost(message, required, tag = "1")]
    pub access: Access,
    /// What is known of them.
    #[prost(enumeration = "Advice", tag = "2")]
    pub advice: i32,
}

/// What came of advice.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AdviseReply {
    /// Bytes that were read from the disks for it.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
}

/// Copy the bytes of one request's pieces to those of another on the same server, both in view
/// order. What is a hole there is one here; cells grow to the ends of their pieces.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CopyRangeRequest {
    /// Where the bytes come from.
    #[prost(message, required, tag = "1")]
    pub from: Access,
    /// Where they go to: pieces of as many bytes together.
    #[prost(message, required, tag = "2")]
    pub to: Access,
    /// The chunk size of the file they go to.
    #[prost(uint32, tag = "3")]
    pub chunk: u32,
}

/// The bytes survive the death of the server's process.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CopyRangeReply {
    /// Bytes of the pieces, holes included.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
}

/// Copy what this server has of a range to the servers of another file, or of another part of the
/// same. Both are contiguous, in canonical order and equally long; what is a hole there becomes
/// zeros.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SendRangeRequest {
    /// Where the bytes come from.
    #[prost(message, required, tag = "1")]
    pub from: Access,
    /// Where they go to, in whatever slot.
    #[prost(message, required, tag = "2")]
    pub to: Access,
    /// The chunk size of the file they go to.
    #[prost(uint32, tag = "3")]
    pub chunk: u32,
    /// The servers of the file they go to, slot by slot.
    #[prost(uint32, repeated, tag = "4")]
    pub servers: Vec<u32>,
}

/// The bytes survive the death of any server's process.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SendRangeReply {
    /// Bytes that were sent.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
    /// Covers what the target's servers wrote of them.
    #[prost(message, repeated, tag = "2")]
    pub written: Vec<ServerPosition>,
}
