//! How fast replicas are made equal: no faster than a rate, and behind the calls of clients.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use crate::limits::{REPLICA_BUSY, REPLICA_REST_FACTOR, REPLICA_REST_MAX};

/// The pace of this process.
pub(super) struct Pace {
    /// Bytes per second; 0: no limit.
    rate: u64,
    /// Calls of clients so far.
    calls: AtomicU64,
    state: Mutex<PaceState>,
    /// Held for a piece of work, and a rest, while clients call.
    alone: tokio::sync::Mutex<()>,
}

struct PaceState {
    /// The calls that were seen last, and when they were more than before.
    seen: (u64, Option<Instant>),
    /// When all bytes that were sent may have been sent.
    due: Instant,
}

impl Pace {
    /// `rate`: bytes per second; 0: no limit.
    pub(super) fn new(rate: u64) -> Pace {
        Pace {
            rate,
            calls: AtomicU64::new(0),
            state: Mutex::new(PaceState {
                seen: (0, None),
                due: Instant::now(),
            }),
            alone: tokio::sync::Mutex::default(),
        }
    }

    /// A client has called.
    pub(super) fn note_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether clients have called lately.
    fn is_busy(&self) -> bool {
        let calls = self.calls.load(Ordering::Relaxed);
        let mut state = self.state.lock();
        if state.seen.0 != calls {
            state.seen = (calls, Some(Instant::now()));
        }
        state.seen.1.is_some_and(|at| at.elapsed() < REPLICA_BUSY)
    }

    /// Does a piece of work. While clients call, it is done alone, and followed by a rest that is
    /// longer than the work.
    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        if !self.is_busy() {
            return work.await;
        }
        let _alone = self.alone.lock().await;
        let began = Instant::now();
        let done = work.await;
        let rest = began.elapsed() * REPLICA_REST_FACTOR;
        sleep(rest.min(REPLICA_REST_MAX)).await;
        done
    }

    /// Waits until more bytes than these may be sent.
    pub(super) async fn sent(&self, bytes: u64) {
        if self.rate == 0 || bytes == 0 {
            return;
        }
        let due = {
            let mut state = self.state.lock();
            let takes = Duration::from_secs_f64(bytes as f64 / self.rate as f64);
            state.due = state.due.max(Instant::now()) + takes;
            state.due
        };
        sleep_until(due).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn bytes_are_sent_at_the_rate_by_all_passes_together() {
        let pace = Pace::new(10 * MIB);
        let began = Instant::now();
        for _ in 0..10 {
            tokio::join!(pace.sent(MIB), pace.sent(MIB));
        }
        assert_eq!(began.elapsed().as_secs(), 2);
        Pace::new(0).sent(1 << 40).await;
        assert_eq!(began.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn work_beside_calls_of_clients_takes_a_third_of_the_time() {
        let pace = Pace::new(0);
        let work = || pace.run(async { sleep(Duration::from_millis(30)).await });
        let began = Instant::now();
        for _ in 0..10 {
            tokio::join!(work(), work());
        }
        let idle = began.elapsed();
        assert_eq!(idle.as_millis(), 300, "side by side");
        for _ in 0..10 {
            pace.note_call();
            tokio::join!(work(), work());
        }
        let busy = began.elapsed().saturating_sub(idle);
        assert!(busy >= 20 * Duration::from_millis(90), "{busy:?}");
    }
}
