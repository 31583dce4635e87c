//! Progress records at the target: what was copied before, and where a part continues.
//!
//! Owns the records, and the decision where a part begins. Invariant: progress counts only for
//! bytes that are durable and still at the target. Nothing here moves data; `data/` does.

mod begin;
mod records;
mod target;

pub(super) use begin::{Begin, LostProgress, Occupied, ResumeInput, decide};
pub(super) use records::{FoundRecords, Identity, ProgressRecord, ProgressRecords};
pub(super) use target::{TargetState, TransferTarget, look};
