//! The background task: flushes, applies the log and frees space when it is woken.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::Inner;
use crate::error::StoreError;
use crate::limits::FULL_SLOTS;
use crate::pool::BLOCK;
use crate::signals::Signals;
use crate::state::State;

/// How long removed forks may keep blocks that only the index knows.
const REAP_AFTER: Duration = Duration::from_secs(2);

/// How long something may be in the log alone.
const APPLY_AFTER: Duration = Duration::from_secs(30);

/// How long memory stays that nobody uses, at least: a load that pauses finds it again.
const TIDY_EVERY: Duration = Duration::from_secs(5);

/// The shortest and the longest wait before work that failed is tried again.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Work that costs nothing but space when it is left undone: after an error it is tried again, ever
/// later.
#[derive(Default)]
struct Retry {
    pause: Duration,
    at: Option<Instant>,
    /// When it may be said again that it failed: the disk that is full may be that of the server's
    /// own log.
    say: Option<Instant>,
}

impl Retry {
    fn is_due(&self) -> bool {
        self.at.is_none_or(|at| at <= Instant::now())
    }

    /// `longest`: after which it is tried again at the latest.
    fn done(&mut self, result: Result<(), StoreError>, longest: Duration) {
        let Err(error) = result else {
            *self = Self::default();
            return;
        };
        let now = Instant::now();
        self.at = Some(now + (self.pause * 2).clamp(RETRY.0, longest));
        if self.say.is_none_or(|say| say <= now) {
            self.pause = (self.pause * 2).clamp(RETRY.0, RETRY.1);
            self.say = Some(now + self.pause);
            tracing::warn!(%error, "the log and space that is not needed any more do not come back yet; it is tried again");
        }
    }
}

/// What the background tries again: bringing space back, and an application for which the index has
/// no room.
#[derive(Default)]
struct Retries {
    space: Retry,
    index: Retry,
}

/// Closes the store to writes if the background panics: nobody would make room any more.
struct Watched(Weak<Inner>);

impl Drop for Watched {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(store) = self.0.upgrade()
        {
            let reason = "it panicked; the server's log says where".into();
            store.fail("work in the background", reason);
        }
    }
}

/// Flushes and applies when it is told to, until the store is dropped or closed, or fails.
///
/// An error of what must be done closes the store to writes: whoever waits for room is told.
pub(crate) async fn background(signals: Arc<Signals>, store: Weak<Inner>) {
    let _watched = Watched(store.clone());
    let (mut reap, mut retry) = (false, Retries::default());
    let mut apply_at = Instant::now() + APPLY_AFTER;
    let mut tidy_at = Instant::now() + TIDY_EVERY;
    loop {
        let reap_at = reap.then(|| Instant::now() + REAP_AFTER);
        let timers = [reap_at, retry.space.at, retry.index.at, Some(tidy_at)]
            .into_iter()
            .flatten();
        let first = timers.fold(apply_at, Instant::min);
        // Woken by a timer or by a call: either way there is something to look at.
        drop(tokio::time::timeout_at(first, signals.work.notified()).await);
        if signals.stop.load(Relaxed) {
            return;
        }
        let Some(inner) = store.upgrade() else { return };
        if tidy_at <= Instant::now() {
            tidy_at = Instant::now() + TIDY_EVERY;
            inner.pool.tidy();
        }
        let dead = inner.lock().changes().has_dead();
        if apply_at <= Instant::now() {
            apply_at = Instant::now() + APPLY_AFTER;
            if inner.lock().is_ahead_of_index() || !inner.removal.lock().is_done() {
                signals.apply.store(true, Relaxed);
            }
        }
        if reap && dead {
            signals.apply.store(true, Relaxed);
        }
        reap = dead && !reap;
        if let Err(error) = inner.work(&mut retry).await {
            inner.fail("work in the background", error.to_string());
            return;
        }
    }
}

impl Inner {
    /// Whether dirty pages are to be written before their bound is reached.
    pub(crate) fn has_much_dirty(&self, state: &State) -> bool {
        let dirty = state.dirty().blocks() * BLOCK as u64;
        if self.bounds.rules.low_water {
            return dirty > self.bounds.dirty / 2;
        }
        dirty > self.bounds.dirty
    }

    /// Whether the log is worth an application: half of what it may have.
    pub(crate) fn log_is_long(&self, state: &State) -> bool {
        self.log.bytes() > self.bounds.log / 2
            || state.head().to_replay() > self.bounds.replay / 2
            || state.changes().chunks().len() as u64 > self.bounds.changed
    }

    /// Frees what nobody needs any more: a part of a tail, dropped checkpoints, segments of the
    /// log.
    async fn free_space(&self) -> Result<(), StoreError> {
        let tail = {
            let state = self.lock();
            state.forks().first_tail().filter(|_| !state.is_closed())
        };
        let settled = tail.map_or(Ok(false), |id| self.settle_part(id));
        // One part at a time: pages must be flushed, and others want their turn.
        if tail.is_some() && settled.is_ok() && self.lock().forks().first_tail().is_some() {
            self.signals.work.notify_one();
            tokio::task::yield_now().await;
        }
        let merged = self.merge_if_open().await;
        let removed = self.remove_applied().await;
        settled.and(merged).and(removed)
    }

    async fn work(&self, retry: &mut Retries) -> Result<(), StoreError> {
        if retry.space.is_due() {
            let done = self.free_space().await;
            self.lock().check_failed()?;
            retry.space.done(done, RETRY.1);
        }
        let mut may_flush = true;
        let wanted = self.signals.apply.swap(false, Relaxed);
        if wanted || self.log_is_long(&self.lock()) {
            match self.apply().await {
                Err(full @ StoreError::IndexFull { .. }) => {
                    self.signals.apply.fetch_or(wanted, Relaxed);
                    if retry.index.is_due() {
                        retry.index.done(Err(full), RETRY.0);
                    }
                    // What is dirty goes to its place all the same, unless what is left is kept for
                    // deletions; writers at the log's bound see that waiting would not end.
                    may_flush = self.log.has_room();
                }
                done => {
                    done?;
                    retry.index = Retry::default();
                }
            }
        } else {
            retry.index = Retry::default();
        }
        let behind = may_flush && self.bounds.rules.write_behind;
        if behind && self.lock().take_full_slots(FULL_SLOTS) {
            self.flush_full().await?;
        }
        let much = self.has_much_dirty(&self.lock());
        if may_flush && much {
            self.flush(self.bounds.dirty / 4).await?;
        }
        // Whoever waits for room is not to wait for ever: it may have come by itself, or never
        // come.
        self.signals.passes.fetch_add(1, Release);
        self.signals.room.notify_waiters();
        Ok(())
    }
}
