//! Complete directories: those all of whose names are known, because this mount has made them and
//! holds their leases.
//!
//! A new directory is empty. Everything in it is made by this mount until the watch reports that
//! another client has made something, which ends the lease. So a name that this mount has not
//! mentioned does not exist, and a program that makes thousands of files in a new directory need
//! not ask for each. Names are kept as hashes: a collision costs a question, never a wrong answer.
//!
//! Invariant: every name that exists in a complete directory is in the table.

use std::collections::HashMap;

use crate::limits::{COMPLETE_NAMES_MAX, NEIGHBOURS_SCAN_MAX};
use parking_lot::Mutex;

/// Directories all of whose names are known.
#[derive(Debug, Default)]
pub(in crate::fs) struct CompleteDirectories(Mutex<NameTable>);

#[derive(Debug, Default)]
struct NameTable {
    /// By directory and hash of the name: the file it refers to; 0 if that is unknown.
    names: HashMap<u64, HashMap<u64, u64>>,
    /// Names and directories in the table.
    count: usize,
}

impl CompleteDirectories {
    /// A directory was made just now, and is leased.
    pub(in crate::fs) fn made(&self, directory: u64) {
        let mut all = self.0.lock();
        all.make_space();
        all.names.insert(directory, HashMap::new());
        all.count += 1;
    }

    /// A name may exist from now on.
    pub(in crate::fs) fn may_exist(&self, directory: u64, name: u64) {
        let mut all = self.0.lock();
        if let Some(names) = all.names.get_mut(&directory)
            && names.insert(name, 0).is_none()
        {
            all.count += 1;
            all.make_space();
        }
    }

    /// A name refers to this file.
    pub(in crate::fs) fn names(&self, directory: u64, name: u64, file: u64) {
        let mut all = self.0.lock();
        if let Some(names) = all.names.get_mut(&directory)
            && let Some(named) = names.get_mut(&name)
        {
            *named = file;
        }
    }

    /// The file that a name refers to, if that is certain.
    pub(in crate::fs) fn named(&self, directory: u64, name: u64) -> Option<u64> {
        let all = self.0.lock();
        let file = *all.names.get(&directory)?.get(&name)?;
        (file != 0).then_some(file)
    }

    /// A name was removed.
    pub(in crate::fs) fn removed(&self, directory: u64, name: u64) {
        let mut all = self.0.lock();
        if let Some(names) = all.names.get_mut(&directory)
            && names.remove(&name).is_some()
        {
            all.count -= 1;
        }
    }

    /// Whether a name certainly does not exist.
    pub(in crate::fs) fn is_absent(&self, directory: u64, name: u64) -> bool {
        let all = self.0.lock();
        all.names
            .get(&directory)
            .is_some_and(|names| !names.contains_key(&name))
    }

    /// Whether a directory is complete.
    pub(in crate::fs) fn has(&self, directory: u64) -> bool {
        self.0.lock().names.contains_key(&directory)
    }

    /// Whether a directory is complete and has no names.
    pub(in crate::fs) fn is_empty(&self, directory: u64) -> bool {
        let all = self.0.lock();
        all.names.get(&directory).is_some_and(HashMap::is_empty)
    }

    /// Complete directories in this one, of its first names.
    pub(in crate::fs) fn complete_in(&self, directory: u64) -> Vec<u64> {
        let all = self.0.lock();
        let files = all
            .names
            .get(&directory)
            .into_iter()
            .flat_map(HashMap::values);
        let complete = |file: &&u64| all.names.contains_key(file);
        files
            .take(NEIGHBOURS_SCAN_MAX)
            .filter(complete)
            .copied()
            .collect()
    }

    /// A directory's lease has ended, or it was removed, or the cache above does not know it any
    /// more.
    pub(in crate::fs) fn forget(&self, directory: u64) {
        let mut all = self.0.lock();
        if let Some(names) = all.names.remove(&directory) {
            all.count -= names.len() + 1;
        }
    }

    pub(in crate::fs) fn forget_all(&self) {
        *self.0.lock() = NameTable::default();
    }
}

impl NameTable {
    fn make_space(&mut self) {
        if self.count >= COMPLETE_NAMES_MAX {
            *self = NameTable::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_never_mentioned_in_a_new_directory_are_absent() {
        let complete = CompleteDirectories::default();
        assert!(!complete.is_absent(5, 1), "the directory is not complete");
        complete.made(5);
        assert!(complete.is_absent(5, 1));
        complete.may_exist(5, 1);
        assert!(!complete.is_absent(5, 1) && complete.is_absent(5, 2));
        assert_eq!(complete.named(5, 1), None, "the name may exist");
        complete.names(5, 1, 77);
        assert_eq!(complete.named(5, 1), Some(77));
        complete.may_exist(5, 1);
        assert_eq!(
            complete.named(5, 1),
            None,
            "the name may refer to another file"
        );
        complete.removed(5, 1);
        assert!(complete.is_absent(5, 1));
        complete.forget(5);
        assert!(!complete.is_absent(5, 1));
        assert_eq!(complete.0.lock().count, 0);
    }

    #[test]
    fn memory_is_bounded() {
        let complete = CompleteDirectories::default();
        complete.made(5);
        for name in 0..2 * COMPLETE_NAMES_MAX as u64 {
            complete.may_exist(5, name);
        }
        assert!(complete.0.lock().count <= COMPLETE_NAMES_MAX);
        assert!(!complete.is_absent(5, u64::MAX));
    }
}
