//! Messages of `weft fsck`: what namespace and servers list of themselves, what they find in
//! themselves, and repairs.

mod finding;
mod namespace;
mod store;

pub use finding::{Fault, Finding};
pub use namespace::{
    AdoptFileRequest, CheckNamespaceReply, CheckNamespaceRequest, FileState, ListFilesReply,
    ListFilesRequest, ListedCheckpoint, NameOf, NamesOfReply, NamesOfRequest, RepairNamespaceReply,
    RepairNamespaceRequest,
};
pub use store::{
    CellState, CheckStoreReply, CheckStoreRequest, CheckpointedState, ListCellsReply,
    ListCellsRequest, ListKeptReply, ListKeptRequest, WhichDeletedReply, WhichDeletedRequest,
};
