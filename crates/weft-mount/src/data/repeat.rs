//! Calls that are repeated while a server is away.

use std::sync::Arc;
use std::time::Duration;

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

/// Whether the same call may succeed later.
pub(super) fn may_pass(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } | Error::MayHaveHappened { .. } => true,
        Error::Refused { retry, .. } => *retry != Retry::Never,
        _ => false,
    }
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
