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
pub(super) struct AskedFor {
    /// Canonical ranges whose names are to be fetched.
    pub(super) names: Vec<Range<u64>>,
    pub(super) commit: bool,
}

/// What callbacks have asked for so far.
#[derive(Default)]
pub(super) struct Pending(Mutex<AskedFor>);

impl Pending {
    /// Names of this range are to be fetched, if not too many are.
    pub(super) fn fetch(&self, range: Range<u64>) {
        let mut asked = self.0.lock();
        if asked.names.len() < RANGES_MAX {
            asked.names.push(range);
        }
    }

    /// Delayed writes are to leave.
    pub(super) fn commit(&self) {
        self.0.lock().commit = true;
    }

    /// What is to be done.
    pub(super) fn take(&self) -> AskedFor {
        std::mem::take(&mut *self.0.lock())
    }
}
