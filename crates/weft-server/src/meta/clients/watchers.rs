//! Watchers: calls that wait for changes by others.
//!
//! Waking all watchers costs as much as there are watchers. So a woken watcher waits before it
//! looks, the longer the more watchers there are: together they look at most some ten thousand
//! times a second.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::limits::{WATCH_DELAY, WATCH_DELAY_MAX, WATCH_DELAY_PER_WATCHER};
use crate::tasks::OnDrop;

/// The waiting watchers, and operations that wait for holders of leases and delegations.
pub(in crate::meta) struct Watchers {
    /// Identifies this incarnation of the service to watchers; never 0.
    boot: u64,
    changed: Notify,
    /// The change up to which watchers were woken.
    notified: AtomicU64,
    waiting: AtomicUsize,
    /// A holder of leases or delegations has answered.
    answered: Notify,
}

impl Watchers {
    pub(in crate::meta) fn new(random: u64) -> Watchers {
        Watchers {
            boot: random | 1,
            changed: Notify::new(),
            notified: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            answered: Notify::new(),
        }
    }

    pub(in crate::meta) fn boot(&self) -> u64 {
        self.boot
    }

    /// Wakes watchers if there are more changes than at the last call.
    pub(in crate::meta) fn notify(&self, published: u64) {
        if self.notified.fetch_max(published, Ordering::AcqRel) < published {
            self.wake();
        }
    }

    /// Wakes all watchers.
    pub(in crate::meta) fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// Completes when watchers are woken.
    pub(in crate::meta) fn woken(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Wakes the operations that wait for a holder.
    pub(in crate::meta) fn holder_answered(&self) {
        self.answered.notify_waiters();
    }

    /// Completes when a holder has answered.
    pub(in crate::meta) fn answer(&self) -> Notified<'_> {
        self.answered.notified()
    }

    /// Counts a watcher while the guard lives.
    pub(in crate::meta) fn enter(&self) -> OnDrop<impl FnOnce()> {
        OnDrop::count(&self.waiting)
    }

    /// How long a woken watcher waits before it looks.
    pub(in crate::meta) fn delay(&self) -> Duration {
        let waiting = u32::try_from(self.waiting.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        WATCH_DELAY
            .saturating_add(WATCH_DELAY_PER_WATCHER.saturating_mul(waiting))
            .min(WATCH_DELAY_MAX)
    }
}
