//! What the index lacks: changes that only memory and log have, and entries that are to be removed.
//!
//! Invariants:
//! 1. Until an application has copied a change, the log keeps the frames that made it.
//! 2. A removed fork leaves the index in parts of bounded size.

mod application;
mod changes;
mod removal;
mod visit;

pub(crate) use application::{Application, IndexBatches};
pub(crate) use changes::{Changes, RemovedFork};
pub(crate) use removal::Removal;
pub(crate) use visit::visit;
