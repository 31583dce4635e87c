//! Whether the volume answers, and how long calls wait while it does not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Since when a service of the volume has been away. One for the whole volume: while it is away not every call of a
/// program that goes through a directory waits anew.
#[derive(Debug)]
pub(super) struct Health {
    start: Instant,
    patience: Duration,
    /// Milliseconds from `start` on, plus 1; 0: all is well.
    ill_since: AtomicU64,
}

impl Health {
    pub(super) fn new(patience: Duration) -> Health {
        Health {
            start: Instant::now(),
            patience,
            ill_since: AtomicU64::new(0),
        }
    }

    /// A call was answered.
    pub(super) fn well(&self) {
        if self.ill_since.load(Ordering::Relaxed) != 0 {
            self.ill_since.store(0, Ordering::Relaxed);
        }
    }

    /// Nobody answered: whether to try again in a moment.
    pub(super) fn worth_waiting(&self) -> bool {
        let now = self.start.elapsed().as_millis() as u64 + 1;
        let since = self
            .ill_since
            .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed)
            .map_or_else(|since| since, |_| now);
        now - since.min(now) < self.patience.as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn patience_counts_from_the_first_failure_and_starts_anew_when_all_is_well() {
        let health = Health::new(Duration::from_secs(5));
        assert!(health.worth_waiting());
        tokio::time::advance(Duration::from_secs(4)).await;
        assert!(health.worth_waiting());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(!health.worth_waiting());
        assert!(!health.worth_waiting());
        health.well();
        assert!(health.worth_waiting());
    }
}
