//! Changes that opens have shown to the cache above before the watch reports them.
//!
//! An open makes the cache above drop older copies of the file. A report of a change that the open
//! already shows is not urgent, and may harm: the kernel ignores the answer to a question that a
//! notification overtakes, keeps the old size, and ends the first read there. So it comes later.

use std::collections::HashMap;

use parking_lot::Mutex;
use weft_client::ChangeCursor;

use crate::limits::SHOWN_CHANGES_MAX;

/// The changes that opens have shown, by file.
#[derive(Debug, Default)]
pub(super) struct ShownChanges(Mutex<HashMap<u64, ChangeCursor>>);

impl ShownChanges {
    /// An open shows a file as of these changes.
    pub(super) fn shown(&self, id: u64, as_of: ChangeCursor) {
        let mut shown = self.0.lock();
        if shown.len() >= SHOWN_CHANGES_MAX {
            // A report without need does no harm.
            shown.clear();
        }
        shown.insert(id, as_of);
    }

    /// Whether an open has shown all changes of a file up to these.
    pub(super) fn covers(&self, id: u64, until: ChangeCursor) -> bool {
        let mut shown = self.0.lock();
        let covers = shown
            .get(&id)
            .is_some_and(|as_of| as_of.boot == until.boot && as_of.cursor >= until.cursor);
        if !covers {
            shown.remove(&id);
        }
        covers
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
    }
}
