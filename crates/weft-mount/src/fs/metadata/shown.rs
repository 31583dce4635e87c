//! Changes that opens have shown to the cache above before the watch reports them.
//!
//! An open makes the cache above drop older copies of the file. A report of a change that the open
//! already shows is not urgent, and may harm: the kernel ignores the answer to a question that a
//! notification overtakes, keeps the old size, and ends the first read there. So it comes later.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;
use weft_client::ChangeCursor;

use crate::limits::SHOWN_CHANGES_MAX;

/// The changes that opens have shown.
#[derive(Debug, Default)]
pub(super) struct ShownChanges(Mutex<Shown>);

#[derive(Debug, Default)]
struct Shown {
    as_of: HashMap<u64, ChangeCursor>,
    /// Files of which the cache above will hear.
    due: HashSet<u64>,
}

impl ShownChanges {
    /// An open shows a file as of these changes.
    pub(super) fn shown(&self, id: u64, as_of: ChangeCursor) {
        let mut shown = self.0.lock();
        if shown.as_of.len() >= SHOWN_CHANGES_MAX {
            // An early report does little harm.
            shown.as_of.clear();
        }
        shown.as_of.insert(id, as_of);
    }

    /// Whether an open has shown all changes of a file up to these.
    pub(super) fn covers(&self, id: u64, until: ChangeCursor) -> bool {
        let mut shown = self.0.lock();
        let covers = shown
            .as_of
            .get(&id)
            .is_some_and(|as_of| as_of.boot == until.boot && as_of.cursor >= until.cursor);
        if !covers {
            shown.as_of.remove(&id);
        }
        covers
    }

    /// The cache above is to hear of a file; false if it will already.
    pub(super) fn is_newly_due(&self, id: u64) -> bool {
        self.0.lock().due.insert(id)
    }

    /// The cache above hears of a file now.
    pub(super) fn heard(&self, id: u64) {
        self.0.lock().due.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_covers_changes_up_to_its_own_of_the_same_run() {
        let shown = ShownChanges::default();
        let at = |boot, cursor| ChangeCursor { boot, cursor };
        assert!(!shown.covers(7, at(1, 5)));
        shown.shown(7, at(1, 5));
        assert!(shown.covers(7, at(1, 4)) && shown.covers(7, at(1, 5)));
        assert!(!shown.covers(8, at(1, 5)) && !shown.covers(7, at(2, 4)));
        shown.shown(7, at(2, 5));
        assert!(!shown.covers(7, at(2, 6)), "a later change");
        assert!(shown.is_newly_due(7) && !shown.is_newly_due(7));
        shown.heard(7);
        assert!(shown.is_newly_due(7));
    }
}
