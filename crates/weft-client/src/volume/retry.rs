//! Which failed calls are sent again, and how often.
//!
//! Loops of this crate that send a failed call again ask one of these: [`Retry`] counts,
//! [`RetryUntil`] and [`Backoff`] have a deadline. Exceptions: a watch begins anew by itself, and a
//! close repeats its report, which has not failed, while the service asks for a size. A mount
//! decides for itself how long a program's call is repeated (`weft-mount/src/outage.rs`).

use std::time::Duration;

use tokio::time::Instant;
use weft_net::{CallError, ConnectError};
use weft_proto::{Code, Retry as RetryClass};

use crate::limits::{
    BACKOFF_FIRST, BACKOFF_MAX, COLLECTIVE_AWAY_MAX, COLLECTIVE_RETRY_INTERVAL, FAILOVER_INTERVAL,
    FAILOVER_MAX,
};
use crate::{Error, Volume};

/// Whether a call whose connection was lost may simply be repeated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It changes nothing, or the same thing again.
    Safe,
    /// It may have happened.
    Unsafe,
    /// It may have happened; once more it writes the same bytes. It is repeated only where another
    /// replica of a server takes the place of a lost one: it has not returned yet, so that others
    /// that write the same bytes meanwhile may come before it or after it.
    SameBytes,
}

/// A bounded number of repetitions.
pub(crate) struct Retry {
    repeat: Repeat,
    left: u32,
    /// Until when another replica may take the place of a lost one.
    failover: Option<Instant>,
}

impl Retry {
    /// At most one repetition.
    pub(crate) fn once(repeat: Repeat) -> Retry {
        Retry::times(1, repeat)
    }

    /// At most so many repetitions.
    pub(crate) fn times(left: u32, repeat: Repeat) -> Retry {
        Retry {
            repeat,
            left,
            failover: None,
        }
    }

    /// Uses up a repetition; false when none is left.
    pub(super) fn take(&mut self) -> bool {
        let some = self.left > 0;
        self.left -= u32::from(some);
        some
    }

    /// Whether a call to the metadata service is sent again: only after a lost connection, as the
    /// service has one address.
    pub(super) fn after_loss(&mut self, error: &CallError) -> bool {
        matches!(error, CallError::Lost { .. }) && self.repeat == Repeat::Safe && self.take()
    }

    /// Whether a call to an I/O server is sent again; asks where servers are if that may help.
    pub(crate) async fn again(&mut self, volume: &Volume, error: &CallError) -> bool {
        if self.left > 0 && volume.may_retry(error, self.repeat).await {
            return self.take();
        }
        self.wait_for_replica(volume, error).await
    }

    /// Waits a little if another replica of the server may soon answer; false if not.
    async fn wait_for_replica(&mut self, volume: &Volume, error: &CallError) -> bool {
        let passes = match error {
            CallError::Lost { .. } => self.repeat != Repeat::Unsafe,
            CallError::Connect(_) => true,
            CallError::Failed(_) => match error.code() {
                Code::StaleMap | Code::Busy => true,
                // Its primary was replaced in the middle of the call, which may have happened.
                Code::Unavailable => self.repeat != Repeat::Unsafe,
                _ => false,
            },
            CallError::Protocol { .. } => false,
        };
        if !passes || !volume.shared.servers.have_replicas() {
            return false;
        }
        let now = Instant::now();
        if now >= *self.failover.get_or_insert(now + FAILOVER_MAX) {
            return false;
        }
        tokio::time::sleep(FAILOVER_INTERVAL).await;
        // If the service does not answer now, the old address is tried again.
        let _ = volume.refresh_servers().await;
        true
    }
}

/// Repetitions while a lost server is away, until other members of a group would no longer wait for
/// this one.
pub(crate) struct RetryUntil {
    wait: Duration,
    deadline: Option<Instant>,
    stale: bool,
}

impl RetryUntil {
    /// `wait`: how many milliseconds members wait for one another. A server may be away for so
    /// long, and not longer than [`COLLECTIVE_AWAY_MAX`], from the first failure on.
    pub(crate) fn new(wait: u32) -> RetryUntil {
        RetryUntil {
            wait: Duration::from_millis(wait.into()).min(COLLECTIVE_AWAY_MAX),
            deadline: None,
            stale: false,
        }
    }

    /// Whether a call that failed like this is sent again; sleeps before.
    pub(crate) async fn again(&mut self, volume: &Volume, error: &CallError) -> bool {
        let replicas = volume.shared.servers.have_replicas();
        let stale = error.code() == Code::StaleMap;
        let stale_once = stale && !std::mem::replace(&mut self.stale, true);
        if stale_once && volume.may_retry(error, Repeat::Safe).await {
            return true;
        }
        let lost = matches!(
            error,
            CallError::Lost { .. }
                | CallError::Connect(
                    ConnectError::Unreachable { .. } | ConnectError::Timeout { .. }
                )
        ) || replicas && (stale || error.code() == Code::Unavailable);
        let now = Instant::now();
        if !lost || now >= *self.deadline.get_or_insert(now + self.wait) {
            return false;
        }
        tokio::time::sleep(COLLECTIVE_RETRY_INTERVAL).await;
        // The server may have moved; if that cannot be learnt now, the old address is tried again.
        let _ = volume.may_retry(error, Repeat::Safe).await;
        true
    }
}

/// Repetitions with growing pauses until a deadline, of calls that the service refuses for now.
pub(crate) struct Backoff {
    deadline: Instant,
    pause: Duration,
}

impl Backoff {
    pub(crate) fn new(timeout: Duration) -> Backoff {
        Backoff {
            deadline: Instant::now() + timeout,
            pause: BACKOFF_FIRST,
        }
    }

    /// Whether a call that failed like this is sent again; sleeps before.
    pub(crate) async fn again(&mut self, error: &Error) -> bool {
        if error.code().retry() != RetryClass::Later || Instant::now() >= self.deadline {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (2 * self.pause).min(BACKOFF_MAX);
        true
    }
}
