//! The grace period after a restart: clients of the last run may have files open and have not
//! reported that yet.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::records::record::CountersRecord;

/// Whether the grace period lasts, and what the last run left behind.
#[derive(Debug)]
pub(crate) struct Grace {
    active: AtomicBool,
    /// Files from this id on were made in this run of the service.
    first_id: u64,
    /// Intents below this number were pending when the last run crashed; 0 where it closed cleanly.
    first_intent: u64,
}

/// How the last run of the service ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastRun {
    /// No client had anything open.
    Clean,
    /// Clients may still have files open.
    Crashed,
}

/// Which clients can reach the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    /// Any, those of the last run included.
    Any,
    /// Only the caller: no client of the last run can reconnect.
    OnlyCaller,
}

impl Grace {
    /// The grace period of a run that begins with these counters.
    pub(crate) fn begin(counters: &CountersRecord, last: LastRun, clients: Clients) -> Grace {
        let crashed = last == LastRun::Crashed;
        Grace {
            active: AtomicBool::new(crashed),
            first_id: match clients {
                Clients::Any => counters.next_id,
                Clients::OnlyCaller => 0,
            },
            first_intent: if crashed { counters.next_intent } else { 0 },
        }
    }

    /// Whether clients of the last run may not have reported yet what they have open.
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    /// Ends the grace period.
    pub(crate) fn end(&self) {
        self.active.store(false, Ordering::Release);
    }

    /// Whether clients of the last run may have a file open, or locks on it, and have not reported
    /// that yet.
    pub(crate) fn may_hold(&self, file: u64) -> bool {
        self.is_active() && file < self.first_id
    }

    /// Whether this intent was pending when the last run crashed.
    pub(crate) fn was_pending(&self, intent: u64) -> bool {
        intent < self.first_intent
    }
}
