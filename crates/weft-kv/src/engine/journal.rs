//! Syncs fjall's journal through a separate file handle, so that commits continue meanwhile.
//!
//! fjall's `persist` holds the journal's lock while the disk works: every commit would wait for
//! every sync. This relies on fjall 3.1: a commit with `PersistMode::Buffer` has written its bytes
//! to the newest journal `N.jnl` when it returns; before `N.jnl` is created its predecessor is
//! synced, and the folder is synced before anything is written to it; a journal is deleted only
//! when its contents are in tables on stable storage.
//!
//! So everything committed before a sync begins is in the newest journal that it finds, or safe
//! already. The handle is kept between syncs: the kernel reports a write error of the file to it
//! once.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::group::SyncFailure;
use crate::limits::JOURNAL_ATTEMPTS;

/// The journals of one engine.
#[derive(Debug)]
pub(crate) struct Journals {
    folder: PathBuf,
    newest: Mutex<Option<(u64, File)>>,
}

impl Journals {
    pub(crate) fn new(folder: &Path) -> Journals {
        Journals {
            folder: folder.to_path_buf(),
            newest: Mutex::default(),
        }
    }

    /// Everything written to the journals before the call is on stable storage on return.
    pub(crate) fn sync(&self) -> Result<(), SyncFailure> {
        let mut newest = self.newest.lock();
        self.find(&mut newest)
            .map_err(|error| SyncFailure::of_refusal(&error))?;
        // The journal is preallocated; fdatasync also writes the extents it needs to be read.
        let synced = newest.as_ref().map_or(Ok(()), |(_, file)| file.sync_data());
        // Whatever the error: the dirty pages may be gone.
        synced.map_err(|error| SyncFailure::Permanent(error.to_string()))
    }

    /// Opens the newest journal, if `newest` is another one.
    fn find(&self, newest: &mut Option<(u64, File)>) -> io::Result<()> {
        for _ in 0..JOURNAL_ATTEMPTS {
            let number = newest_in(&self.folder)?;
            if newest.as_ref().is_none_or(|(known, _)| *known != number) {
                let path = self.folder.join(format!("{number}.jnl"));
                match File::options().write(true).open(path) {
                    Ok(file) => *newest = Some((number, file)),
                    // It was deleted: there is a newer one.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
            }
            return Ok(());
        }
        Err(io::Error::other(format!(
            "the journals in {} are deleted as fast as they are found",
            self.folder.display()
        )))
    }
}

/// The number of the newest journal.
fn newest_in(folder: &Path) -> io::Result<u64> {
    let mut newest = None;
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|n| n.strip_suffix(".jnl"));
        newest = newest.max(number.and_then(|n| n.parse::<u64>().ok()));
    }
    newest.ok_or_else(|| {
        let what = format!("there is no journal in {}", folder.display());
        io::Error::new(io::ErrorKind::NotFound, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_opens_the_journal_with_the_highest_number_after_the_old_one_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let path = |n: u64| folder.path().join(format!("{n}.jnl"));
        let journals = Journals::new(folder.path());
        assert!(
            journals.sync().is_err(),
            "a sync without a journal succeeded"
        );
        for n in [2, 9, 10] {
            std::fs::write(path(n), b"x").unwrap();
        }
        std::fs::write(folder.path().join("lock"), b"").unwrap();
        assert_eq!(newest_in(folder.path()).unwrap(), 10);
        journals.sync().unwrap();
        assert_eq!(journals.newest.lock().as_ref().unwrap().0, 10);
        std::fs::write(path(11), b"x").unwrap();
        std::fs::remove_file(path(10)).unwrap();
        journals.sync().unwrap();
        assert_eq!(journals.newest.lock().as_ref().unwrap().0, 11);
    }
}
