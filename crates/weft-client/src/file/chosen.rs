//! The policy of an attachment, as it was chosen, and what its callbacks have asked for.

use std::ops::Range;

use parking_lot::Mutex;
use weft_policy::Opened;

use crate::policy::{Policy, Values};

/// The most ranges whose names one callback can have fetched.
const RANGES_MAX: usize = 1_024;

/// The policy of an attachment, as it was chosen.
pub(crate) struct Chosen {
    pub(super) policy: Policy,
    pub(super) values: Values,
    pub(super) opened: Option<Opened>,
}

impl Chosen {
    pub(super) fn new(policy: Policy) -> Chosen {
        Chosen {
            policy,
            values: policy.values(),
            opened: None,
        }
    }

    pub(crate) fn values(&self) -> Values {
        self.values
    }
}

/// What callbacks have asked for, to be done when they have returned.
#[derive(Default)]
#[must_use = "it is to be done"]
pub(crate) struct AskedFor {
    /// Canonical ranges whose names are to be fetched.
    pub(super) names: Vec<Range<u64>>,
    pub(super) commit: bool,
}

impl AskedFor {
    /// Names of this range are to be fetched, if not too many are.
    pub(super) fn fetch(&mut self, range: Range<u64>) {
        if self.names.len() < RANGES_MAX {
            self.names.push(range);
        }
    }

    fn is_nothing(&self) -> bool {
        self.names.is_empty() && !self.commit
    }
}

/// What callbacks have asked for where it could not be done: when a file was opened, or its policy
/// was changed. The next operation does it first.
#[derive(Default)]
pub(super) struct Pending(Mutex<AskedFor>);

impl Pending {
    pub(super) fn add(&self, asked: AskedFor) {
        let mut pending = self.0.lock();
        pending.commit |= asked.commit;
        for range in asked.names {
            pending.fetch(range);
        }
    }

    pub(super) fn take(&self) -> Option<AskedFor> {
        let mut pending = self.0.lock();
        (!pending.is_nothing()).then(|| std::mem::take(&mut *pending))
    }
}
