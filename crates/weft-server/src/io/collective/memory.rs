//! Memory for rounds between disk and wire, and how long a stalled stream may hold it.
//!
//! Invariants:
//! 1. A job that waits for memory holds none that only it would free: the memory of its previous
//!    round is freed by the store or by the wire. So however many jobs arrive at once, one of them
//!    makes progress.
//! 2. Small rounds have a budget of their own, so they never wait behind large ones.
//! 3. The jobs of one client hold and wait for at most
//!    [`CLIENT_ROUND_MEMORY`](crate::limits::CLIENT_ROUND_MEMORY), so others are served in between.
//! 4. A stalled stream holds memory that others wait for no longer than
//!    [`CONTENDED_STALL_TIMEOUT`], however long its group would wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use weft_net::Gone;

use crate::io::job::walk::Callers;
use crate::limits::{
    CALLER_POLL_INTERVAL, CLIENT_ROUND_MEMORY, CONTENDED_STALL_TIMEOUT, ROUND_MEMORY,
    ROUND_MEMORY_UNIT, SMALL_ROUND_BYTES, SMALL_ROUND_MEMORY,
};
use crate::tasks::OnDrop;

/// Memory that is granted in order of arrival.
struct Budget {
    free: Arc<Semaphore>,
    units: u64,
    waiting: AtomicUsize,
}

/// What the jobs of one client may hold; a group's job counts for its first member.
pub(in crate::io) struct ClientRoundMemory(Budget);

/// The round memory of a server.
pub(super) struct RoundMemory {
    large: Budget,
    small: Budget,
}

/// Memory for one round, until this is dropped.
pub(super) struct RoundReservation {
    _permits: [Option<OwnedSemaphorePermit>; 2],
}

/// How long the streams of a job may stall.
#[derive(Clone)]
pub(super) struct StallTimeout {
    memory: Arc<RoundMemory>,
    client: Arc<ClientRoundMemory>,
    /// Even if no other job waits for memory.
    longest: Duration,
}

impl Budget {
    fn new(bytes: u64) -> Budget {
        let units = bytes / ROUND_MEMORY_UNIT;
        Budget {
            free: Arc::new(Semaphore::new(units as usize)),
            units,
            waiting: AtomicUsize::new(0),
        }
    }

    /// Takes this many bytes, or the whole budget if that is less.
    async fn take(
        &self,
        bytes: u64,
        callers: &Callers,
    ) -> Result<Option<OwnedSemaphorePermit>, Gone> {
        let units = bytes.div_ceil(ROUND_MEMORY_UNIT).min(self.units) as u32;
        if let Ok(permit) = self.free.clone().try_acquire_many_owned(units) {
            return Ok(Some(permit));
        }
        let _waiting = OnDrop::count(&self.waiting);
        let mut permit = std::pin::pin!(self.free.clone().acquire_many_owned(units));
        loop {
            match timeout(CALLER_POLL_INTERVAL, &mut permit).await {
                // The semaphore is never closed; without a permit only the bound would be softer.
                Ok(permit) => return Ok(permit.ok()),
                Err(_) if callers.gone() => return Err(Gone),
                Err(_) => {}
            }
        }
    }

    fn is_contended(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }
}

impl Default for ClientRoundMemory {
    fn default() -> ClientRoundMemory {
        ClientRoundMemory(Budget::new(CLIENT_ROUND_MEMORY))
    }
}

impl Default for RoundMemory {
    fn default() -> RoundMemory {
        RoundMemory {
            large: Budget::new(ROUND_MEMORY),
            small: Budget::new(SMALL_ROUND_MEMORY),
        }
    }
}

impl RoundMemory {
    /// Takes memory for a round of this many bytes.
    ///
    /// # Errors
    /// [`Gone`] when no caller is left.
    pub(super) async fn take(
        &self,
        bytes: u64,
        client: &ClientRoundMemory,
        callers: &Callers,
    ) -> Result<RoundReservation, Gone> {
        if bytes <= SMALL_ROUND_BYTES {
            let permit = self.small.take(bytes, callers).await?;
            return Ok(RoundReservation {
                _permits: [permit, None],
            });
        }
        // The client's budget first, so that its jobs wait for the server's with no more than that.
        let of_client = client.0.take(bytes, callers).await?;
        let of_server = self.large.take(bytes, callers).await?;
        Ok(RoundReservation {
            _permits: [of_client, of_server],
        })
    }
}

impl StallTimeout {
    pub(super) fn new(
        memory: &Arc<RoundMemory>,
        client: &Arc<ClientRoundMemory>,
        longest: Duration,
    ) -> StallTimeout {
        StallTimeout {
            memory: memory.clone(),
            client: client.clone(),
            longest,
        }
    }

    /// Completes when a stream, whose progress `moved` tells, has stalled for too long. Returns for
    /// how long.
    pub(super) async fn elapsed(&self, moved: impl Fn() -> u64) -> Duration {
        let (mut since, mut last) = (Instant::now(), moved());
        loop {
            let left = self.longest.saturating_sub(since.elapsed());
            sleep(left.clamp(Duration::from_millis(1), CONTENDED_STALL_TIMEOUT)).await;
            let now = moved();
            if now != last {
                (since, last) = (Instant::now(), now);
                continue;
            }
            let stalled = since.elapsed();
            if stalled >= self.longest
                || (stalled >= CONTENDED_STALL_TIMEOUT && self.is_contended())
            {
                return stalled;
            }
        }
    }

    fn is_contended(&self) -> bool {
        self.memory.large.is_contended()
            || self.memory.small.is_contended()
            || self.client.0.is_contended()
    }
}
