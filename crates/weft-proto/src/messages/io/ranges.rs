//! Ranges of cells: where data is, zeroing, extending, copying, advice.

use super::access::{Access, Grid};
use crate::order::Claim;
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
    /// The number of a checkpoint of the file; 0: the current file.
    #[prost(uint64, tag = "6")]
    pub checkpoint: u64,
}

/// Consecutive bytes of a cell's fork without a hole.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DataRun {
    /// Cell.
    #[prost(uint32, tag = "1")]
    pub cell: u32,
    /// First byte in the cell.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    /// The number of bytes.
    #[prost(uint64, tag = "3")]
    pub length: u64,
}

/// Runs of data; ascending, disjoint and not empty within each cell.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DataRunsReply {
    /// The runs, up to `next`.
    #[prost(message, repeated, tag = "1")]
    pub runs: Vec<DataRun>,
    /// The reply covers all data before this offset of the canonical order: ask again from there.
    /// Absent: it covers all data.
    #[prost(uint64, optional, tag = "2")]
    pub next: Option<u64>,
}

/// Zero what a request touches on one server; no length changes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ClearRangeRequest {
    /// The bytes.
    #[prost(message, required, tag = "1")]
    pub access: Access,
    /// Its place in the order of the file, if it has one. Unless the operation is alone, it is
    /// staged, and takes effect with a later call.
    #[prost(message, optional, tag = "2")]
    pub claim: Option<Claim>,
}

/// Done, and survives the death of the server's process, unless it is staged only.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ClearRangeReply {
    /// The claim was granted.
    #[prost(bool, tag = "1")]
    pub granted: bool,
}

/// Extend each cell on one server, with holes, to hold the pieces of a request; no cell becomes
/// shorter, and no byte changes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExtendCellsRequest {
    /// The bytes to hold.
    #[prost(message, required, tag = "1")]
    pub access: Access,
    /// The chunk size of the file.
    #[prost(uint32, tag = "2")]
    pub chunk: u32,
}

/// Done, and survives the death of the server's process.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ExtendCellsReply {}

/// A client's hint about future accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Advice {
    /// Advice of a newer peer: ignored.
    Unknown = 0,
    /// The bytes will be read soon: fetch them into the cache.
    Fetch = 1,
    /// The bytes will not be touched soon: write back what is dirty, and evict them first.
    Release = 2,
}

/// Fetch what a request touches into the server's cache, or release it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AdviseRequest {
    /// The bytes.
    #[prost(message, required, tag = "1")]
    pub access: Access,
    /// The hint.
    #[prost(enumeration = "Advice", tag = "2")]
    pub advice: i32,
}

/// The result of advice.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AdviseReply {
    /// Bytes that were read from disk for it.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
}

/// Copy the bytes of one request's pieces to those of another on the same server, both in view
/// order. Holes are copied as holes; cells grow to the ends of their pieces.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CopyRangeRequest {
    /// The source.
    #[prost(message, required, tag = "1")]
    pub from: Access,
    /// The target: pieces of as many bytes in total.
    #[prost(message, required, tag = "2")]
    pub to: Access,
    /// The chunk size of the target file.
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

/// Copy this server's share of a range to the servers of another file, or of another range of the
/// same file. Both ranges are contiguous, in canonical order and equally long; holes become zeros.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SendRangeRequest {
    /// The source.
    #[prost(message, required, tag = "1")]
    pub from: Access,
    /// The target; its slot is ignored.
    #[prost(message, required, tag = "2")]
    pub to: Access,
    /// The chunk size of the target file.
    #[prost(uint32, tag = "3")]
    pub chunk: u32,
    /// The servers of the target file, by slot.
    #[prost(uint32, repeated, tag = "4")]
    pub servers: Vec<u32>,
}

/// The bytes survive the death of any server's process.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SendRangeReply {
    /// Bytes that were sent.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
    /// The positions that cover the writes of the target's servers.
    #[prost(message, repeated, tag = "2")]
    pub written: Vec<ServerPosition>,
}
