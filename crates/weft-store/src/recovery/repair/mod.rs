//! Repair of a store that does not open (`docs/design/0009-fsck.md`).
//!
//! Works on the index, the labels and the log of a closed store, and removes what keeps it from
//! opening. It loses no valid byte; what cannot be read is marked as lost or put in doubt, so that
//! no reader gets wrong bytes.

mod index;
mod labels;
mod log;
mod unproven;

pub use index::{OpenBlocker, RepairMode, repair_closed};
