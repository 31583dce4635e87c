//! The low-water mark of the intents.

use std::sync::atomic::{AtomicU64, Ordering};

/// No intent below this number is pending. Scans begin here: the engine keeps a tombstone for each
/// completed intent, and a scan from 0 would walk over all of them.
#[derive(Debug, Default)]
pub(crate) struct OldestIntent(AtomicU64);

impl OldestIntent {
    /// Where a scan may begin.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// A scan found no intent below this number.
    pub(crate) fn advance(&self, oldest: u64) {
        self.0.fetch_max(oldest, Ordering::AcqRel);
    }
}
