//! The locks that this client holds, so that they can be asserted again after a restart of
//! the service.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use weft_proto::coord::{HeldLock, LockKind};

/// What this client holds of one file.
#[derive(Debug, Default)]
pub(crate) struct FileLocks {
    held: Vec<HeldLock>,
    /// Owners that have asked for a lock: the service may know of one of theirs.
    owners: BTreeSet<u64>,
}

/// What this client holds, by file.
#[derive(Debug, Default)]
pub(crate) struct LocksHeld(Mutex<BTreeMap<u64, FileLocks>>);

impl LocksHeld {
    /// Looks at what is held of a file, or changes it.
    pub(crate) fn with<T>(&self, file: u64, work: impl FnOnce(&mut FileLocks) -> T) -> T {
        let mut locks = self.0.lock();
        let of_file = locks.entry(file).or_default();
        let value = work(of_file);
        if of_file.held.is_empty() && of_file.owners.is_empty() {
            locks.remove(&file);
        }
        value
    }

    /// All locks held, to be asserted to the service.
    pub(crate) fn all(&self) -> Vec<HeldLock> {
        let locks = self.0.lock();
        let held = locks.values().flat_map(|l| l.held.iter().copied());
        held.collect()
    }

    /// The service says that other clients hold these now.
    pub(crate) fn lost(&self, lost: &[HeldLock]) {
        let mut locks = self.0.lock();
        for lock in lost {
            tracing::warn!(
                file = lock.file,
                start = lock.start,
                last = lock.last,
                pid = lock.pid,
                "a lock was lost while the metadata service was away: another client holds it"
            );
            if let Some(of_file) = locks.get_mut(&lock.file) {
                let kind = LockKind::Unlock as i32;
                of_file.apply_range(HeldLock { kind, ..*lock });
            }
        }
    }

    /// The last attachment of a file has ended, and with it every lock.
    pub(crate) fn ended(&self, file: u64) {
        self.0.lock().remove(&file);
    }
}

impl FileLocks {
    /// An owner has asked for a lock: the service may know of one of its locks. Whether it converts
    /// a lock of the whole file that it holds; then that lock is let go.
    pub(crate) fn asks(&mut self, lock: HeldLock, whole: bool) {
        self.owners.insert(lock.owner);
        let converts = |held: &HeldLock| same_owner(held, &lock) && held.kind != lock.kind;
        if whole && self.held.iter().any(converts) {
            let kind = LockKind::Unlock as i32;
            self.apply_range(HeldLock { kind, ..lock });
        }
    }

    /// An owner lets go of everything; whether it has ever asked for a lock.
    pub(crate) fn release(&mut self, owner: u64) -> bool {
        self.held.retain(|held| held.owner != owner);
        self.owners.contains(&owner)
    }

    /// The service knows that an owner holds nothing.
    pub(crate) fn released(&mut self, owner: u64) {
        self.owners.remove(&owner);
    }

    /// Makes `lock` hold in place of what its owner held there; an unlock only takes away.
    pub(crate) fn apply_range(&mut self, lock: HeldLock) {
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
    pub(crate) fn pieces(&self, lock: &HeldLock) -> Vec<HeldLock> {
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
                all.apply_range(piece);
            }
        }
        // Downgrades first: no other client comes between.
        all.held.sort_by_key(|piece| std::cmp::Reverse(piece.kind));
        all.held
    }
}

pub(crate) fn same_owner(one: &HeldLock, other: &HeldLock) -> bool {
    one.owner == other.owner && one.family == other.family
}

#[cfg(test)]
mod tests {
    use weft_proto::coord::LockFamily;

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
    fn held_locks_are_split_and_merged_into_few_ranges() {
        let mut locks = FileLocks::default();
        for byte in 0..100 {
            locks.apply_range(lock(LockKind::Shared, byte, byte));
        }
        assert_eq!(spans(&locks.held), [(1, 0, 99)]);
        locks.apply_range(lock(LockKind::Exclusive, 10, 19));
        locks.apply_range(lock(LockKind::Unlock, 15, 29));
        let expected = [(1, 0, 9), (2, 10, 14), (1, 30, 99)];
        assert_eq!(spans(&locks.held), expected);
        locks.apply_range(lock(LockKind::Exclusive, 0, u64::MAX));
        assert_eq!(spans(&locks.held), [(2, 0, u64::MAX)]);
    }

    #[test]
    fn the_pieces_of_a_range_cover_it_once() {
        let mut locks = FileLocks::default();
        locks.apply_range(lock(LockKind::Shared, 5, 9));
        locks.apply_range(lock(LockKind::Exclusive, 20, 40));
        let pieces = locks.pieces(&lock(LockKind::Exclusive, 0, 29));
        let expected = [(0, 0, 4), (1, 5, 9), (0, 10, 19), (2, 20, 29)];
        assert_eq!(spans(&pieces), expected);
    }
}
