//! Slots that are being prefetched, counted over all forks.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// How many slots are being prefetched.
#[derive(Default)]
pub(crate) struct Prefetches(Arc<AtomicUsize>);

impl Prefetches {
    /// Slots that are being prefetched now.
    pub(crate) fn slots(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// Counts a prefetch of `slots` slots.
    pub(crate) fn begin(&self, slots: usize) -> Prefetch {
        self.0.fetch_add(slots, Relaxed);
        Prefetch {
            count: Arc::clone(&self.0),
            slots,
        }
    }
}

/// A prefetch in flight: its slots count until this is dropped.
pub(crate) struct Prefetch {
    count: Arc<AtomicUsize>,
    slots: usize,
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.count.fetch_sub(self.slots, Relaxed);
    }
}
