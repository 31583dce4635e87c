//! Locks of files and of ranges of bytes, between all clients of a volume.
//!
//! The service holds the table; what this client holds is stored here, too, so that it can be
//! asserted again after a restart of the service. Locks that others took meanwhile are lost, which
//! is logged: POSIX has no error for it.
//!
//! Locks advise: data can be accessed without. A writer whose data is to be seen by the next holder
//! writes it out before it unlocks.

use weft_proto::coord::{LockFamily, LockOutcome, LockReply, LockRequest, TestLockRequest};

use crate::session::FileLocks;
use crate::volume::Repeat;
use crate::{Error, File};

pub use weft_proto::coord::{HeldLock, LockKind};

/// What a lock is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockRange {
    /// The file, as `flock` locks it: does not see locks on bytes.
    Whole,
    /// Bytes, as `fcntl` locks them: they split and merge.
    Bytes {
        /// The first one.
        start: u64,
        /// The last one, included.
        last: u64,
    },
}

/// The holder of a lock within this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockOwner {
    /// Chosen by the caller: an open file for `flock`, a process for `fcntl`.
    pub number: u64,
    /// The process, for people to see.
    pub pid: u32,
}

/// How a request for a lock went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// It is held.
    Granted,
    /// This lock is in the way. Only without waiting.
    Held(Option<HeldLock>),
    /// The holder of a lock in the way waits for this owner (`EDEADLK`).
    Deadlock,
    /// As many locks are held, or requests waiting, as may be (`ENOLCK`).
    TooMany,
}

/// Releases a lock whose caller is cancelled before the answer: it may be granted at that moment.
struct Unanswered {
    file: File,
    lock: HeldLock,
    armed: bool,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let (file, lock) = (self.file.clone(), self.lock);
        // Outside a runtime it cannot be sent: the lock ends with the attachment.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            let pieces = file.with_locks(|locks| locks.pieces(&lock));
            for lock in pieces {
                let what = format!("release a lock of {}", file.path());
                let request = LockRequest { lock, wait: false };
                if let Err(error) = file.0.volume.meta(&what, &request, Repeat::Safe).await {
                    tracing::warn!(%error, "a lock whose request was cancelled may be held until the file is closed");
                }
            }
        });
    }
}

impl File {
    /// Locks a range, or converts what the owner holds there; `wait`s until it can be granted. One
    /// request.
    ///
    /// In the first seconds after a restart of the service a file that was there before can only be
    /// locked by waiting: without, it fails with `Busy`.
    ///
    /// # Cancellation
    /// The wait ends; the owner then holds what it held before, except that converting a lock of
    /// the whole file lets go first.
    pub async fn lock(
        &self,
        kind: LockKind,
        range: LockRange,
        owner: LockOwner,
        wait: bool,
    ) -> Result<Locked, Error> {
        if kind == LockKind::Unlock {
            return self.unlock(range, owner).await.map(|()| Locked::Granted);
        }
        let lock = self.held_lock(kind, range, owner);
        let what = format!("lock {}", self.path());
        self.with_locks(|locks| locks.asks(lock, range == LockRange::Whole));
        let mut unanswered = Unanswered {
            file: self.clone(),
            lock,
            armed: true,
        };
        let request = LockRequest { lock, wait };
        let reply: LockReply = self.0.volume.meta(&what, &request, Repeat::Safe).await?;
        unanswered.armed = false;
        let locked = match reply.outcome() {
            LockOutcome::Granted => Locked::Granted,
            LockOutcome::Held => Locked::Held(reply.blocker),
            LockOutcome::Deadlock => Locked::Deadlock,
            LockOutcome::TooMany => Locked::TooMany,
            LockOutcome::Unspecified => {
                return Err(Error::Protocol {
                    what,
                    reason: "the service does not say how it went".to_owned(),
                });
            }
        };
        if locked == Locked::Granted {
            self.with_locks(|locks| locks.apply_range(lock));
        }
        Ok(locked)
    }

    /// Releases a range; it is no error where nothing is held. One request.
    pub async fn unlock(&self, range: LockRange, owner: LockOwner) -> Result<(), Error> {
        // What was written under a lock is there for who gets it next.
        let committed = self.commit().await;
        let lock = self.held_lock(LockKind::Unlock, range, owner);
        // First here: a released lock must not be asserted again.
        self.with_locks(|locks| locks.apply_range(lock));
        let request = LockRequest { lock, wait: false };
        let what = format!("unlock {}", self.path());
        self.0.volume.meta(&what, &request, Repeat::Safe).await?;
        committed
    }

    /// Releases everything that an owner holds of this file, in both families. One request, none if
    /// this owner has never asked for a lock of it.
    pub async fn release_locks(&self, owner: u64) -> Result<(), Error> {
        let committed = self.commit().await;
        let asked = self.with_locks(|locks| locks.release(owner));
        if !asked {
            return committed;
        }
        let lock = HeldLock {
            file: self.id(),
            family: LockFamily::Any as i32,
            kind: LockKind::Unlock as i32,
            owner,
            pid: 0,
            start: 0,
            last: u64::MAX,
        };
        let request = LockRequest { lock, wait: false };
        let what = format!("release the locks of {}", self.path());
        self.0.volume.meta(&what, &request, Repeat::Safe).await?;
        self.with_locks(|locks| locks.released(owner));
        Ok(())
    }

    /// The first lock that would be in the way of this one, if any. One request.
    pub async fn test_lock(
        &self,
        kind: LockKind,
        range: LockRange,
        owner: LockOwner,
    ) -> Result<Option<HeldLock>, Error> {
        let lock = self.held_lock(kind, range, owner);
        let request = TestLockRequest { lock };
        let what = format!("test a lock of {}", self.path());
        let reply = self.0.volume.meta(&what, &request, Repeat::Safe).await?;
        Ok(reply.blocker)
    }

    fn held_lock(&self, kind: LockKind, range: LockRange, owner: LockOwner) -> HeldLock {
        let (family, start, last) = match range {
            LockRange::Whole => (LockFamily::Whole, 0, u64::MAX),
            LockRange::Bytes { start, last } => (LockFamily::Range, start, last),
        };
        HeldLock {
            file: self.id(),
            family: family as i32,
            kind: kind as i32,
            owner: owner.number,
            pid: owner.pid,
            start,
            last,
        }
    }

    fn with_locks<T>(&self, work: impl FnOnce(&mut FileLocks) -> T) -> T {
        self.0.volume.shared.locks.with(self.id(), work)
    }
}
