//! The log: frames in order, in segment files.
//!
//! Owns the segment files, the queue of frames, the log's progress (the file `reached`), and the
//! history of incarnations beside it. While the store is open, only this module writes these files.
//! Before that, `recovery/` truncates, trims and removes segments and writes `reached`; a repair
//! copies damaged segments, adds one, and removes `reached`.
//!
//! Calls:
//! - under the state's lock, [`LogHead`] queues frames and holds the progress of each stage;
//! - [`Log::append`] writes queued frames; [`Log::unsynced`] and [`Log::synced`] enclose a sync;
//! - [`Log::rotate`], [`Log::release_through`], [`Log::settled`] and [`Log::remove_settled`] belong
//!   to an application to the index; [`Log::remove_all`] to a clean close;
//! - [`parse`] and [`Log::new`] open a log; [`find_frames`] and [`is_torn`] serve a repair.
//!
//! A segment is *active* while frames are appended to it, then *closed*, then *retained* (applied,
//! but the index may have parts of it only in its journal), then *settled*, and removed. The
//! *spare* is the next active segment, created in advance so that a full disk is detected before it
//! blocks writes. Where syncs are frequent, zeros are written ahead of the frames: a sync of
//! overwritten bytes is faster (`segments.rs`).
//!
//! The segment files have a lock of their own. Lock order: this lock, then the state's. The log
//! does not import `state`, which holds its head, so it takes frames through [`FrameSource`].
//!
//! Invariants:
//! 1. Frames are appended in the order of their sequences.
//! 2. A segment is removed only after the index's tables have all of its frames; if space is short
//!    and the index may not grow, its journal is enough (`commit/apply.rs`).

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
