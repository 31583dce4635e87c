//! The background task: it flushes, applies the log and frees space when it is woken.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::Inner;
use crate::error::StoreError;
use crate::limits::{
    APPLY_INTERVAL, BACKOFF_MAX, BACKOFF_MIN, FULL_SLOTS, POOL_RELEASE_INTERVAL,
    REMOVED_FORKS_DELAY,
};
use crate::pool::BLOCK;
use crate::signals::Signals;
use crate::state::StoreState;

/// The backoff of work that costs only space when it is left undone: after each error it waits
/// longer.
#[derive(Default)]
struct Backoff {
    delay: Duration,
    next_try: Option<Instant>,
    /// When the next failure may be logged: the full disk may hold the server's log file as well.
    next_warning: Option<Instant>,
}

impl Backoff {
    fn is_due(&self) -> bool {
        self.next_try.is_none_or(|at| at <= Instant::now())
    }

    /// Takes note of an attempt. After an error the next one waits no longer than `longest`.
    fn record(&mut self, result: Result<(), StoreError>, longest: Duration) {
        let Err(error) = result else {
            *self = Self::default();
            return;
        };
        let now = Instant::now();
        self.next_try = Some(now + (self.delay * 2).clamp(BACKOFF_MIN, longest));
        if self.next_warning.is_none_or(|at| at <= now) {
            self.delay = (self.delay * 2).clamp(BACKOFF_MIN, BACKOFF_MAX);
            self.next_warning = Some(now + self.delay);
            tracing::warn!(%error, "the log and unused space cannot be freed yet; the store tries again");
        }
    }
}

/// The backoffs of the background task: of freeing space, and of an application for which the index
/// has no space.
#[derive(Default)]
struct Backoffs {
    space: Backoff,
    index: Backoff,
}

/// Closes the store to writes if the background task panics: nothing would free space any more.
struct PanicGuard(Weak<Inner>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(store) = self.0.upgrade()
        {
            let reason = "it panicked; the server's log says where".into();
            store.fail("work in the background", reason);
        }
    }
}

/// Flushes and applies when it is woken, until the store is dropped or closed, or fails.
///
/// An error of work that must be done closes the store to writes and wakes the waiting calls.
pub(crate) async fn background(signals: Arc<Signals>, store: Weak<Inner>) {
    let _panic_guard = PanicGuard(store.clone());
    let (mut removal_due, mut backoffs) = (false, Backoffs::default());
    let mut apply_at = Instant::now() + APPLY_INTERVAL;
    let mut pool_at = Instant::now() + POOL_RELEASE_INTERVAL;
    loop {
        let removal_at = removal_due.then(|| Instant::now() + REMOVED_FORKS_DELAY);
        let (space, index) = (&backoffs.space, &backoffs.index);
        let timers = [removal_at, space.next_try, index.next_try, Some(pool_at)];
        let first = timers.into_iter().flatten().fold(apply_at, Instant::min);
        // Woken by a timer or by a call: either way there may be work.
        drop(tokio::time::timeout_at(first, signals.woken()).await);
        if signals.is_stopped() {
            return;
        }
        let Some(inner) = store.upgrade() else { return };
        if pool_at <= Instant::now() {
            pool_at = Instant::now() + POOL_RELEASE_INTERVAL;
            inner.pool().release_idle();
        }
        let has_removed = inner.lock().changes().has_removed();
        if apply_at <= Instant::now() {
            apply_at = Instant::now() + APPLY_INTERVAL;
            if inner.lock().differs_from_index() || !inner.removal().is_done() {
                inner.request_application();
            }
        }
        if removal_due && has_removed {
            inner.request_application();
        }
        removal_due = has_removed && !removal_due;
        if let Err(error) = inner.run_pass(&mut backoffs).await {
            inner.fail("work in the background", error.to_string());
            return;
        }
    }
}

impl Inner {
    /// Whether dirty pages are to be written now, before they reach their bound.
    pub(crate) fn has_much_dirty(&self, state: &StoreState) -> bool {
        let dirty = state.dirty().blocks() * BLOCK as u64;
        if self.bounds().rules.low_water {
            return dirty > self.bounds().dirty / 2;
        }
        dirty > self.bounds().dirty
    }

    /// Whether the log is to be applied: at half of its bound.
    pub(crate) fn log_is_long(&self, state: &StoreState) -> bool {
        self.log().bytes() > self.bounds().log / 2
            || state.head().to_replay() > self.bounds().replay / 2
            || state.changes().chunks().len() as u64 > self.bounds().changed
    }

    /// Frees what is not needed any more: a step of a deferred truncation, dropped checkpoints,
    /// segments of the log.
    async fn free_space(&self) -> Result<(), StoreError> {
        let truncated = {
            let state = self.lock();
            state
                .forks()
                .first_deferred_truncation()
                .filter(|_| !state.is_closed())
        };
        let stepped = truncated.map_or(Ok(false), |id| self.step_truncation(id));
        // One step at a time: pages must be flushed, and other work must get its turn.
        if truncated.is_some()
            && stepped.is_ok()
            && self.lock().forks().first_deferred_truncation().is_some()
        {
            self.wake_background();
            tokio::task::yield_now().await;
        }
        let merged = self.merge_if_open().await;
        let removed = self.release_applied_log().await;
        stepped.and(merged).and(removed)
    }

    async fn run_pass(&self, backoffs: &mut Backoffs) -> Result<(), StoreError> {
        if backoffs.space.is_due() {
            let done = self.free_space().await;
            self.lock().check_failed()?;
            backoffs.space.record(done, BACKOFF_MAX);
        }
        let mut may_flush = true;
        let wanted = self.take_application_request();
        if wanted || self.log_is_long(&self.lock()) {
            match self.apply().await {
                Err(full @ StoreError::IndexFull { .. }) => {
                    if wanted {
                        self.request_application();
                    }
                    if backoffs.index.is_due() {
                        backoffs.index.record(Err(full), BACKOFF_MIN);
                    }
                    // Dirty pages are written all the same, unless what is left is reserved for
                    // deletions; writers at the log's bound find out that waiting would not end.
                    may_flush = self.log().has_space();
                }
                done => {
                    done?;
                    backoffs.index = Backoff::default();
                }
            }
        } else {
            backoffs.index = Backoff::default();
        }
        let write_behind = may_flush && self.bounds().rules.write_behind;
        if write_behind && self.lock().take_full_slots(FULL_SLOTS) {
            self.flush_full().await?;
        }
        let much = self.has_much_dirty(&self.lock());
        if may_flush && much {
            self.flush(self.bounds().dirty / 4).await?;
        }
        // Also after a pass that freed nothing: waiting calls then find out that waiting would not
        // end.
        self.end_pass();
        Ok(())
    }
}
