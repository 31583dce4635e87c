//! What calls in flight add to the bounded parts of a store.

use crate::key::Run;
use crate::log::{DATA_COST, cost_of_run};
use crate::pool::BLOCK;

/// What is encoded of a run of pieces beside its data.
const RUN_BYTES: u64 = 24;

/// What the small pieces of a call add to what has bounds, roughly: blocks of odd chunks, and the
/// maps of what goes the direct way, are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallLoad {
    /// Bytes of dirty pages.
    dirty: u64,
    /// Bytes of data in the log.
    log: u64,
    /// What it costs to replay, in units of [`LogHead::logged`](crate::log::LogHead::logged).
    replay: u64,
}

impl CallLoad {
    /// A load of so many dirty bytes, bytes in the log and units of replay.
    pub(crate) const fn new(dirty: u64, log: u64, replay: u64) -> Self {
        Self { dirty, log, replay }
    }

    /// Bytes of dirty pages.
    pub(crate) fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Whether the log's part of the load is beyond a bound.
    pub(crate) fn passes_log(&self, bound: &CallLoad) -> bool {
        self.log > bound.log || self.replay > bound.replay
    }

    /// That of small pieces.
    pub(crate) fn of<'a>(runs: impl Iterator<Item = &'a Run>) -> Self {
        let mut load = CallLoad::default();
        for run in runs {
            let block = BLOCK as u64;
            let each = run.count * (run.length / block + 2);
            let spanned = (run.end() - run.offset.0) / block + 2;
            load.dirty += each.min(spanned) * block;
            load.log += run.bytes() + RUN_BYTES;
            load.replay += DATA_COST + cost_of_run(run);
        }
        load
    }

    /// Combines two loads, each part by itself.
    pub(crate) fn with(self, other: &CallLoad, each: impl Fn(u64, u64) -> u64) -> Self {
        CallLoad {
            dirty: each(self.dirty, other.dirty),
            log: each(self.log, other.log),
            replay: each(self.replay, other.replay),
        }
    }

    /// Whether each part is within a bound.
    pub(crate) fn fits(&self, other: &CallLoad) -> bool {
        self.dirty <= other.dirty && self.log <= other.log && self.replay <= other.replay
    }
}
