//! Services of the volume that are away: how long calls wait for one, and when they stop waiting.
//!
//! One state machine for each peer of a mount, whatever call finds it away (names, reads,
//! write-back, syncs):
//!
//! | state | a call that fails because of the peer | ends |
//! | --- | --- | --- |
//! | answers | begins an outage | |
//! | outage, younger than the patience | is repeated | the peer answers, or the patience is over |
//! | outage, older | fails at once | the peer answers |
//!
//! An outage counts from the call that found it, at most the time that a silent connection takes to
//! be noticed before it was. Whether the peer is back is asked of the connection itself, which is
//! opened anew beside the calls ([`weft_net::Link`]), so that no call has to try. A service that
//! answers that it is busy is not away: such a call is repeated for as long by itself.

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

/// What remained when patience was over.
pub(crate) struct GaveUp {
    pub(crate) error: Error,
    pub(crate) tried: Duration,
}

/// The peers of a mount that are away.
pub struct Outages {
    patience: Duration,
    /// By address.
    away: Arc<Mutex<HashMap<String, Outage>>>,
    volume: OnceLock<Volume>,
}

#[derive(Debug)]
struct Outage {
    since: Instant,
    given_up: bool,
}

/// Whether the same call, whose repetition changes nothing, may succeed later.
pub(crate) fn may_pass(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } | Error::MayHaveHappened { .. } => true,
        Error::Refused { retry, .. } => *retry != Retry::Never,
        _ => false,
    }
}

impl Outages {
    /// All answer. Calls wait for `patience`, the failure detection time.
    pub(crate) fn new(patience: Duration) -> Outages {
        Outages {
            patience,
            away: Arc::default(),
            volume: OnceLock::new(),
        }
    }

    /// Whose connections tell that a peer is back.
    pub(crate) fn watch(&self, volume: &Volume) {
        self.volume.get_or_init(|| volume.clone());
    }

    /// Repeats a call, whose repetition must change nothing, until it succeeds or there is nothing
    /// to wait for.
    pub(crate) async fn wait_out<T, F>(&self, call: impl FnMut() -> F) -> Result<T, GaveUp>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.wait_out_if(may_pass, call).await
    }

    /// As [`Outages::wait_out`], only after errors that `may_pass`.
    pub(crate) async fn wait_out_if<T, F>(
        &self,
        may_pass: impl Fn(&Error) -> bool,
        mut call: impl FnMut() -> F,
    ) -> Result<T, GaveUp>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let started = Instant::now();
        let mut pause = RETRY_BACKOFF_MIN;
        let mut failed: Option<String> = None;
        loop {
            let began = Instant::now();
            let error = match call().await {
                Ok(value) => {
                    if let Some(peer) = failed {
                        over(&self.away, &peer, self.volume.get());
                    }
                    return Ok(value);
                }
                Err(error) => error,
            };
            let wait = may_pass(&error)
                && error.peer().map_or_else(
                    || started.elapsed() < self.patience,
                    |peer| self.worth_waiting(peer, began, &error),
                );
            if !wait {
                let tried = started.elapsed();
                return Err(GaveUp { error, tried });
            }
            failed = error.peer().map(str::to_owned);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_BACKOFF_MAX);
        }
    }

    /// A call that began then failed because of this peer: whether it is worth repeating.
    fn worth_waiting(&self, peer: &str, began: Instant, error: &Error) -> bool {
        let now = Instant::now();
        let mut away = self.away.lock();
        let outage = away.entry(peer.to_owned()).or_insert_with(|| {
            if let Some(volume) = self.volume.get() {
                tracing::warn!(%error, "waiting for {}", volume.peer_name(peer));
                let back = come_back(Arc::downgrade(&self.away), volume.clone(), peer.to_owned());
                tokio::spawn(back);
            }
            Outage {
                since: began.max(now.checked_sub(SILENCE_DETECTION).unwrap_or(began)),
                given_up: false,
            }
        });
        let wait = now.duration_since(outage.since) < self.patience;
        if !wait
            && !std::mem::replace(&mut outage.given_up, true)
            && let Some(volume) = self.volume.get()
        {
            let name = volume.peer_name(peer);
            tracing::warn!(%error, "{name} is away: calls fail at once until it answers");
        }
        wait
    }
}

/// The peer answers.
fn over(away: &Mutex<HashMap<String, Outage>>, peer: &str, volume: Option<&Volume>) {
    let Some(outage) = away.lock().remove(peer) else {
        return;
    };
    if let Some(volume) = volume {
        let after = outage.since.elapsed();
        tracing::info!(?after, "{} answers again", volume.peer_name(peer));
    }
}

/// Ends an outage when the peer's connection was opened again.
async fn come_back(away: Weak<Mutex<HashMap<String, Outage>>>, volume: Volume, peer: String) {
    let opened = volume.connections_to(&peer);
    loop {
        tokio::time::sleep(RECONNECT_POLL_INTERVAL).await;
        let Some(away) = away.upgrade() else { return };
        if !away.lock().contains_key(&peer) {
            return;
        }
        if volume.connections_to(&peer) != opened {
            return over(&away, &peer, Some(&volume));
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
        assert!(outages.wait_out(call).await.is_err());
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_waited_for_once_by_all_calls_together_and_of_one_peer_only() {
        let outages = Outages::new(Duration::from_secs(8));
        let first = waits(&outages, "one", 1).await;
        assert!((8..9).contains(&first.as_secs()), "{first:?}");
        for _ in 0..3 {
            assert!(waits(&outages, "one", 1).await.as_millis() < 10);
        }
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(
            waits(&outages, "one", 1).await.as_millis() < 10,
            "however late"
        );
        assert!(waits(&outages, "two", 1).await.as_secs() >= 8);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_found_silence_late_is_still_repeated() {
        let outages = Outages::new(Duration::from_secs(8));
        let back = AtomicBool::new(false);
        let call = async || {
            if back.swap(true, Ordering::Relaxed) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(20)).await;
            Err(unreachable("one"))
        };
        assert!(outages.wait_out(call).await.is_ok());
        let anew = waits(&outages, "one", 1).await;
        assert!(anew.as_secs() >= 8, "it had answered: {anew:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_will_not_pass_is_not_repeated() {
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
        assert!(outages.wait_out(refused).await.is_err());
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
