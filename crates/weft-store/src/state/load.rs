//! The load that calls in flight add to dirty pages and log, which have bounds.

use crate::key::Run;
use crate::log::{DATA_COST, cost_of_run};
use crate::pool::BLOCK;

/// Encoded bytes of a run of pieces without its data.
const RUN_BYTES: u64 = 24;

/// The load of a call's small pieces, approximately: blocks of odd chunks, and the maps of direct
/// writes, are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallLoad {
    /// Bytes of dirty pages.
    dirty: u64,
    /// Bytes of data in the log.
    log: u64,
    /// The cost of its replay, in units of [`LogHead::logged`](crate::log::LogHead::logged).
    replay: u64,
}

impl CallLoad {
    /// A load of dirty bytes, bytes in the log, and replay cost.
    pub(crate) const fn new(dirty: u64, log: u64, replay: u64) -> Self {
        Self { dirty, log, replay }
    }

    /// Bytes of dirty pages.
    pub(crate) fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Whether the load on the log is beyond a bound.
    pub(crate) fn passes_log(&self, bound: &CallLoad) -> bool {
        self.log > bound.log || self.replay > bound.replay
    }

    /// The load of small pieces.
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

    /// Combines two loads field by field.
    pub(crate) fn with(self, other: &CallLoad, each: impl Fn(u64, u64) -> u64) -> Self {
        CallLoad {
            dirty: each(self.dirty, other.dirty),
            log: each(self.log, other.log),
            replay: each(self.replay, other.replay),
        }
    }

    /// Whether each field is within a bound.
    pub(crate) fn fits(&self, other: &CallLoad) -> bool {
        self.dirty <= other.dirty && self.log <= other.log && self.replay <= other.replay
    }
}
