//! Repeats operations until they are known to be done.

use std::time::Duration;

use weft_client::Error;
use weft_proto::Code;

use crate::oracle::Time;
use crate::state::{State, now};

/// From the end of the last fault on, every operation is done within this time.
pub(super) const RECOVERY_TIMEOUT: Time = 20_000_000_000;

/// What came of an operation that was repeated until it was known to be done.
pub(super) struct Settled<T> {
    pub(super) value: T,
    pub(super) begun: Time,
    pub(super) ended: Time,
}

/// Repeats `attempt` until it is done. It is told whether an earlier one may have happened.
///
/// # Errors
/// The last one, if it still fails long after the last fault, or if no fault explains it: the run
/// is wrong then.
pub(super) async fn settle<T>(
    state: &State,
    kind: &'static str,
    mut attempt: impl AsyncFnMut(bool) -> Result<T, Error>,
) -> Result<Settled<T>, Error> {
    let (begun, mut maybe) = (now(), false);
    loop {
        let result = attempt(maybe).await;
        {
            let mut state = state.lock();
            state.count(kind, &result);
            if let (Err(error), Some(calm)) = (&result, state.calm)
                && now() > calm + RECOVERY_TIMEOUT
            {
                state.note_wrong(format!("{kind}: still fails after healing: {error}"));
            }
            if state.outcome.wrong.is_some() || result.is_ok() {
                return result.map(|value| Settled {
                    value,
                    begun,
                    ended: now(),
                });
            }
        }
        maybe |= !matches!(result, Err(Error::Unreachable { .. }));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// An operation that is refused because the same one is pending on an absent server stays refused
/// until the server is back.
pub(super) fn owed(error: Error) -> Error {
    match error {
        Error::Refused {
            what,
            errno,
            retry,
            message,
            ..
        } => Error::Refused {
            what,
            code: Code::Unavailable,
            errno,
            retry,
            message,
        },
        other => other,
    }
}
