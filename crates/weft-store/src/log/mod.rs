//! The log: frames in order, in segment files.
//!
//! Owns the segment files, the frames that wait to be appended, how far the log has come, and the
//! history of incarnations beside it. This room alone writes the log.
//!
//! Invariants:
//! 1. Frames reach a segment in the order of their sequences.
//! 2. A segment is removed only when the index's tables have all that it says.

mod cost;
mod frames;
mod head;
mod incarnations;
mod queue;
mod segments;
mod source;
pub(crate) use frames::held;
pub(crate) use frames::is_torn;
pub(crate) use frames::scattered;

pub(crate) use cost::{DATA_COST, MAP_COST, cost_of_run};
pub(crate) use frames::{Damage, Parsed, parse};
pub(crate) use head::Head;
pub(crate) use incarnations::Incarnations;
pub(crate) use queue::{OpenFrame, Queued};
pub(crate) use segments::{Log, REACHED, Replayed, Segment, Unsynced, trim};
pub(crate) use source::FrameSource;
