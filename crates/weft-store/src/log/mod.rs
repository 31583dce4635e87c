//! The log: frames in order, in segment files.
//!
//! Owns the segment files, the queue of frames, the log's progress, and the history of incarnations
//! beside it. While the store is open, only this module writes these files; before that,
//! `recovery/` truncates the log, and a repair adds a segment. Calls: [`Log::append`],
//! [`Log::rotate`], [`Log::release_through`] while the store runs; [`parse`] when it opens;
//! [`LogHead`] holds the queue under the state's lock.
//!
//! Invariants:
//! 1. Frames are appended in the order of their sequences.
//! 2. A segment is removed only after the index's tables have all of its frames.

mod cost;
mod frames;
mod head;
mod incarnations;
mod queue;
mod segments;
mod source;

pub(crate) use cost::{DATA_COST, MAP_COST, cost_of_run};
pub(crate) use frames::{LogDamage, ParsedLog, find_frames, is_torn, parse, used_length};
pub(crate) use head::LogHead;
pub(crate) use incarnations::Incarnations;
pub(crate) use queue::{FrameQueue, OpenFrame};
pub(crate) use segments::{Log, REACHED, ReplayedLog, Segment, Unsynced, trim_segment};
pub(crate) use source::FrameSource;
