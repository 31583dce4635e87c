//! Messages to I/O servers.
//!
//! A request carries view, layout parameters and pattern; the server computes its pieces from them,
//! so the size of a request does not grow with their number.

mod access;
mod cells;
mod data;
mod ranges;

pub use access::{
    Access, Contiguous, Grid, Part, PartKind, PartRepeat, Partition, Pattern, PatternKind, Runs,
    Shaped, Subfile, View, ViewKind,
};
pub use cells::{
    CellRun, CellStatusReply, CellStatusRequest, CreateForkReply, CreateForkRequest,
    DeleteCellsReply, DeleteCellsRequest, ForkPlace, ForkSeen, ForkState, RemoveForkReply,
    RemoveForkRequest, TruncateCellsReply, TruncateCellsRequest,
};
pub use data::{ReadReply, ReadRequest, SyncReply, SyncRequest, WriteReply, WriteRequest};
pub use ranges::{
    Advice, AdviseReply, AdviseRequest, ClearRangeReply, ClearRangeRequest, CopyRangeReply,
    CopyRangeRequest, DataRun, DataRunsReply, DataRunsRequest, ExtendCellsReply,
    ExtendCellsRequest, SendRangeReply, SendRangeRequest,
};
