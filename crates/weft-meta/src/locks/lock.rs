//! One lock: owner, span and family.

use weft_proto::coord::{HeldLock, LockFamily, LockKind};

/// The owner of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockOwner {
    /// The client.
    pub client: u64,
    /// The number that the client gave it.
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
    /// The owner.
    pub owner: LockOwner,
    /// The process, for display.
    pub pid: u32,
    /// Excludes all other locks, instead of only exclusive ones.
    pub exclusive: bool,
    /// The bytes that it covers.
    pub span: Span,
}

/// A family of locks; families do not see each other.
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

    pub(super) fn overlaps(&self, other: &Span) -> bool {
        self.start <= other.last && other.start <= self.last
    }

    /// Whether they overlap or are adjacent.
    pub(super) fn touches(&self, other: &Span) -> bool {
        self.start <= other.last.saturating_add(1) && other.start <= self.last.saturating_add(1)
    }

    pub(super) fn and(&self, other: &Span) -> Span {
        Span {
            start: self.start.min(other.start),
            last: self.last.max(other.last),
        }
    }

    /// The rest of this span outside another one that overlaps it.
    pub(super) fn without(&self, other: &Span) -> impl Iterator<Item = Span> + use<> {
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
    /// Converts from the wire; `None` where it is no lock of a family.
    pub fn from_wire(client: u64, lock: &HeldLock) -> Option<(Family, Lock)> {
        let (family, span) = match lock.family() {
            LockFamily::Any => return None,
            LockFamily::Whole => (Family::Whole, Span::ALL),
            LockFamily::Range => {
                let (start, last) = (lock.start, lock.last);
                (Family::Range, Span { start, last })
            }
        };
        let owner = LockOwner {
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

    /// Converts to the wire.
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
