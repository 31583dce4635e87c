//! The mount's budget of dirty bytes.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Counts dirty bytes, those in flight included; writers wait while it is spent.
pub(super) struct DirtyBudget {
    used: AtomicUsize,
    limit: usize,
    freed: Notify,
}

impl DirtyBudget {
    pub(super) fn new(limit: usize) -> DirtyBudget {
        DirtyBudget {
            used: AtomicUsize::new(0),
            limit,
            freed: Notify::new(),
        }
    }

    /// Replaces a charge of `before` bytes by one of `now` bytes.
    pub(super) fn change(&self, before: usize, now: usize) {
        if now >= before {
            self.used.fetch_add(now - before, Ordering::AcqRel);
        } else {
            self.used.fetch_sub(before - now, Ordering::AcqRel);
            self.freed.notify_waiters();
        }
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    pub(super) fn is_spent(&self) -> bool {
        self.used() >= self.limit
    }

    /// Fires when bytes are freed after it was enabled.
    pub(super) fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }
}
