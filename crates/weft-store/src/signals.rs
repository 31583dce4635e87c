//! Signals between callers and the background task.
//!
//! Owns the two notifications and the request for an application of the log. The background task
//! sleeps until [`Signals::wake`]; writers at a bound sleep on [`Signals::freed`].

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Signals between callers and the background task.
#[derive(Default)]
pub(crate) struct Signals {
    work: Notify,
    freed: Notify,
    /// Passes of the background task that have ended.
    passes: AtomicU64,
    apply: AtomicBool,
    stop: AtomicBool,
}

impl Signals {
    /// Wakes the background task.
    pub(crate) fn wake(&self) {
        self.work.notify_one();
    }

    /// Ends when the background task is to look for work.
    pub(crate) fn woken(&self) -> Notified<'_> {
        self.work.notified()
    }

    /// Notified whenever memory or log space was freed, and when the store failed or a pass ended.
    pub(crate) fn freed(&self) -> &Notify {
        &self.freed
    }

    /// Wakes all calls that wait for memory or log space.
    pub(crate) fn notify_freed(&self) {
        self.freed.notify_waiters();
    }

    /// How many passes of the background task have ended.
    pub(crate) fn passes(&self) -> u64 {
        self.passes.load(Acquire)
    }

    /// A pass of the background task has ended: waiting calls check their bounds again.
    pub(crate) fn end_pass(&self) {
        self.passes.fetch_add(1, Release);
        self.notify_freed();
    }

    /// The next pass applies the log, however short it is.
    pub(crate) fn request_apply(&self) {
        self.apply.store(true, Relaxed);
    }

    /// Whether an application was requested since the last call.
    pub(crate) fn take_apply_request(&self) -> bool {
        self.apply.swap(false, Relaxed)
    }

    /// Ends the background task after its current pass.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Relaxed);
        self.wake();
    }

    /// Whether the background task is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}
