//! Listing what a store holds, in pages, to compare it with a namespace.

use std::ops::{Bound, ControlFlow};

use weft_layout::FileId;

use crate::engine::Store;
use crate::error::StoreError;
use crate::forks::File;
use crate::key::{ForkKey, ForkStatus, ORDER_STATE, Timestamp};
use crate::limits::FILES_PER_LOCK;
use crate::record::{CheckpointRecord, FILES, FORKS, FileRecord, ForkEntry, ForkRecord};

/// One page of a list: its entries, and whether there are more.
pub type ListPage<T> = (Vec<T>, bool);

impl Store {
    /// Forks that have a name, in the order of file, cell and name: those of `file` after `after`,
    /// and those of later files; no recipes. Forks that were made since the log was last applied
    /// may be missing.
    ///
    /// Cost: a scan of about `most` entries of the index; one lock of the state.
    pub fn list_forks(
        &self,
        file: FileId,
        after: Option<&ForkKey>,
        most: usize,
    ) -> Result<ListPage<(ForkKey, Option<ForkStatus>)>, StoreError> {
        if file >= ORDER_STATE {
            return Ok((Vec::new(), false));
        }
        let first = after.map_or_else(|| FileRecord::key(file), ForkRecord::key);
        let from = match after {
            Some(_) => Bound::Excluded(first.as_slice()),
            None => Bound::Included(first.as_slice()),
        };
        let (mut keys, mut more, mut failed) = (Vec::new(), false, None);
        let reader = self.0.index().snapshot()?;
        // Pointers and addressed chunks are not cells of a file.
        let end = FileRecord::key(ORDER_STATE);
        reader.scan(FORKS, from, Bound::Excluded(&end), &mut |key, _| {
            match ForkRecord::decode_key(key) {
                Ok(ForkEntry::Live(key)) if key.is_recipe() => {}
                Ok(ForkEntry::Live(_)) if keys.len() == most => {
                    more = true;
                    return ControlFlow::Break(());
                }
                Ok(ForkEntry::Live(key)) => keys.push(key),
                Ok(ForkEntry::Checkpoint(..)) => {}
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        let state = self.0.lock();
        let found = keys.into_iter().map(|key| {
            // A fork that was removed meanwhile still says how far the page goes.
            let status = state.find(&key).map(|id| state.status(id));
            (key, status)
        });
        Ok((found.collect(), more))
    }

    /// Checkpoints in the order of file and number: those of `file` after `after`, and those of
    /// later files.
    ///
    /// Cost: as [`Store::list_forks`].
    pub fn list_checkpoints(
        &self,
        file: FileId,
        after: u64,
        most: usize,
    ) -> Result<ListPage<(FileId, u64, Timestamp)>, StoreError> {
        let (mut found, mut more) = (Vec::new(), false);
        let first = CheckpointRecord::key(file, after);
        let from = Bound::Excluded(first.as_slice());
        let reader = self.0.index().snapshot()?;
        reader.scan(FILES, from, Bound::Unbounded, &mut |key, value| {
            let Some((file, number)) = CheckpointRecord::decode_key(key) else {
                return ControlFlow::Continue(());
            };
            if found.len() == most {
                more = true;
                return ControlFlow::Break(());
            }
            let made = CheckpointRecord::decode(key, value).map_or(0, |record| record.made);
            found.push((file, number, Timestamp(made)));
            ControlFlow::Continue(())
        })?;
        Ok((found, more))
    }

    /// Which of these files were deleted here. A store never forgets a deletion, except when a
    /// repair dropped the part of the log or the index that recorded it.
    ///
    /// Cost: a look-up for each; one lock of the state for a few hundred.
    pub fn deleted_of(&self, files: &[FileId]) -> Vec<FileId> {
        let deleted = files.chunks(FILES_PER_LOCK).flat_map(|files| {
            let state = self.0.lock();
            let deleted = |file: &&FileId| state.forks().file(**file).is_some_and(File::deleted);
            files.iter().filter(deleted).copied().collect::<Vec<_>>()
        });
        deleted.collect()
    }

    /// Number and time of each of a file's checkpoints.
    pub fn checkpoints_of(&self, file: FileId) -> Vec<(u64, Timestamp)> {
        let state = self.0.lock();
        let known = state.forks().file(file).map(File::checkpoints);
        let known = known.into_iter().flatten();
        known
            .map(|(number, c)| (*number, Timestamp(c.made())))
            .collect()
    }
}
