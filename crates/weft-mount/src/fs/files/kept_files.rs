//! Small files that stay attached after their last close: opening one again costs no call.
//!
//! The service has leased each to this mount. Whoever changes one is answered when this mount has
//! acknowledged the change, and from then on it is not found here: an open sees what was written
//! before (close-to-open), as if it had asked.
//!
//! Invariants:
//! 1. A file here was attached for reading, is small and has no policy of its own, and is attached
//!    at the service until it leaves.
//! 2. It counts only if no change of it was logged since it was asked for; the caller checks.
//! 3. Memory is bounded: files leave in the order in which they were kept.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_client::File;

use crate::data::Moment;
use crate::fs::metadata::AskedAt;
use crate::limits::{
    AHEAD_FILES_MAX, AHEAD_OPENS_WINDOW, KEPT_BYTES_MAX, KEPT_FILES_MAX, OPENED_DIRECTORIES_MAX,
};

/// The moment before a file is attached, for the metadata cache and the data cache.
#[derive(Clone, Copy)]
pub(in crate::fs) struct AttachMoment {
    pub(super) metadata: AskedAt,
    pub(super) data: Moment,
}

/// An attached file and the moment before it was asked for.
pub(in crate::fs) struct Kept {
    pub(super) asked: AttachMoment,
    pub(super) file: File,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.file.inline_data().map_or(0, |data| data.len())
    }
}

/// See the module.
#[derive(Default)]
pub(in crate::fs) struct KeptFiles {
    table: Mutex<KeptTable>,
    opened: Mutex<OpenedDirectories>,
}

/// Two generations: when the recent one is full, the old one leaves.
#[derive(Default)]
struct KeptTable {
    recent: HashMap<u64, Kept>,
    old: HashMap<u64, Kept>,
    /// Bytes of the recent ones.
    bytes: usize,
}

impl KeptTable {
    fn remove(&mut self, id: u64) -> Option<Kept> {
        if let Some(kept) = self.recent.remove(&id) {
            self.bytes -= kept.bytes();
            return Some(kept);
        }
        self.old.remove(&id)
    }

    fn keep(&mut self, kept: Kept) -> Vec<File> {
        let replaced = self.remove(kept.file.id());
        let mut gone: Vec<File> = replaced.into_iter().map(|kept| kept.file).collect();
        self.bytes += kept.bytes();
        self.recent.insert(kept.file.id(), kept);
        if self.recent.len() > KEPT_FILES_MAX / 2 || self.bytes > KEPT_BYTES_MAX / 2 {
            let old = std::mem::replace(&mut self.old, std::mem::take(&mut self.recent));
            gone.extend(old.into_values().map(|kept| kept.file));
            self.bytes = 0;
        }
        gone
    }
}

/// How many files were attached of late, one soon after the other.
#[derive(Clone, Copy, Default)]
struct Series {
    last: Option<Instant>,
    count: u32,
}

impl Series {
    /// Counts an attach; returns how many there were in this series.
    fn attached(&mut self, now: Instant, window: Duration) -> u32 {
        if self.last.is_none_or(|last| now - last > window) {
            self.count = 0;
        }
        (self.last, self.count) = (Some(now), self.count.saturating_add(1));
        self.count
    }
}

/// Series of attaches.
#[derive(Default)]
struct OpenedDirectories {
    by_directory: HashMap<u64, Series>,
    all: Series,
}

impl OpenedDirectories {
    fn opened(&mut self, directory: u64, window: Duration) -> u32 {
        let now = Instant::now();
        if self.by_directory.len() >= OPENED_DIRECTORIES_MAX {
            self.by_directory.clear();
        }
        let series = self.by_directory.entry(directory).or_default();
        let here = series.attached(now, window);
        let all = self.all.attached(now, window);
        // The first may be the only one, unless a program goes through many directories; after the
        // second there are probably more.
        match here {
            1 if all <= AHEAD_FILES_MAX => 0,
            1 => AHEAD_FILES_MAX / 4,
            2 => AHEAD_FILES_MAX / 8,
            _ => AHEAD_FILES_MAX,
        }
    }
}

impl KeptFiles {
    /// Takes a file out, to open it.
    pub(super) fn take(&self, id: u64) -> Option<Kept> {
        self.table.lock().remove(id)
    }

    /// Keeps a file. Returns others that leave for it.
    #[must_use = "they are attached until they are closed"]
    pub(super) fn keep(&self, kept: Kept) -> Vec<File> {
        self.table.lock().keep(kept)
    }

    /// Takes all files out.
    pub(super) fn take_all(&self) -> Vec<File> {
        let table = std::mem::take(&mut *self.table.lock());
        let all = table.recent.into_values().chain(table.old.into_values());
        all.map(|kept| kept.file).collect()
    }

    /// A file of this directory has to be attached. How many that follow it are worth attaching,
    /// too.
    pub(super) fn worth_ahead(&self, directory: u64) -> u32 {
        let mut opened = self.opened.lock();
        opened.opened(directory, AHEAD_OPENS_WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_attached_ahead_where_several_were_opened_of_late() {
        let mut opened = OpenedDirectories::default();
        let window = Duration::from_mins(1);
        let counts: Vec<u32> = (0..4).map(|_| opened.opened(7, window)).collect();
        let most = AHEAD_FILES_MAX;
        assert_eq!(counts, [0, most / 8, most, most]);
        assert_eq!(opened.opened(8, window), 0, "another directory");
        assert_eq!(opened.opened(7, Duration::ZERO), 0, "too long ago");
        for directory in 0..3 * OPENED_DIRECTORIES_MAX as u64 {
            opened.opened(directory, window);
        }
        assert!(opened.by_directory.len() <= OPENED_DIRECTORIES_MAX);
        assert_eq!(opened.opened(9, window), most / 4, "many directories");
    }
}
