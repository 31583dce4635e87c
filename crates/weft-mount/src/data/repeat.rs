//! Calls that are repeated while a server is away.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_client::Error;
use weft_proto::Retry;

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// What remained when patience was over.
pub(super) struct GaveUp {
    pub(super) error: Arc<Error>,
    pub(super) tried: Duration,
}

/// Since when which server is away: who comes later does not wait for it all over again.
#[derive(Debug, Default)]
pub(super) struct Outages(Mutex<HashMap<String, Outage>>);

/// A server that does not answer.
#[derive(Debug)]
struct Outage {
    since: Instant,
    last: Instant,
}

impl Outages {
    /// This server did not answer a call that began then: whether to try again, which is worth it for as long as `patience`
    /// from its first failure on. A failure long after the last one is the first of another outage.
    fn worth_waiting(&self, server: &str, began: Instant, patience: Duration) -> bool {
        let mut outages = self.0.lock();
        let outage = outages.entry(server.to_owned()).or_insert(Outage {
            since: began,
            last: began,
        });
        if began.duration_since(outage.last) > patience {
            outage.since = began;
        }
        outage.last = Instant::now();
        outage.last.duration_since(outage.since) < patience
    }

    /// This server has answered where it had not.
    fn over(&self, server: &str) {
        self.0.lock().remove(server);
    }
}

/// Whether the same call may succeed later.
pub(super) fn may_pass(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } | Error::MayHaveHappened { .. } => true,
        Error::Refused { retry, .. } => *retry != Retry::Never,
        _ => false,
    }
}

/// As [`patiently`], for reads: a server that was away for as long already is not waited for again.
pub(super) async fn patiently_beside<T, F>(
    outages: &Outages,
    patience: Duration,
    mut call: impl FnMut() -> F,
) -> Result<T, GaveUp>
where
    F: Future<Output = Result<T, Error>>,
{
    let failed: Mutex<Option<String>> = Mutex::default();
    let once = || {
        let (began, answer) = (Instant::now(), call());
        let failed = &failed;
        async move {
            let error = match answer.await {
                Ok(value) => {
                    if let Some(server) = failed.lock().take() {
                        outages.over(&server);
                    }
                    return Ok(Ok(value));
                }
                Err(error) => error,
            };
            let away = error.peer().filter(|_| may_pass(&error));
            *failed.lock() = away.map(str::to_owned);
            let hopeless = away.is_some_and(|s| !outages.worth_waiting(s, began, patience));
            if hopeless { Ok(Err(error)) } else { Err(error) }
        }
    };
    let started = Instant::now();
    patiently(patience, once).await?.map_err(|error| GaveUp {
        error: Arc::new(error),
        tried: started.elapsed(),
    })
}

/// Repeats a call, whose repetition must change nothing, until it succeeds, fails for good, or has failed for as long as
/// `patience`. An attempt is bounded by the connection's own failure detection.
pub(super) async fn patiently<T, F>(
    patience: Duration,
    mut call: impl FnMut() -> F,
) -> Result<T, GaveUp>
where
    F: Future<Output = Result<T, Error>>,
{
    let started = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match call().await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let tried = started.elapsed();
        if !may_pass(&error) || tried + pause > patience {
            let error = Arc::new(error);
            return Err(GaveUp { error, tried });
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_waited_for_once_and_another_one_anew() {
        let outages = Outages::default();
        let patience = Duration::from_secs(8);
        let fails = |server: &'static str, took: u64| {
            let outages = &outages;
            async move {
                let began = Instant::now();
                tokio::time::sleep(Duration::from_secs(took)).await;
                outages.worth_waiting(server, began, patience)
            }
        };
        assert!(fails("one", 1).await);
        assert!(fails("one", 6).await);
        assert!(!fails("one", 2).await);
        // Whoever comes next does not wait, for this server only.
        assert!(!fails("one", 0).await);
        assert!(fails("two", 0).await);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!fails("one", 0).await);
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert!(fails("one", 0).await, "it was back in between");
        outages.over("one");
        assert!(fails("one", 7).await, "it was back, and is away again");
    }
}
