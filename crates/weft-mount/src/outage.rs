//! Outages of the volume's services: how long calls wait for an unreachable peer.
//!
//! One state machine for each peer of a mount, whatever call finds it unreachable (names, reads,
//! write-back, syncs):
//!
//! | state | a call that fails because of the peer | ends |
//! | --- | --- | --- |
//! | reachable | begins an outage | |
//! | outage, within the timeout | is repeated | the peer answers, or the timeout expires |
//! | outage, older | fails at once | the peer answers |
//!
//! An outage begins with the call that found it, or earlier by at most the time that it takes to
//! notice a silent connection. The connection reopens itself beside the calls ([`weft_net::Link`]),
//! and ends the outage when it has, so that no call has to try. A service that answers that it is
//! busy is reachable: each such call is repeated for the timeout by itself.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crate::limits::{
    RECONNECT_POLL_INTERVAL, RETRY_BACKOFF_MAX, RETRY_BACKOFF_MIN, SILENCE_DETECTION,
};
use parking_lot::Mutex;
use tokio::time::Instant;
use weft_client::{Error, Volume};
use weft_proto::Retry;

/// A call that failed for good, or for longer than the outage timeout.
pub(crate) struct CallFailure {
    pub(crate) error: Error,
    /// How long it was tried.
    pub(crate) tried: Duration,
}

/// The unreachable peers of a mount.
pub struct Outages {
    timeout: Duration,
    /// By address.
    unreachable: Arc<Mutex<HashMap<String, Outage>>>,
    volume: OnceLock<Volume>,
}

#[derive(Debug)]
struct Outage {
    since: Instant,
    timed_out: bool,
}

/// Whether the same call, which is idempotent, may succeed later.
pub(crate) fn is_retryable(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } | Error::MayHaveHappened { .. } => true,
        Error::Refused { retry, .. } => *retry != Retry::Never,
        _ => false,
    }
}

impl Outages {
    /// All peers are reachable. Calls wait for `timeout`, the failure detection time.
    pub(crate) fn new(timeout: Duration) -> Outages {
        Outages {
            timeout,
            unreachable: Arc::default(),
            volume: OnceLock::new(),
        }
    }

    /// Sets the volume whose connections show that a peer is reachable again.
    pub(crate) fn watch(&self, volume: &Volume) {
        self.volume.get_or_init(|| volume.clone());
    }

    /// Repeats an idempotent call until it succeeds, fails for good, or the peer's outage has
    /// lasted for the timeout.
    pub(crate) async fn retry<T, F>(&self, call: impl FnMut() -> F) -> Result<T, CallFailure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.retry_if(is_retryable, call).await
    }

    /// As [`Outages::retry`], only after errors that are `retryable`.
    pub(crate) async fn retry_if<T, F>(
        &self,
        retryable: impl Fn(&Error) -> bool,
        mut call: impl FnMut() -> F,
    ) -> Result<T, CallFailure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let started = Instant::now();
        let mut backoff = RETRY_BACKOFF_MIN;
        let mut failed: Option<String> = None;
        loop {
            let began = Instant::now();
            let error = match call().await {
                Ok(value) => {
                    if let Some(peer) = failed {
                        end(&self.unreachable, &peer, self.volume.get());
                    }
                    return Ok(value);
                }
                Err(error) => error,
            };
            let wait = retryable(&error)
                && error.peer().map_or_else(
                    || started.elapsed() < self.timeout,
                    |peer| self.worth_waiting(peer, began, &error),
                );
            if !wait {
                let tried = started.elapsed();
                return Err(CallFailure { error, tried });
            }
            failed = error.peer().map(str::to_owned);
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(RETRY_BACKOFF_MAX);
        }
    }

    /// A call that began at this time failed because of this peer: whether to repeat it.
    fn worth_waiting(&self, peer: &str, began: Instant, error: &Error) -> bool {
        let now = Instant::now();
        let mut outages = self.unreachable.lock();
        let outage = outages.entry(peer.to_owned()).or_insert_with(|| {
            if let Some(volume) = self.volume.get() {
                tracing::warn!(%error, "waiting for {}", volume.peer_name(peer));
                let watch = watch_connection(
                    Arc::downgrade(&self.unreachable),
                    volume.clone(),
                    peer.to_owned(),
                );
                tokio::spawn(watch);
            }
            Outage {
                since: began.max(now.checked_sub(SILENCE_DETECTION).unwrap_or(began)),
                timed_out: false,
            }
        });
        let wait = now.duration_since(outage.since) < self.timeout;
        if !wait
            && !std::mem::replace(&mut outage.timed_out, true)
            && let Some(volume) = self.volume.get()
        {
            let name = volume.peer_name(peer);
            tracing::warn!(%error, "{name} is unreachable: calls fail at once until it answers");
        }
        wait
    }
}

/// The peer answers again.
fn end(outages: &Mutex<HashMap<String, Outage>>, peer: &str, volume: Option<&Volume>) {
    let Some(outage) = outages.lock().remove(peer) else {
        return;
    };
    if let Some(volume) = volume {
        let after = outage.since.elapsed();
        tracing::info!(?after, "{} answers again", volume.peer_name(peer));
    }
}

/// Ends an outage when the peer's connection has been opened again.
async fn watch_connection(
    outages: Weak<Mutex<HashMap<String, Outage>>>,
    volume: Volume,
    peer: String,
) {
    let opened = volume.connections_to(&peer);
    loop {
        tokio::time::sleep(RECONNECT_POLL_INTERVAL).await;
        let Some(outages) = outages.upgrade() else {
            return;
        };
        if !outages.lock().contains_key(&peer) {
            return;
        }
        if volume.connections_to(&peer) != opened {
            return end(&outages, &peer, Some(&volume));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use weft_proto::Code;

    use super::*;

    fn unreachable(address: &str) -> Error {
        let source = weft_net::ConnectError::Unreachable {
            address: address.to_owned(),
            reason: "refused".to_owned(),
        };
        Error::Unreachable {
            what: "read".to_owned(),
            source,
        }
    }

    /// How long a call waits for a peer that fails each try after `takes`.
    async fn waits(outages: &Outages, peer: &'static str, takes: u64) -> Duration {
        let start = Instant::now();
        let call = async || {
            tokio::time::sleep(Duration::from_millis(takes)).await;
            Err::<(), _>(unreachable(peer))
        };
        assert!(outages.retry(call).await.is_err());
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn calls_wait_once_for_an_outage_and_only_for_that_peer() {
        let outages = Outages::new(Duration::from_secs(8));
        let first = waits(&outages, "one", 1).await;
        assert!((8..9).contains(&first.as_secs()), "{first:?}");
        for _ in 0..3 {
            assert!(waits(&outages, "one", 1).await.as_millis() < 10);
        }
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(
            waits(&outages, "one", 1).await.as_millis() < 10,
            "the outage is still known a minute later"
        );
        assert!(waits(&outages, "two", 1).await.as_secs() >= 8);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_notices_silence_late_is_still_repeated() {
        let outages = Outages::new(Duration::from_secs(8));
        let back = AtomicBool::new(false);
        let call = async || {
            if back.swap(true, Ordering::Relaxed) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(20)).await;
            Err(unreachable("one"))
        };
        assert!(outages.retry(call).await.is_ok());
        let anew = waits(&outages, "one", 1).await;
        assert!(
            anew.as_secs() >= 8,
            "the peer had answered, so this is a new outage: {anew:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn permanent_refusals_are_not_repeated() {
        let outages = Outages::new(Duration::from_secs(8));
        let start = Instant::now();
        let refused = async || {
            Err::<(), _>(Error::Refused {
                what: "read".to_owned(),
                code: Code::NotFound,
                errno: libc::ENOENT,
                message: String::new(),
                retry: Retry::Never,
            })
        };
        assert!(outages.retry(refused).await.is_err());
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
