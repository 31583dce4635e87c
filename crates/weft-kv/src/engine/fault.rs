//! Failures of the engine: which of them pass, and what is refused until they have
//! (`docs/design/0029-engine-errors.md`).
//!
//! A failure passes if the system refused something before anything was changed: it had no
//! descriptor, no memory, no thread or no room. Commits are refused then, and reads go on, until
//! the engine was opened again behind everything that was committed. A sync that the disk failed
//! never passes: the kernel may have dropped the bytes, so a later success would prove nothing.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;

use super::group::Group;
use crate::KvError;

/// How long after a try that failed the next one comes: twice as long each time, up to the second.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Whether the system may give later what it refuses now: descriptors, memory, threads, room.
pub fn is_transient(error: &io::Error) -> bool {
    let refusals = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::INTR,
        Errno::AGAIN,
    ];
    let number = error.raw_os_error();
    // A simulated disk has no numbers.
    error.kind() == io::ErrorKind::StorageFull
        || number.is_some_and(|number| refusals.iter().any(|r| r.raw_os_error() == number))
}

/// Whether a commit that failed so may succeed later.
fn commit_is_transient(error: &fjall::Error) -> bool {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(lsm_tree::Error::Io(error)) => {
            is_transient(error)
        }
        // A thread of the engine's failed, and does not say at what. Opening it again finds out
        // whether it lasts, and writes anew what a sync of that thread may have lost.
        fjall::Error::Poisoned => true,
        _ => false,
    }
}

/// A failure that is expected to pass.
struct Passing {
    reason: String,
    next: Instant,
    backoff: Duration,
}

/// What has failed in an engine.
#[derive(Default)]
pub(crate) struct Fault {
    /// What lasts is kept there.
    group: Group,
    /// Said without a lock: whether `passing` holds something.
    set: AtomicBool,
    passing: Mutex<Option<Passing>>,
}

impl Fault {
    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    /// Whether commits are refused until something has passed.
    pub(crate) fn is_passing(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Whether the engine may commit.
    ///
    /// # Errors
    /// [`KvError::Poisoned`], [`KvError::Suspended`].
    pub(crate) fn check(&self) -> Result<(), KvError> {
        self.group.check()?;
        if self.is_passing() {
            return Err(self.suspended());
        }
        Ok(())
    }

    /// The error of whatever is refused meanwhile.
    pub(crate) fn suspended(&self) -> KvError {
        let passing = self.passing.lock();
        let reason = passing.as_ref().map(|passing| passing.reason.clone());
        KvError::Suspended {
            reason: reason.unwrap_or_default(),
        }
    }

    /// A commit failed: it has not happened, and none is accepted before the engine was opened
    /// again.
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
            "the key-value engine refuses changes until this has passed"
        );
        *self.passing.lock() = Some(Passing {
            reason,
            next: Instant::now(),
            backoff: BACKOFF.0,
        });
        self.set.store(true, Ordering::Release);
    }

    /// Whether it is time for the next try.
    pub(crate) fn is_due(&self) -> bool {
        let passing = self.passing.lock();
        passing
            .as_ref()
            .is_some_and(|passing| passing.next <= Instant::now())
    }

    /// A try has shown that it has not passed.
    pub(crate) fn lasts_longer(&self, why: impl Into<String>) {
        if let Some(passing) = &mut *self.passing.lock() {
            passing.reason = why.into();
            passing.next = Instant::now() + passing.backoff;
            passing.backoff = (2 * passing.backoff).min(BACKOFF.1);
        }
    }

    /// It has passed.
    pub(crate) fn passed(&self) {
        *self.passing.lock() = None;
        self.set.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_passes_and_what_the_disk_fails_lasts() {
        for (errno, expected) in [
            (Errno::MFILE, true),
            (Errno::NOSPC, true),
            (Errno::AGAIN, true),
            (Errno::IO, false),
            (Errno::ROFS, false),
        ] {
            let error = io::Error::from(errno);
            assert_eq!(is_transient(&error), expected, "{errno}");
            let fault = Fault::default();
            fault.commit_failed(&fjall::Error::Io(error));
            let refused = fault.check().unwrap_err();
            assert_eq!(
                matches!(refused, KvError::Suspended { .. }),
                expected,
                "{refused}"
            );
            assert_eq!(fault.is_due(), expected);
            fault.lasts_longer("as before");
            assert!(!fault.is_due());
            fault.passed();
            assert_eq!(fault.check().is_ok(), expected);
        }
    }
}
