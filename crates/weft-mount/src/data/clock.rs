//! The logical clock of a data cache. It orders answers of the service and changes made here.

use std::sync::atomic::{AtomicU64, Ordering};

/// A moment in a data cache's life. Taken before a file is attached, it shows afterwards whether
/// the answer's bytes are still current.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

pub(super) struct Clock(AtomicU64);

impl Default for Clock {
    fn default() -> Clock {
        Clock(AtomicU64::new(1))
    }
}

impl Clock {
    pub(super) fn now(&self) -> Moment {
        Moment(self.0.load(Ordering::Acquire))
    }

    /// A moment that is later than all before.
    pub(super) fn tick(&self) -> Moment {
        Moment(self.0.fetch_add(1, Ordering::AcqRel) + 1)
    }
}
