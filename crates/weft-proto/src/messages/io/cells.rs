//! Cells and forks: their lengths, creation and removal.

use super::access::Grid;

/// Lengths of cells `first, first + step, …`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CellRun {
    /// First cell.
    #[prost(uint32, tag = "1")]
    pub first: u32,
    /// Distance from one cell to the next.
    #[prost(uint32, tag = "2")]
    pub step: u32,
    /// The number of cells.
    #[prost(uint32, tag = "3")]
    pub count: u32,
    /// The length of each.
    #[prost(uint64, tag = "4")]
    pub length: u64,
}

/// Ask for lengths and times.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CellStatusRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Continue after this cell and fork (paging); empty: from the start.
    #[prost(message, optional, tag = "2")]
    pub after: Option<ForkPlace>,
    /// Only this fork of every cell; empty: all forks.
    #[prost(string, tag = "3")]
    pub fork: String,
    /// The number of a checkpoint of the file; 0: the current file.
    #[prost(uint64, tag = "4")]
    pub checkpoint: u64,
}

/// A fork's place.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ForkPlace {
    /// Cell.
    #[prost(uint32, tag = "1")]
    pub cell: u32,
    /// Fork.
    #[prost(string, tag = "2")]
    pub fork: String,
}

/// Length and time of a fork.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ForkState {
    /// Cell.
    #[prost(uint32, tag = "1")]
    pub cell: u32,
    /// Fork.
    #[prost(string, tag = "2")]
    pub fork: String,
    /// Bytes.
    #[prost(uint64, tag = "3")]
    pub length: u64,
    /// Last write, nanoseconds since the epoch.
    #[prost(int64, tag = "4")]
    pub modified: i64,
    /// Bytes that it occupies on disk.
    #[prost(uint64, tag = "5")]
    pub stored: u64,
}

/// Forks in ascending order of cell and name.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CellStatusReply {
    /// The forks.
    #[prost(message, repeated, tag = "1")]
    pub forks: Vec<ForkState>,
    /// There are more: ask again after the last one.
    #[prost(bool, tag = "2")]
    pub more: bool,
    /// Forks may be longer, or others may exist (the file is in doubt).
    #[prost(bool, tag = "3")]
    pub doubted: bool,
}

/// Set the `data` forks' lengths for a file size. Applied once per `op`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TruncateCellsRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Layout parameters.
    #[prost(message, required, tag = "2")]
    pub grid: Grid,
    /// The receiving server's position in the layout's server list.
    #[prost(uint32, tag = "3")]
    pub slot: u32,
    /// The file's new size in canonical order.
    #[prost(uint64, tag = "4")]
    pub size: u64,
    /// Number of this operation on the file, ascending: an operation is not repeated.
    #[prost(uint64, tag = "5")]
    pub op: u64,
}

/// Done, and survives power loss.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TruncateCellsReply {}

/// Remove every cell and fork of a file; later writes to it are refused.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeleteCellsRequest {
    /// The files.
    #[prost(uint64, repeated, tag = "1")]
    pub files: Vec<u64>,
}

/// Done, and survives power loss.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DeleteCellsReply {}

/// Create an empty fork.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateForkRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Cell and name.
    #[prost(message, required, tag = "2")]
    pub place: ForkPlace,
    /// The file's chunk size.
    #[prost(uint32, tag = "3")]
    pub chunk: u32,
    /// Create it even if the server has lost what it had of the file: the fork then counts as
    /// empty.
    #[prost(bool, tag = "4")]
    pub accept_loss: bool,
    /// With `accept_loss`: instead of the file, its checkpoint of this number counts as empty where
    /// the server lacks it.
    #[prost(uint64, optional, tag = "5")]
    pub checkpoint: Option<u64>,
}

/// Done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CreateForkReply {}

/// Remove a fork.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RemoveForkRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Cell and name.
    #[prost(message, required, tag = "2")]
    pub place: ForkPlace,
    /// Only if it is unchanged since then.
    #[prost(message, optional, tag = "3")]
    pub seen: Option<ForkSeen>,
}

/// The state of a fork at some moment.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ForkSeen {
    /// Bytes.
    #[prost(uint64, tag = "1")]
    pub length: u64,
    /// The last write or truncate, in nanoseconds since the epoch.
    #[prost(int64, tag = "2")]
    pub modified: i64,
}

/// Done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RemoveForkReply {
    /// It has changed, and stays.
    #[prost(bool, tag = "1")]
    pub changed: bool,
}
