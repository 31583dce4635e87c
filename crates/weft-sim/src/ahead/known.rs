//! What a client knows of the names in directories that it made, as a mount knows it: a name that
//! it has not mentioned does not exist there, until the watch reports a change of another client.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_client::Changed;

/// See the module.
#[derive(Default)]
pub(super) struct Known(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// The watch reports every change.
    live: bool,
    /// Counts what the watch reported.
    time: u64,
    /// Nothing is known from before this.
    floor: u64,
    /// When the watch last reported a change in a directory.
    changed: BTreeMap<u64, u64>,
    /// Files by name; 0: it may be there, and its id is not known.
    complete: BTreeMap<u64, BTreeMap<String, u64>>,
}

impl Known {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The watch has reported something.
    pub(super) fn changed(&self, changed: &Changed, live: bool) {
        let mut table = self.table();
        table.time += 1;
        table.live = live;
        let time = table.time;
        match changed {
            Changed::Everything => {
                table.floor = time;
                table.complete.clear();
            }
            Changed::Some { files, entries, .. } => {
                let parents = entries.iter().map(|entry| entry.parent);
                for id in parents.clone().chain(files.iter().copied()) {
                    table.changed.insert(id, time);
                }
                for parent in parents {
                    table.complete.remove(&parent);
                }
            }
        }
    }

    pub(super) fn is_live(&self) -> bool {
        self.table().live
    }

    /// This moment, before a directory is made.
    pub(super) fn now(&self) -> u64 {
        self.table().time
    }

    /// A directory was made, and is leased.
    pub(super) fn made(&self, asked: u64, directory: u64) {
        let mut table = self.table();
        let changed = table.changed.get(&directory);
        let is_current = changed.is_none_or(|at| *at <= asked) && asked >= table.floor;
        if is_current && table.live {
            table.complete.insert(directory, BTreeMap::new());
        }
    }

    /// Others may make names in a directory without notice.
    pub(super) fn forget(&self, directory: u64) {
        self.table().complete.remove(&directory);
    }

    pub(super) fn is_absent(&self, directory: u64, name: &str) -> bool {
        let table = self.table();
        let names = table.complete.get(&directory);
        names.is_some_and(|names| !names.contains_key(name))
    }

    /// The directories all of whose names are known.
    pub(super) fn directories(&self) -> Vec<u64> {
        self.table().complete.keys().copied().collect()
    }

    /// The file that a name certainly stands for.
    pub(super) fn named(&self, directory: u64, name: &str) -> Option<u64> {
        let table = self.table();
        let file = *table.complete.get(&directory)?.get(name)?;
        (file != 0).then_some(file)
    }

    pub(super) fn may_exist(&self, directory: u64, name: &str) {
        if let Some(names) = self.table().complete.get_mut(&directory) {
            names.insert(name.to_owned(), 0);
        }
    }

    pub(super) fn names(&self, directory: u64, name: &str, file: u64) {
        let mut table = self.table();
        let names = table.complete.get_mut(&directory);
        if let Some(named) = names.and_then(|names| names.get_mut(name)) {
            *named = file;
        }
    }

    pub(super) fn removed(&self, directory: u64, name: &str) {
        if let Some(names) = self.table().complete.get_mut(&directory) {
            names.remove(name);
        }
    }
}
