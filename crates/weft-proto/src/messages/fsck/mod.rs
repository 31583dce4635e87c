//! Messages of `weft fsck`: what namespace and servers list of themselves, what they find in
//! themselves, and repairs.
//!
//! Owns the wire form of findings ([`Finding`]). Invariants: listings come in pages, each of which
//! fits a body; a repair names the fault that it expects, so one that is out of date changes
//! nothing. Messages only: checks and repairs are in `weft-meta`, `weft-store` and `weft-client`.

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
