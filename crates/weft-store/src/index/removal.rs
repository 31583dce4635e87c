//! Deletions from the index that the log does not record: chunks of removed forks, and orphaned
//! chunks of forks that were removed before the last opening.
//!
//! The application that contains a fork's removal deletes its record; its chunks follow in steps,
//! so that the index needs bounded space for each. After a kill in between, the remaining chunks
//! are orphans: the next opening counts their blocks as free, and the application after it deletes
//! them.

use std::ops::{Bound, ControlFlow};

use weft_kv::{Batch, OrderedKv};

use super::changes::RemovedFork;
use crate::error::StoreError;
use crate::limits::INDEX_BATCH;
use crate::record::{CHUNKS, ChunkRecord};
use crate::space::Extent;

/// Entries to be deleted.
#[derive(Default)]
pub(crate) struct Removal {
    /// Forks that were removed.
    pub(crate) removed: Vec<RemovedFork>,
    /// Keys of chunks whose forks do not exist.
    pub(crate) orphans: Vec<Vec<u8>>,
    /// Blocks of deleted entries whose deletion is not synced.
    freed: Vec<Extent>,
}

impl Removal {
    /// The removal of orphaned chunks.
    pub(crate) fn of_orphans(orphans: Vec<Vec<u8>>) -> Self {
        Self {
            orphans,
            ..Self::default()
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.removed.is_empty() && self.orphans.is_empty() && self.freed.is_empty()
    }

    /// Deletes at most `most` entries and syncs; returns the freed blocks. After an error, the next
    /// call continues.
    pub(crate) fn remove_some(
        &mut self,
        index: &dyn OrderedKv,
        most: usize,
    ) -> Result<Vec<Extent>, StoreError> {
        let mut left = most;
        while left > 0
            && let Some(fork) = self.removed.last_mut()
        {
            let most = INDEX_BATCH.min(left);
            let removed = remove_chunks(index, fork, most, &mut self.freed)?;
            left -= removed;
            if removed < most {
                self.removed.pop();
            }
        }
        while left > 0 && !self.orphans.is_empty() {
            let keep = self.orphans.len().saturating_sub(INDEX_BATCH.min(left));
            let keys = &self.orphans[keep..];
            let changes = keys.iter().map(|key| (CHUNKS, key.clone(), None));
            let changes: Vec<_> = changes.collect();
            left -= changes.len();
            index.write(Batch { changes })?;
            self.orphans.truncate(keep);
        }
        index.sync()?;
        Ok(std::mem::take(&mut self.freed))
    }
}

/// Deletes at most `most` chunks of a removed fork from the index; returns how many.
fn remove_chunks(
    index: &dyn OrderedKv,
    removed: &mut RemovedFork,
    most: usize,
    freed: &mut Vec<Extent>,
) -> Result<usize, StoreError> {
    let (low, high) = (
        ChunkRecord::key(removed.id, removed.next),
        ChunkRecord::key(removed.id, u64::MAX),
    );
    let mut batch = Batch::default();
    let (mut failed, mut next, before) = (None, removed.next, freed.len());
    index.snapshot()?.scan(
        CHUNKS,
        Bound::Included(&low),
        Bound::Included(&high),
        &mut |key, value| {
            let decoded = ChunkRecord::decode_key(key).and_then(|(_, n)| {
                next = n.saturating_add(1);
                Ok((n, ChunkRecord::decode(key, value)?))
            });
            match decoded {
                Ok((n, runs)) if !removed.counted && !removed.freed.contains(&n) => {
                    let own = runs.runs.iter().filter(|r| !r.inherited);
                    let extents = own.map(|r| Extent {
                        start: r.place.0,
                        blocks: u64::from(r.blocks),
                    });
                    freed.extend(extents);
                }
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
            batch.changes.push((CHUNKS, key.to_vec(), None));
            if batch.changes.len() >= most || failed.is_some() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        },
    )?;
    if let Some(error) = failed {
        freed.truncate(before);
        return Err(error);
    }
    let count = batch.changes.len();
    if count > 0
        && let Err(error) = index.write(batch)
    {
        freed.truncate(before);
        return Err(error.into());
    }
    removed.next = next;
    let blocks: u64 = freed[before..].iter().map(|extent| extent.blocks).sum();
    removed.blocks = removed.blocks.saturating_sub(blocks);
    Ok(count)
}
