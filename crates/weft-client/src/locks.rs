//! Locks of files and of ranges of bytes, between all clients of a volume.
//!
//! The service holds the table; what this client holds is kept here, too, so that it can be told again after a
//! restart of the service. Locks that others took meanwhile are lost, which is logged: POSIX has no word for it.
//!
//! Locks advise: data can be accessed without. A writer whose data is to be seen by the next holder writes it
//! out before it unlocks.

use std::collections::{BTreeMap, BTreeSet};

use weft_proto::coord::{LockFamily, LockOutcome, LockReply, LockRequest, TestLockRequest};

use crate::volume::{Repeat, Shared};
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

/// Who holds a lock within this client.
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
    /// Somebody holds a lock in the way: this one. Only without waiting.
    Held(Option<HeldLock>),
    /// Whoever is in the way waits for this owner (`EDEADLK`).
    Deadlock,
    /// As many locks are held, or requests waiting, as may be (`ENOLCK`).
    TooMany,
}

/// What this client holds of one file.
#[derive(Debug, Default)]
pub(crate) struct FileLocks {
    held: Vec<HeldLock>,
    /// Owners that have asked for a lock: the service may know of one of theirs.
    owners: BTreeSet<u64>,
}

/// What this client holds, by file.
pub(crate) type LocksHeld = BTreeMap<u64, FileLocks>;

impl FileLocks {
    /// Makes `lock` hold in place of what its owner held there; an unlock only takes away.
    fn paint(&mut self, lock: HeldLock) {
        let mut rests = Vec::new();
        self.held.retain(|held| {
            if !same_owner(held, &lock) || held.start > lock.last || lock.start > held.last {
                return true;
            }
            if held.start < lock.start {
                let last = lock.start - 1;
                rests.push(HeldLock { last, ..*held });
            }
            if held.last > lock.last {
                let start = lock.last + 1;
                rests.push(HeldLock { start, ..*held });
            }
            false
        });
        self.held.extend(rests);
        if lock.kind() == LockKind::Unlock {
            return;
        }
        let mut whole = lock;
        // Side by side and of one kind they are one, or there would be ever more of them.
        self.held.retain(|held| {
            let joins = same_owner(held, &lock)
                && held.kind == lock.kind
                && held.start <= lock.last.saturating_add(1)
                && lock.start <= held.last.saturating_add(1);
            if joins {
                whole.start = whole.start.min(held.start);
                whole.last = whole.last.max(held.last);
            }
            !joins
        });
        self.held.push(whole);
    }

    /// What is held in the range of `lock`, and unlocks for what is not.
    fn pieces(&self, lock: &HeldLock) -> Vec<HeldLock> {
        let unlock = HeldLock {
            kind: LockKind::Unlock as i32,
            ..*lock
        };
        let mut all = FileLocks::default();
        all.held.push(unlock);
        for held in self.held.iter().filter(|held| same_owner(held, lock)) {
            let start = held.start.max(lock.start);
            let last = held.last.min(lock.last);
            if start <= last {
                let piece = HeldLock {
                    start,
                    last,
                    ..*held
                };
                all.paint(piece);
            }
        }
        // Downgrades first: nobody comes between.
        all.held.sort_by_key(|piece| std::cmp::Reverse(piece.kind));
        all.held
    }
}

fn same_owner(one: &HeldLock, other: &HeldLock) -> bool {
    one.owner == other.owner && one.family == other.family
}

/// Puts things right when the caller of a lock goes away before the answer: it may be granted at that moment.
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
        // Outside a runtime there is nobody to send it: the lock ends with the attachment.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            let pieces = file.with_locks(|locks| locks.pieces(&lock));
            for lock in pieces {
                let what = format!("give up a lock of {}", file.path());
                let request = LockRequest { lock, wait: false };
                if let Err(error) = file.0.volume.meta(&what, &request, Repeat::Safe).await {
                    tracing::warn!(%error, "a lock that nobody waits for any more may be held until the file is closed");
                }
            }
        });
    }
}

impl File {
    /// Locks a range, or converts what the owner holds there; `wait`s until it can be granted. One request.
    ///
    /// In the first seconds after a restart of the service a file that was there before can only be locked by
    /// waiting: without, it fails with `Busy`.
    ///
    /// # Cancellation
    /// The wait ends; the owner then holds what it held before, except that converting a lock of the whole file
    /// lets go first.
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
        self.with_locks(|locks| {
            locks.owners.insert(owner.number);
            let converts = |held: &HeldLock| same_owner(held, &lock) && held.kind != lock.kind;
            if range == LockRange::Whole && locks.held.iter().any(converts) {
                let kind = LockKind::Unlock as i32;
                locks.paint(HeldLock { kind, ..lock });
            }
        });
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
            self.with_locks(|locks| locks.paint(lock));
        }
        Ok(locked)
    }

    /// Lets go of a range; it is no error where nothing is held. One request.
    pub async fn unlock(&self, range: LockRange, owner: LockOwner) -> Result<(), Error> {
        let lock = self.held_lock(LockKind::Unlock, range, owner);
        // First here: what was let go must not be told again.
        self.with_locks(|locks| locks.paint(lock));
        let request = LockRequest { lock, wait: false };
        let what = format!("unlock {}", self.path());
        self.0.volume.meta(&what, &request, Repeat::Safe).await?;
        Ok(())
    }

    /// Lets go of all that an owner holds of this file, in both families. One request, none if this owner has
    /// never asked for a lock of it.
    pub async fn release_locks(&self, owner: u64) -> Result<(), Error> {
        let asked = self.with_locks(|locks| {
            locks.held.retain(|held| held.owner != owner);
            locks.owners.contains(&owner)
        });
        if !asked {
            return Ok(());
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
        self.with_locks(|locks| locks.owners.remove(&owner));
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
        let mut locks = self.0.volume.shared.locks.lock();
        let of_file = locks.entry(self.id()).or_default();
        let value = work(of_file);
        if of_file.held.is_empty() && of_file.owners.is_empty() {
            locks.remove(&self.id());
        }
        value
    }
}

impl Shared {
    /// All that is held, to be told to the service.
    pub(crate) fn locks_held(&self) -> Vec<HeldLock> {
        let locks = self.locks.lock();
        locks
            .values()
            .flat_map(|l| l.held.iter().copied())
            .collect()
    }

    /// The service says that others hold these now.
    pub(crate) fn locks_lost(&self, lost: &[HeldLock]) {
        let mut locks = self.locks.lock();
        for lock in lost {
            tracing::warn!(
                file = lock.file,
                start = lock.start,
                last = lock.last,
                pid = lock.pid,
                "a lock was lost while the metadata service was away: somebody else holds it"
            );
            if let Some(of_file) = locks.get_mut(&lock.file) {
                let kind = LockKind::Unlock as i32;
                of_file.paint(HeldLock { kind, ..*lock });
            }
        }
    }

    /// The last attachment of a file has ended, and with it every lock.
    pub(crate) fn locks_ended(&self, file: u64) {
        self.locks.lock().remove(&file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(kind: LockKind, start: u64, last: u64) -> HeldLock {
        HeldLock {
            file: 1,
            family: LockFamily::Range as i32,
            kind: kind as i32,
            owner: 5,
            pid: 6,
            start,
            last,
        }
    }

    fn spans(locks: &[HeldLock]) -> Vec<(i32, u64, u64)> {
        let mut spans: Vec<_> = locks.iter().map(|l| (l.kind, l.start, l.last)).collect();
        spans.sort_by_key(|s| s.1);
        spans
    }

    #[test]
    fn what_is_held_splits_and_merges_and_stays_few() {
        let mut locks = FileLocks::default();
        for byte in 0..100 {
            locks.paint(lock(LockKind::Shared, byte, byte));
        }
        assert_eq!(spans(&locks.held), [(1, 0, 99)]);
        locks.paint(lock(LockKind::Exclusive, 10, 19));
        locks.paint(lock(LockKind::Unlock, 15, 29));
        let expected = [(1, 0, 9), (2, 10, 14), (1, 30, 99)];
        assert_eq!(spans(&locks.held), expected);
        locks.paint(lock(LockKind::Exclusive, 0, u64::MAX));
        assert_eq!(spans(&locks.held), [(2, 0, u64::MAX)]);
    }

    #[test]
    fn the_pieces_of_a_range_cover_it_once() {
        let mut locks = FileLocks::default();
        locks.paint(lock(LockKind::Shared, 5, 9));
        locks.paint(lock(LockKind::Exclusive, 20, 40));
        let pieces = locks.pieces(&lock(LockKind::Exclusive, 0, 29));
        let expected = [(0, 0, 4), (1, 5, 9), (0, 10, 19), (2, 20, 29)];
        assert_eq!(spans(&pieces), expected);
    }
}
