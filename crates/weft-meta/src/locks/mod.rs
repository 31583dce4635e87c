//! The lock table: who holds which lock, and who waits. A pure data structure: no time, no threads, no messages.
//!
//! Two families that do not see each other, as on Linux: whole-file locks (`flock`) and locks on ranges of bytes
//! (`fcntl`), which split and merge. An owner is a client and a number of its choosing. A request that must wait is
//! kept under a ticket; whatever lets go answers the tickets that are granted by it, in the order in which they came. A
//! new request is granted whenever nothing that is *held* excludes it, also past those who wait (as on Linux;
//! otherwise an owner that holds much and asks for a little more would wait for those who wait for it).
//!
//! Invariants:
//! 1. Of two locks of one family that overlap and belong to different owners, none is exclusive.
//! 2. Whoever waits is excluded by a lock that is held.
//! 3. No request for a range begins to wait that would close a circle. (Owners of whole files may wait in one: Linux
//!    does not look either.)
//!
//! Deliberately absent: permissions, which the kernel or the door checks; and fairness beyond the above.

mod ranges;
mod table;

pub use table::{Granted, LockTable, Outcome};

use weft_proto::coord::{HeldLock, LockFamily, LockKind};

/// Who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The client.
    pub client: u64,
    /// The client's number for it.
    pub number: u64,
}

/// Bytes from `start` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u64,
    /// The last byte.
    pub last: u64,
}

/// A lock that is held or wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Who.
    pub owner: Owner,
    /// The process, for people to see.
    pub pid: u32,
    /// Excludes all others, instead of only exclusive ones.
    pub exclusive: bool,
    /// Where.
    pub span: Span,
}

/// One of the families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// `flock`.
    Whole,
    /// `fcntl`.
    Range,
}

impl Span {
    /// All of a file.
    pub const ALL: Span = Span {
        start: 0,
        last: u64::MAX,
    };

    fn overlaps(&self, other: &Span) -> bool {
        self.start <= other.last && other.start <= self.last
    }

    /// Overlap, or lie side by side.
    fn touches(&self, other: &Span) -> bool {
        self.start <= other.last.saturating_add(1) && other.start <= self.last.saturating_add(1)
    }

    fn and(&self, other: &Span) -> Span {
        Span {
            start: self.start.min(other.start),
            last: self.last.max(other.last),
        }
    }

    /// What is left of this one outside the other, with which it overlaps.
    fn without(&self, other: &Span) -> impl Iterator<Item = Span> + use<> {
        let below = (self.start < other.start).then(|| Span {
            start: self.start,
            last: other.start - 1,
        });
        let above = (self.last > other.last).then(|| Span {
            start: other.last + 1,
            last: self.last,
        });
        below.into_iter().chain(above)
    }
}

impl Lock {
    /// From the wire; nothing where it is no lock of a family.
    pub fn from_wire(client: u64, lock: &HeldLock) -> Option<(Family, Lock)> {
        let (family, span) = match lock.family() {
            LockFamily::Any => return None,
            LockFamily::Whole => (Family::Whole, Span::ALL),
            LockFamily::Range => {
                let (start, last) = (lock.start, lock.last);
                (Family::Range, Span { start, last })
            }
        };
        let owner = Owner {
            client,
            number: lock.owner,
        };
        let lock = Lock {
            owner,
            pid: lock.pid,
            exclusive: lock.kind() == LockKind::Exclusive,
            span,
        };
        (span.start <= span.last).then_some((family, lock))
    }

    /// For the wire.
    pub fn to_wire(&self, file: u64, family: Family) -> HeldLock {
        let family = match family {
            Family::Whole => LockFamily::Whole,
            Family::Range => LockFamily::Range,
        };
        let kind = if self.exclusive {
            LockKind::Exclusive
        } else {
            LockKind::Shared
        };
        HeldLock {
            file,
            family: family as i32,
            kind: kind as i32,
            owner: self.owner.number,
            pid: self.pid,
            start: self.span.start,
            last: self.span.last,
        }
    }
}
