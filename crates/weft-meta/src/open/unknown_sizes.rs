//! Files without a writer whose size is not exact: the last writer did not know the size, could not
//! report it, or detached during the grace period.
//!
//! Each reader of such a size asks the servers again, and the payers are charged for the old size.
//! So the service takes the files from this table, asks their servers and stores the answer.
//!
//! Invariant: a file is noted before the attachment that left it so has ended; a size is stored
//! only if no writer has attached since the servers were asked, or that writer left the size exact.

use std::collections::BTreeSet;

use parking_lot::Mutex;

/// The files, in memory; after a crash a scan looks for them.
#[derive(Debug, Default)]
pub(crate) struct UnknownSizes(Mutex<Files>);

#[derive(Debug, Default)]
struct Files {
    /// Files whose servers must be asked.
    noted: BTreeSet<u64>,
    /// Files whose servers are being asked; one may have been noted again since.
    asked: BTreeSet<u64>,
}

impl UnknownSizes {
    /// Notes a file whose size is not known.
    pub(crate) fn note(&self, file: u64) {
        self.0.lock().noted.insert(file);
    }

    /// Whether its size is not known yet.
    pub(crate) fn holds(&self, file: u64) -> bool {
        let files = self.0.lock();
        files.noted.contains(&file) || files.asked.contains(&file)
    }

    /// All files whose size is not known.
    pub(crate) fn all(&self) -> Vec<u64> {
        let files = self.0.lock();
        files.noted.union(&files.asked).copied().collect()
    }

    /// Whether no file is noted; servers may still be asked about some.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().noted.is_empty()
    }

    /// Whether the file was noted since its servers were last asked.
    pub(crate) fn is_noted(&self, file: u64) -> bool {
        self.0.lock().noted.contains(&file)
    }

    /// Takes at most `most` noted files from `from` on: their servers are being asked now.
    pub(crate) fn take(&self, from: u64, most: usize) -> Vec<u64> {
        let mut files = self.0.lock();
        let taken: Vec<u64> = files.noted.range(from..).take(most).copied().collect();
        for file in &taken {
            files.noted.remove(file);
            files.asked.insert(*file);
        }
        taken
    }

    /// The servers of these files did not answer: they are noted again.
    pub(crate) fn put_back(&self, taken: &[u64]) {
        let mut files = self.0.lock();
        for file in taken {
            files.asked.remove(file);
            files.noted.insert(*file);
        }
    }

    /// The servers of this file are no longer being asked.
    pub(crate) fn answered(&self, file: u64) {
        self.0.lock().asked.remove(&file);
    }
}
