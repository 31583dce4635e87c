//! The differences between memory and index: changes that only memory and log have, and entries to
//! be deleted.
//!
//! Invariants:
//! 1. The log retains a frame until the index has its changes.
//! 2. A removed fork leaves the index in steps of bounded size.

mod application;
mod changes;
mod removal;
mod visit;

pub(crate) use application::{Application, IndexBatches};
pub(crate) use changes::{Changes, RemovedFork};
pub(crate) use removal::Removal;
pub(crate) use visit::visit;
