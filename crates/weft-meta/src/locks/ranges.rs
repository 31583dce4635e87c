//! The locks held on one file in one family, and the effect of setting a range.
//!
//! Invariants: locks of one owner do not overlap, and those that touch differ in kind; a range that
//! one owner holds exclusively is held by no other.

use super::lock::{Lock, LockOwner, Span};

/// Locks held, in no particular order.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldLocks(Vec<Lock>);

impl HeldLocks {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Lock> {
        self.0.iter()
    }

    /// The locks of other owners that exclude this one.
    pub(super) fn blockers<'a>(&'a self, wanted: &'a Lock) -> impl Iterator<Item = &'a Lock> {
        let excludes = |held: &&Lock| {
            held.owner != wanted.owner
                && held.span.overlaps(&wanted.span)
                && (held.exclusive || wanted.exclusive)
        };
        self.0.iter().filter(excludes)
    }

    /// Releases `span` of what `owner` holds. Returns by how much the number of locks grows, which
    /// may be negative.
    pub(super) fn clear(&mut self, owner: LockOwner, span: Span) -> isize {
        let before = self.0.len();
        let mut rests = Vec::new();
        self.0.retain(|held| {
            if held.owner != owner || !held.span.overlaps(&span) {
                return true;
            }
            rests.extend(held.span.without(&span).map(|span| Lock { span, ..*held }));
            false
        });
        self.0.extend(rests);
        self.0.len().cast_signed() - before.cast_signed()
    }

    /// Sets `lock`, which replaces what its owner held there. Returns the same as
    /// [`HeldLocks::clear`].
    pub(super) fn set(&mut self, mut lock: Lock) -> isize {
        let before = self.0.len();
        self.clear(lock.owner, lock.span);
        self.0.retain(|held| {
            let merges = held.owner == lock.owner
                && held.exclusive == lock.exclusive
                && held.span.touches(&lock.span);
            if merges {
                lock.span = lock.span.and(&held.span);
            }
            !merges
        });
        self.0.push(lock);
        self.0.len().cast_signed() - before.cast_signed()
    }

    /// Removes locks and returns them.
    pub(super) fn remove(&mut self, mut which: impl FnMut(&Lock) -> bool) -> Vec<Lock> {
        let (removed, left) = self.0.drain(..).partition(|lock| which(lock));
        self.0 = left;
        removed
    }
}
