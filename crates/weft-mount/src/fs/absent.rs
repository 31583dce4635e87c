//! Names that are known not to be there: those in directories that this mount has made and has the
//! lease of.
//!
//! A new directory is empty. Whatever is made in it is made by this mount, until the watch tells
//! that somebody else has made something, which ends the lease; so a name that this mount has not
//! mentioned is not there, and a program that makes thousands of files in a new directory need not
//! ask for each. Names are kept as hashes: two that collide cost a question, never a wrong answer.
//!
//! Invariant: of a directory that is kept every name that is there is kept.

use std::collections::HashMap;

use crate::limits::COMPLETE_NAMES_MAX;
use parking_lot::Mutex;

/// Directories all of whose names are known.
#[derive(Debug, Default)]
pub(super) struct Absent(Mutex<Directories>);

#[derive(Debug, Default)]
struct Directories {
    /// By directory, and by the hash of the name: what it names; 0 where that is not known.
    names: HashMap<u64, HashMap<u64, u64>>,
    /// Names and directories.
    kept: usize,
}

impl Absent {
    /// A directory was made just now, and is leased.
    pub(super) fn made(&self, directory: u64) {
        let mut all = self.0.lock();
        all.room();
        all.names.insert(directory, HashMap::new());
        all.kept += 1;
    }

    /// A name may be there from now on.
    pub(super) fn may_be_there(&self, directory: u64, name: u64) {
        let mut all = self.0.lock();
        if let Some(names) = all.names.get_mut(&directory)
            && names.insert(name, 0).is_none()
        {
            all.kept += 1;
            all.room();
        }
    }

    /// A name names this file.
    pub(super) fn names(&self, directory: u64, name: u64, file: u64) {
        let mut all = self.0.lock();
        if let Some(names) = all.names.get_mut(&directory)
            && let Some(named) = names.get_mut(&name)
        {
            *named = file;
        }
    }

    /// What a name names, where that is certain.
    pub(super) fn named(&self, directory: u64, name: u64) -> Option<u64> {
        let all = self.0.lock();
        let file = *all.names.get(&directory)?.get(&name)?;
        (file != 0).then_some(file)
    }

    /// A name was taken away.
    pub(super) fn taken_away(&self, directory: u64, name: u64) {
        let mut all = self.0.lock();
        if let Some(names) = all.names.get_mut(&directory)
            && names.remove(&name).is_some()
        {
            all.kept -= 1;
        }
    }

    /// Whether this name is certainly not there.
    pub(super) fn is_absent(&self, directory: u64, name: u64) -> bool {
        let all = self.0.lock();
        all.names
            .get(&directory)
            .is_some_and(|names| !names.contains_key(&name))
    }

    /// The lease of a directory has ended, or it is gone, or the kernel does not know it any more.
    pub(super) fn forget(&self, directory: u64) {
        let mut all = self.0.lock();
        if let Some(names) = all.names.remove(&directory) {
            all.kept -= names.len() + 1;
        }
    }

    pub(super) fn forget_all(&self) {
        *self.0.lock() = Directories::default();
    }
}

impl Directories {
    fn room(&mut self) {
        if self.kept >= COMPLETE_NAMES_MAX {
            *self = Directories::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_never_mentioned_in_a_new_directory_is_absent() {
        let absent = Absent::default();
        assert!(!absent.is_absent(5, 1), "nothing is known of it");
        absent.made(5);
        assert!(absent.is_absent(5, 1));
        absent.may_be_there(5, 1);
        assert!(!absent.is_absent(5, 1) && absent.is_absent(5, 2));
        assert_eq!(absent.named(5, 1), None, "it may be there");
        absent.names(5, 1, 77);
        assert_eq!(absent.named(5, 1), Some(77));
        absent.may_be_there(5, 1);
        assert_eq!(absent.named(5, 1), None, "it may be another");
        absent.taken_away(5, 1);
        assert!(absent.is_absent(5, 1));
        absent.forget(5);
        assert!(!absent.is_absent(5, 1));
        assert_eq!(absent.0.lock().kept, 0);
    }

    #[test]
    fn memory_is_bounded() {
        let absent = Absent::default();
        absent.made(5);
        for name in 0..2 * COMPLETE_NAMES_MAX as u64 {
            absent.may_be_there(5, name);
        }
        assert!(absent.0.lock().kept <= COMPLETE_NAMES_MAX);
        assert!(!absent.is_absent(5, u64::MAX));
    }
}
