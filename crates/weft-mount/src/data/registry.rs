//! The files of a mount by id: those that are open, and when this mount last changed those that no
//! longer are.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::clock::Moment;
use crate::limits::CLOSED_CHANGES_MAX;

/// Open files of type `F`, and the last changes of closed ones.
pub(super) struct Registry<F>(Mutex<Files<F>>);

struct Files<F> {
    open: HashMap<u64, Weak<F>>,
    /// When this mount last changed files that it no longer has open.
    changed: HashMap<u64, Moment>,
    /// Changes up to here may be missing from `changed`.
    forgotten: Moment,
}

impl<F> Default for Registry<F> {
    fn default() -> Registry<F> {
        Registry(Mutex::new(Files {
            open: HashMap::new(),
            changed: HashMap::new(),
            forgotten: Moment::default(),
        }))
    }
}

/// Whether an answer about a file may be older than this mount's changes.
pub(super) enum Freshness {
    /// It is current: the file was just created, or nothing was asked.
    Current,
    /// It was asked for at this moment.
    AskedAt(Moment),
}

impl<F> Registry<F> {
    /// Opens a file: `open` gets the shared state, made by `make` if the file is not open, under
    /// the registry's lock. `None` if this mount has changed the file since the answer was asked
    /// for.
    pub(super) fn open<T>(
        &self,
        id: u64,
        freshness: &Freshness,
        make: impl FnOnce() -> F,
        open: impl FnOnce(Arc<F>) -> T,
    ) -> Option<T> {
        let mut files = self.0.lock();
        let known = files.open.get(&id);
        // Its last open has just ended and has not recorded its changes yet.
        let ending = known.is_some_and(|file| file.strong_count() == 0);
        let file = if let Some(file) = known.and_then(Weak::upgrade) {
            file
        } else {
            if let Freshness::AskedAt(asked) = freshness
                && (ending || files.changed_since(id, *asked))
            {
                return None;
            }
            let file = Arc::new(make());
            files.open.insert(id, Arc::downgrade(&file));
            file
        };
        Some(open(file))
    }

    pub(super) fn get(&self, id: u64) -> Option<Arc<F>> {
        self.0.lock().open.get(&id).and_then(Weak::upgrade)
    }

    pub(super) fn all(&self) -> Vec<Arc<F>> {
        let files = self.0.lock();
        files.open.values().filter_map(Weak::upgrade).collect()
    }

    /// This mount has changed a file by other means than an open.
    pub(super) fn note_changed(&self, id: u64, now: Moment) {
        self.0.lock().note_changed(id, now);
    }

    /// The last open of a file has ended; `changed`: some open changed its bytes.
    pub(super) fn forget(&self, id: u64, changed: bool, now: Moment) {
        let mut files = self.0.lock();
        if changed {
            files.note_changed(id, now);
        }
        // The file may have been opened again meanwhile.
        let open = files.open.get(&id);
        if open.is_some_and(|file| file.strong_count() == 0) {
            files.open.remove(&id);
        }
    }
}

impl<F> Files<F> {
    fn note_changed(&mut self, id: u64, now: Moment) {
        if self.changed.len() >= CLOSED_CHANGES_MAX {
            self.changed.clear();
            self.forgotten = now;
        }
        self.changed.insert(id, now);
    }

    fn changed_since(&self, id: u64, asked: Moment) -> bool {
        let at = self.changed.get(&id).copied().unwrap_or_default();
        at.max(self.forgotten) > asked
    }
}
