//! Memory for rounds between disk and wire, and who may hold it for how long.
//!
//! Invariants:
//! 1. Whoever waits for room holds none that it would only free afterwards: what a job still holds
//!    of its round before is freed by the store or by the wire. So whatever number of jobs comes at
//!    once, one of them goes on.
//! 2. Small rounds have room of their own: they are never stuck behind large ones.
//! 3. One client's jobs hold and wait for no more than [`SHARE`] at a time, so others are served in
//!    between.
//! 4. A stream that stands still holds room that others wait for no longer than [`HOLD`], whatever
//!    its group's patience.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use weft_net::Gone;

use crate::io::walk::Callers;

/// Bytes of rounds of all collectives of the server together, small ones aside.
const ROOM: u64 = 128 << 20;
/// Bytes of small rounds of all collectives of the server together.
const SMALL_ROOM: u64 = 8 << 20;
/// A round up to this size is small.
const SMALL: u64 = 64 << 10;
/// Bytes of rounds of one client's jobs.
const SHARE: u64 = 64 << 20;
/// Unit of all that.
const UNIT: u64 = 4 << 10;
/// How long a stream may stand still while others wait for room.
const HOLD: Duration = Duration::from_secs(10);
/// How often one that waits looks whether anybody still wants what it waits for.
const LOOK: Duration = Duration::from_millis(250);

/// Room that is waited for in turn.
struct Pool {
    free: Arc<Semaphore>,
    units: u64,
    waiting: AtomicUsize,
}

/// What one client's jobs may hold; those of a group are the first member's.
pub(in crate::io) struct Share(Pool);

/// The room of a server.
pub(super) struct Room {
    large: Pool,
    small: Pool,
}

/// Room for one round, until this is dropped.
pub(super) struct Held {
    _permits: [Option<OwnedSemaphorePermit>; 2],
}

/// How long the streams of a job may stand still.
#[derive(Clone)]
pub(super) struct Patience {
    room: Arc<Room>,
    share: Arc<Share>,
    /// Whether others wait for room or not.
    most: Duration,
}

impl Pool {
    fn new(bytes: u64) -> Pool {
        let units = bytes / UNIT;
        Pool {
            free: Arc::new(Semaphore::new(units as usize)),
            units,
            waiting: AtomicUsize::new(0),
        }
    }

    /// Room for so many bytes; all there is for more than that.
    async fn take(
        &self,
        bytes: u64,
        callers: &Callers,
    ) -> Result<Option<OwnedSemaphorePermit>, Gone> {
        let units = bytes.div_ceil(UNIT).min(self.units) as u32;
        if let Ok(permit) = self.free.clone().try_acquire_many_owned(units) {
            return Ok(Some(permit));
        }
        let _waiting = Waiting::new(&self.waiting);
        let mut permit = std::pin::pin!(self.free.clone().acquire_many_owned(units));
        loop {
            match timeout(LOOK, &mut permit).await {
                // The semaphore is never closed; without a permit the bound would only be softer.
                Ok(permit) => return Ok(permit.ok()),
                Err(_) if callers.gone() => return Err(Gone),
                Err(_) => {}
            }
        }
    }

    fn wanted(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }
}

/// Counts one that waits, until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn new(waiting: &AtomicUsize) -> Waiting<'_> {
        waiting.fetch_add(1, Ordering::AcqRel);
        Waiting(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Default for Share {
    fn default() -> Share {
        Share(Pool::new(SHARE))
    }
}

impl Default for Room {
    fn default() -> Room {
        Room {
            large: Pool::new(ROOM),
            small: Pool::new(SMALL_ROOM),
        }
    }
}

impl Room {
    /// Room for a round of these bytes.
    ///
    /// # Errors
    /// [`Gone`] when nobody wants the round any more.
    pub(super) async fn take(
        &self,
        bytes: u64,
        share: &Share,
        callers: &Callers,
    ) -> Result<Held, Gone> {
        if bytes <= SMALL {
            let permit = self.small.take(bytes, callers).await?;
            return Ok(Held {
                _permits: [permit, None],
            });
        }
        // The client's own first: so it waits for the others' with no more than its share.
        let own = share.0.take(bytes, callers).await?;
        let all = self.large.take(bytes, callers).await?;
        Ok(Held {
            _permits: [own, all],
        })
    }
}

impl Patience {
    pub(super) fn new(room: &Arc<Room>, share: &Arc<Share>, most: Duration) -> Patience {
        Patience {
            room: room.clone(),
            share: share.clone(),
            most,
        }
    }

    /// Completes when a stream has stood still for too long, which it does while `moved` stays the
    /// same; how long.
    pub(super) async fn ends(&self, moved: impl Fn() -> u64) -> Duration {
        let (mut since, mut last) = (Instant::now(), moved());
        loop {
            let left = self.most.saturating_sub(since.elapsed());
            sleep(left.clamp(Duration::from_millis(1), HOLD)).await;
            let now = moved();
            if now != last {
                (since, last) = (Instant::now(), now);
                continue;
            }
            let stood = since.elapsed();
            if stood >= self.most || (stood >= HOLD && self.wanted()) {
                return stood;
            }
        }
    }

    fn wanted(&self) -> bool {
        self.room.large.wanted() || self.room.small.wanted() || self.share.0.wanted()
    }
}
