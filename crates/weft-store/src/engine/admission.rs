//! Who may add to dirty pages and the log, and who waits until they are within their bounds.
//!
//! A large call sets aside what it will add, and waits before it comes near the bounds; a small one
//! goes on up to them. So a large job that runs into the bounds again and again holds up nobody but
//! itself, and many at once do not pass them together. Large calls wait one after the other: none
//! is passed by others that need less, again and again.
//!
//! Whoever waits is woken: by the background when it made room or found nothing to do, by a large
//! call that ends.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use super::Inner;
use super::bounds::Bounds;
use crate::counters::Counters;
use crate::error::StoreError;
use crate::pool::BLOCK;
use crate::state::Load;

/// Of the bounds, what is left to small calls: an eighth.
const LEFT_TO_SMALL: u64 = 8;
/// How often a large call looks for room before it goes on wherever the bounds allow it, as small
/// ones do.
const LOOKS: u32 = 16;
/// Passes of the background that end: the second began after the first look, and what it can do is
/// done.
const PASSES: u64 = 2;
/// A call that adds no more by its small pieces is a small one.
const SMALL: Load = Load::new(128 << 10, 64 << 10, 1 << 10);

impl From<&Bounds> for Load {
    fn from(bounds: &Bounds) -> Self {
        Load::new(bounds.dirty, bounds.log, bounds.replay)
    }
}

/// A large call may go on; what it set aside is given back when this is dropped, which must not be
/// under the state's lock.
pub(crate) struct Admitted(Arc<Inner>, Load);

impl Drop for Admitted {
    fn drop(&mut self) {
        let Admitted(inner, load) = self;
        let mut state = inner.lock();
        state.discharge(load);
        drop(state);
        inner.signals.room.notify_waiters();
    }
}

impl Inner {
    /// Waits until dirty pages and the log are within their bounds.
    pub(crate) async fn admit(&self) -> Result<(), StoreError> {
        self.admit_load(&Load::default()).await.map(drop)
    }

    /// As [`Inner::admit`], for a call that adds so much; a large one keeps what is returned until
    /// it has been added. Whoever waits here must go on being polled: other large calls wait
    /// behind.
    pub(crate) async fn admit_load(&self, load: &Load) -> Result<Option<Admitted>, StoreError> {
        let large = self.bounds.rules.turns && !load.fits(&SMALL);
        let _turn = if large {
            Some(self.large_turn.lock().await)
        } else {
            None
        };
        let bounds = Load::from(&self.bounds);
        let (mut looks, first) = (0, self.signals.passes.load(Acquire));
        // Passes that had ended when a disk was first seen to have failed.
        let mut broken = None;
        let admitted = loop {
            let room = self.signals.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            {
                let mut state = self.lock();
                state.check_writable()?;
                let now = Load::new(
                    state.dirty().blocks() * BLOCK as u64,
                    self.log.bytes(),
                    state.head().to_replay(),
                );
                let within = if large && looks < LOOKS {
                    room_for(load, &bounds)
                } else {
                    bounds
                };
                if large {
                    let all = now.with(state.admitted(), |now, soon| now + soon);
                    if all.fits(&within) {
                        state.admit(load);
                        break Some(Admitted(self.me(), *load));
                    }
                } else if now.fits(&within) {
                    break None;
                }
                let fits = now.fits(&within);
                let passes = self.signals.passes.load(Acquire);
                let broken = if state.space().keeps_promises() {
                    broken = None;
                    false
                } else {
                    passes >= *broken.get_or_insert(passes) + PASSES
                };
                // Waiting would not end where all was tried that makes room.
                let tried = passes >= first + PASSES;
                if !fits && (broken || tried && !self.log.has_room()) {
                    // A disk failed, and what is dirty has nowhere to go; or nothing more can be
                    // noted.
                    return Err(StoreError::NoSpace {
                        needed: now.dirty(),
                        available: 0,
                    });
                }
                if tried && now.passes_log(&within) {
                    self.index.check_room()?;
                }
                let half = bounds.with(&bounds, |bound, _| bound / 2);
                let only_others = now.fits(&half) || fits && tried;
                if !only_others {
                    self.signals.work.notify_one();
                }
            }
            if looks == 0 {
                Counters::add(&self.counters.stalls, 1);
            }
            looks += 1;
            room.await;
        };
        if self.log.has_room() {
            return Ok(admitted);
        }
        // What is kept of the log may be the room that it lacks.
        self.signals.work.notify_one();
        Err(StoreError::NoSpace {
            needed: BLOCK as u64,
            available: 0,
        })
    }
}

/// Up to where there is room for a large call: so far before the bounds that it leaves small ones
/// their part, and half of them at least, from where on there is work that makes room.
fn room_for(load: &Load, bounds: &Load) -> Load {
    bounds.with(load, |bound, mine| {
        let large = bound - bound / LEFT_TO_SMALL;
        (large - mine.min(large)).max(bound / 2)
    })
}
