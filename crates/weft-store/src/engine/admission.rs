//! Admission: which calls may add to dirty pages and the log, and which wait until both are within
//! their bounds.
//!
//! A large call reserves what it will add and waits before it comes near the bounds; a small call
//! goes on up to the bounds. So a large job that runs into the bounds again and again delays only
//! itself, and many large jobs do not exceed the bounds together. Large calls wait one after the
//! other, so that calls that need less cannot overtake one for ever.
//!
//! A waiting call is woken by the background task, when it freed something or found nothing to do,
//! and by a large call that ends.

use std::sync::Arc;

use super::Inner;
use super::bounds::Bounds;
use crate::counters::Counters;
use crate::error::StoreError;
use crate::limits::{LARGE_CALL_CHECKS, PASSES_TO_FREE, SMALL_CALLS_SHARE};
use crate::pool::BLOCK;
use crate::state::CallLoad;

/// A call whose small pieces add no more than this is a small call.
const SMALL_CALL: CallLoad = CallLoad::new(128 << 10, 64 << 10, 1 << 10);

impl From<&Bounds> for CallLoad {
    fn from(bounds: &Bounds) -> Self {
        CallLoad::new(bounds.dirty, bounds.log, bounds.replay)
    }
}

/// The reservation of a large call. Dropping it releases what it reserved; it must not be dropped
/// under the state's lock.
pub(crate) struct Admission(Arc<Inner>, CallLoad);

impl Drop for Admission {
    fn drop(&mut self) {
        let Admission(inner, load) = self;
        let mut state = inner.lock();
        state.discharge(load);
        drop(state);
        inner.wake_waiting_calls();
    }
}

impl Inner {
    /// Waits until dirty pages and the log are within their bounds.
    pub(crate) async fn admit(&self) -> Result<(), StoreError> {
        self.admit_load(&CallLoad::default()).await.map(drop)
    }

    /// As [`Inner::admit`], for a call that frees more than it adds: a full disk is no reason to
    /// refuse it.
    pub(crate) async fn admit_freeing(&self) -> Result<(), StoreError> {
        match self.admit().await {
            Err(StoreError::NoSpace { .. } | StoreError::IndexFull { .. }) => Ok(()),
            other => other,
        }
    }

    /// As [`Inner::admit`], for a call that adds `load`. A large call holds the returned
    /// reservation until it has added its load. The future must be polled until it is ready: other
    /// large calls wait behind it.
    pub(crate) async fn admit_load(
        &self,
        load: &CallLoad,
    ) -> Result<Option<Admission>, StoreError> {
        let large = self.bounds().rules.admission && !load.fits(&SMALL_CALL);
        let _turn = if large {
            Some(self.turns().large_call().await)
        } else {
            None
        };
        let bounds = CallLoad::from(self.bounds());
        let (mut checks, first) = (0, self.passes());
        // Passes that had ended when a disk was first seen to have failed.
        let mut broken = None;
        let admitted = loop {
            let wake = self.next_wake();
            tokio::pin!(wake);
            wake.as_mut().enable();
            // Before the state's lock: the log's may have to be taken for it.
            let log_has_space = self.log().has_space();
            {
                let mut state = self.lock();
                state.check_writable()?;
                let now = CallLoad::new(
                    state.dirty().blocks() * BLOCK as u64,
                    self.log().bytes(),
                    state.head().to_replay(),
                );
                let limit = if large && checks < LARGE_CALL_CHECKS {
                    large_call_limit(load, &bounds)
                } else {
                    bounds
                };
                if large {
                    let all = now.with(state.admitted(), |now, reserved| now + reserved);
                    if all.fits(&limit) {
                        state.admit(load);
                        break Some(Admission(self.to_arc(), *load));
                    }
                } else if now.fits(&limit) {
                    break None;
                }
                let fits = now.fits(&limit);
                let passes = self.passes();
                let broken = if state.space().keeps_promises() {
                    broken = None;
                    false
                } else {
                    passes >= *broken.get_or_insert(passes) + PASSES_TO_FREE
                };
                let tried = passes >= first + PASSES_TO_FREE;
                if !fits && (broken || tried && !log_has_space) {
                    // Waiting would not end: a disk failed, and dirty pages have nowhere to go; or
                    // the log is full and the background task has freed what it can.
                    return Err(StoreError::NoSpace {
                        needed: now.dirty(),
                        available: 0,
                    });
                }
                if tried && now.passes_log(&limit) {
                    self.index().check_space()?;
                }
                let half = bounds.with(&bounds, |bound, _| bound / 2);
                let waits_for_calls = now.fits(&half) || fits && tried;
                if !waits_for_calls {
                    self.wake_background();
                }
            }
            if checks == 0 {
                Counters::add(&self.counters().stalls, 1);
            }
            checks += 1;
            wake.await;
        };
        if self.log().has_space() {
            return Ok(admitted);
        }
        // Retained segments may be the space that the log lacks.
        self.wake_background();
        Err(StoreError::NoSpace {
            needed: BLOCK as u64,
            available: 0,
        })
    }
}

/// The load up to which a large call is admitted: it leaves small calls their share of the bounds.
/// At least half of the bounds, because from there on the background task frees something.
fn large_call_limit(load: &CallLoad, bounds: &CallLoad) -> CallLoad {
    bounds.with(load, |bound, added| {
        let large = bound - bound / SMALL_CALLS_SHARE;
        (large - added.min(large)).max(bound / 2)
    })
}
