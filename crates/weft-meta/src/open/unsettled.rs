//! Files that nobody writes any more and whose size is not exact: the last writer did not know it, could not tell it, or was
//! counted among others that had not come back yet.
//!
//! Whoever needs such a size asks the servers each time, and who pays for the file is charged what was known before. So the
//! service finds out by itself: it takes the files from here, asks their servers, and notes the answer.
//!
//! Invariant: a file is noted before the attachment that left it so has ended; a size is noted only if no writer has come
//! since the servers were asked, or he has left the size exact.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use parking_lot::Mutex;
use weft_layout::Layout;

use crate::error::MetaError;
use crate::namespace::Namespace;
use crate::records::keys::{self, INODES};
use crate::records::record::{InodeRecord, LayoutRecord};

/// Those that are known of, in memory; after a crash they are looked for.
#[derive(Debug, Default)]
pub(crate) struct Unsettled(Mutex<Files>);

#[derive(Debug, Default)]
struct Files {
    noted: BTreeSet<u64>,
    /// Those whose servers are being asked; they may have been noted again since.
    asked: BTreeSet<u64>,
}

impl Unsettled {
    pub(crate) fn note(&self, file: u64) {
        self.0.lock().noted.insert(file);
    }

    /// Whether its size is not known yet.
    pub(crate) fn holds(&self, file: u64) -> bool {
        let files = self.0.lock();
        files.noted.contains(&file) || files.asked.contains(&file)
    }

    pub(crate) fn all(&self) -> Vec<u64> {
        let files = self.0.lock();
        files.noted.union(&files.asked).copied().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().noted.is_empty()
    }
}

/// A file whose servers are to be asked for its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsettledFile {
    /// Its id.
    pub file: u64,
    /// Where its cells are.
    pub layout: Layout,
}

/// Whether a file's size is to be found out, as far as its record says.
fn is_unsettled(inode: &InodeRecord) -> bool {
    // A truncate that is owed says the size when it is done.
    !inode.size_exact && !inode.inline && inode.truncate == 0 && inode.layout.is_some()
}

impl Namespace {
    /// Whether there is a file whose size is to be found out, and it is known who writes what.
    pub fn has_unsettled(&self) -> bool {
        !self.recovering() && !self.unsettled.is_empty()
    }

    /// Takes at most `most` files from `from` on whose size is to be found out, and answers the last that was looked at; nothing
    /// where there was none. Who cannot find a size out notes the file again.
    ///
    /// Cost: a read for each.
    pub fn take_unsettled(
        &self,
        from: u64,
        most: usize,
    ) -> Result<(Vec<UnsettledFile>, Option<u64>), MetaError> {
        let taken: Vec<u64> = {
            let mut files = self.unsettled.0.lock();
            let taken: Vec<u64> = files.noted.range(from..).take(most).copied().collect();
            for file in &taken {
                files.noted.remove(file);
                files.asked.insert(*file);
            }
            taken
        };
        let last = taken.last().copied();
        let found = self.unsettled_among(&taken);
        let mut files = self.unsettled.0.lock();
        let Ok(found) = found else {
            for file in &taken {
                files.asked.remove(file);
                files.noted.insert(*file);
            }
            return found.map(|found| (found, last));
        };
        for file in &taken {
            if !found.iter().any(|unsettled| unsettled.file == *file) {
                files.asked.remove(file);
            }
        }
        Ok((found, last))
    }

    /// Those of the files of which the servers are to be asked.
    fn unsettled_among(&self, taken: &[u64]) -> Result<Vec<UnsettledFile>, MetaError> {
        let open = self.open_files.lock();
        self.read(|reader| {
            let mut found = Vec::new();
            for &file in taken {
                let Some(inode) = keys::inode(reader, file)? else {
                    continue;
                };
                if open.has_writer(file) {
                    continue;
                }
                if inode.truncate != 0 {
                    // When that is done.
                    self.unsettled.note(file);
                    continue;
                }
                if !is_unsettled(&inode) {
                    continue;
                }
                if let Some(Ok(layout)) = inode.layout.as_ref().map(LayoutRecord::checked) {
                    found.push(UnsettledFile { file, layout });
                }
            }
            Ok(found)
        })
    }

    /// Notes a file again whose servers did not say its size.
    pub fn unsettle(&self, file: u64) {
        let mut files = self.unsettled.0.lock();
        files.asked.remove(&file);
        files.noted.insert(file);
    }

    /// Notes what a file's servers said of its size and its other forks after [`Namespace::take_unsettled`]. What was written is written: nobody's
    /// bound keeps it from being charged.
    ///
    /// # Durability
    /// Needs no sync: after power loss the size is asked for again.
    pub fn settle(&self, file: u64, size: u64, fork_bytes: u64) -> Result<(), MetaError> {
        let settled = self.note_size(file, size, fork_bytes);
        let mut files = self.unsettled.0.lock();
        files.asked.remove(&file);
        if settled.is_err() {
            files.noted.insert(file);
        }
        settled
    }

    fn note_size(&self, file: u64, size: u64, fork_bytes: u64) -> Result<(), MetaError> {
        self.edit_then(
            |edit| {
                edit.force();
                let inode = keys::inode(edit.reader(), file)?;
                let written = edit.open_files().has_writer(file);
                // Somebody may have come, written, and gone since the servers were asked.
                let noted = self.unsettled.0.lock().noted.contains(&file);
                if let Some(inode) = inode.filter(is_unsettled)
                    && !(written || noted || self.recovering())
                {
                    let now = edit.change(file, &inode);
                    (now.size, now.size_exact) = (size, true);
                    (now.fork_bytes, now.forks_changed) = (fork_bytes, false);
                    return Ok(true);
                }
                Ok(false)
            },
            |_, settled| {
                if *settled {
                    self.growth.told(file);
                }
            },
        )?;
        Ok(())
    }

    /// Makes the sizes inexact of at most `most` inodes from `from` on, and notes the files; answers where to go on. The namespace is older than
    /// what the servers hold: sizes may have changed since, and the servers know them.
    ///
    /// Cost: a scan of so many inodes, and a transaction that writes those that are files with cells.
    ///
    /// # Durability
    /// As of any operation.
    pub fn doubt_sizes(&self, from: u64, most: usize) -> Result<Option<u64>, MetaError> {
        let (next, sized) = self.inodes_where(from, most, |inode| {
            let sized = inode.size_exact && !inode.inline && inode.layout.is_some();
            // What a checkpoint keeps does not change, in size neither.
            sized && inode.frozen.is_none()
        })?;
        self.edit(|edit| {
            for id in &sized {
                if let Some(inode) = keys::inode(edit.reader(), *id)? {
                    edit.change(*id, &inode).size_exact = false;
                }
            }
            Ok(())
        })?;
        for id in sized {
            self.unsettled.note(id);
        }
        Ok(next)
    }

    /// Looks for such files among at most `most` inodes from `from` on, and notes them; answers where to go on. After a crash: some may have
    /// writers who have not come back yet, and are looked at again before anything is noted of them.
    ///
    /// Cost: a scan of so many inodes.
    pub fn find_unsettled(&self, from: u64, most: usize) -> Result<Option<u64>, MetaError> {
        let (next, found) = self.inodes_where(from, most, is_unsettled)?;
        let open = self.open_files.lock();
        let closed = found.into_iter().filter(|id| !open.has_writer(*id));
        closed.for_each(|id| self.unsettled.note(id));
        Ok(next)
    }

    /// Those among at most `most` inodes from `from` on that are wanted, and where to go on.
    fn inodes_where(
        &self,
        from: u64,
        most: usize,
        wanted: impl Fn(&InodeRecord) -> bool,
    ) -> Result<(Option<u64>, Vec<u64>), MetaError> {
        let (mut looked_at, mut next, mut found) = (0, None, Vec::new());
        self.read(|reader| {
            let first = from.to_be_bytes();
            let from = Bound::Included(first.as_slice());
            reader.scan(INODES, from, Bound::Unbounded, &mut |key, value| {
                let Some(id) = keys::number(key) else {
                    return ControlFlow::Continue(());
                };
                if looked_at == most {
                    next = Some(id);
                    return ControlFlow::Break(());
                }
                looked_at += 1;
                // What cannot be read is found elsewhere.
                if keys::decode::<InodeRecord>("inode", id, value).is_ok_and(|i| wanted(&i)) {
                    found.push(id);
                }
                ControlFlow::Continue(())
            })?;
            Ok(())
        })?;
        Ok((next, found))
    }
}
