//! Failures of the engine: which are transient, and what is refused while they last
//! (`docs/design/0029-engine-errors.md`).
//!
//! A failure is transient if the system refused something before anything was changed: it had no
//! descriptor, no memory, no thread or no space. Then commits are refused and reads continue until
//! the engine is reopened with everything that was committed. A sync that the disk failed is
//! permanent: the kernel may have dropped the bytes, so a later success would prove nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::group::GroupCommit;
use super::transient::is_transient;
use crate::KvError;
use crate::limits::{REOPEN_BACKOFF_MAX, REOPEN_BACKOFF_MIN};

/// Whether a commit that failed with this error may succeed later.
fn commit_is_transient(error: &fjall::Error) -> bool {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(lsm_tree::Error::Io(error)) => {
            is_transient(error)
        }
        // A thread of the engine failed and does not say why. Reopening finds out whether that
        // lasts, and writes again what a sync of that thread may have lost.
        fjall::Error::Poisoned => true,
        _ => false,
    }
}

/// A transient failure, and when the engine is reopened.
struct Suspension {
    reason: String,
    next: Instant,
    backoff: Duration,
}

/// The failure state of an engine.
#[derive(Default)]
pub(crate) struct EngineFault {
    /// Holds a permanent failure.
    group: GroupCommit,
    /// Whether `suspension` is set, readable without a lock.
    suspended: AtomicBool,
    suspension: Mutex<Option<Suspension>>,
}

impl EngineFault {
    pub(crate) fn group(&self) -> &GroupCommit {
        &self.group
    }

    /// Whether a transient failure lasts and commits are refused.
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::Acquire)
    }

    /// Whether the engine may commit.
    ///
    /// # Errors
    /// [`KvError::Poisoned`], [`KvError::Suspended`].
    pub(crate) fn check(&self) -> Result<(), KvError> {
        self.group.check()?;
        if self.is_suspended() {
            return Err(self.suspended_error());
        }
        Ok(())
    }

    /// The error of calls that are refused meanwhile.
    pub(crate) fn suspended_error(&self) -> KvError {
        let suspension = self.suspension.lock();
        let reason = suspension
            .as_ref()
            .map(|suspension| suspension.reason.clone());
        KvError::Suspended {
            reason: reason.unwrap_or_default(),
        }
    }

    /// A commit failed: it has no effect, and none is accepted until the engine is reopened.
    pub(crate) fn commit_failed(&self, error: &fjall::Error) {
        if !commit_is_transient(error) {
            self.group.poison(format!("a commit failed: {error}"));
            return;
        }
        let reason = match error {
            fjall::Error::Poisoned => "its tables or its journal could not be written".to_owned(),
            error => error.to_string(),
        };
        tracing::error!(
            reason,
            "the key-value engine refuses changes until the system recovers"
        );
        *self.suspension.lock() = Some(Suspension {
            reason,
            next: Instant::now(),
            backoff: REOPEN_BACKOFF_MIN,
        });
        self.suspended.store(true, Ordering::Release);
    }

    /// Whether it is time for the next attempt to reopen.
    pub(crate) fn retry_is_due(&self) -> bool {
        let suspension = self.suspension.lock();
        suspension
            .as_ref()
            .is_some_and(|suspension| suspension.next <= Instant::now())
    }

    /// An attempt to reopen has failed.
    pub(crate) fn retry_failed(&self, why: impl Into<String>) {
        if let Some(suspension) = &mut *self.suspension.lock() {
            suspension.reason = why.into();
            suspension.next = Instant::now() + suspension.backoff;
            suspension.backoff = (2 * suspension.backoff).min(REOPEN_BACKOFF_MAX);
        }
    }

    /// The engine was reopened.
    pub(crate) fn clear(&self) {
        *self.suspension.lock() = None;
        self.suspended.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustix::io::Errno;

    use super::*;

    #[test]
    fn refusals_of_the_system_are_transient_and_disk_failures_permanent() {
        for (errno, expected) in [
            (Errno::MFILE, true),
            (Errno::NOSPC, true),
            (Errno::AGAIN, true),
            (Errno::IO, false),
            (Errno::ROFS, false),
        ] {
            let error = io::Error::from(errno);
            assert_eq!(is_transient(&error), expected, "{errno}");
            let fault = EngineFault::default();
            fault.commit_failed(&fjall::Error::Io(error));
            let refused = fault.check().unwrap_err();
            assert_eq!(
                matches!(refused, KvError::Suspended { .. }),
                expected,
                "{refused}"
            );
            assert_eq!(fault.retry_is_due(), expected);
            fault.retry_failed("as before");
            assert!(!fault.retry_is_due());
            fault.clear();
            assert_eq!(fault.check().is_ok(), expected);
        }
    }
}
