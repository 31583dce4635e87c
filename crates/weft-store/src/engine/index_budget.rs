//! Whether the index has space for an application of the log.
//!
//! What every operation may use ends at a margin. The rest is a reserve for operations that bring
//! space back and for upkeep: else deletions would wait for space that only they can free.

use super::Inner;
use crate::error::StoreError;
use crate::limits::{REMOVALS_PER_CHUNK, RESERVE_GAIN};
use crate::pool::BLOCK;
use crate::record::ChunkRecord;
use crate::state::StoreState;

/// Bytes of an entry of the index, without names and without a chunk's map of its blocks.
const ENTRY_BYTES: u64 = 96;
/// Bytes of the removal of an entry.
const REMOVAL_BYTES: u64 = 64;
/// Most bytes that a dirty block adds to its chunk's entry when it is written to a new place.
const BLOCK_BYTES: u64 = 40;
/// The space of the index that an application may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexBudget {
    /// What every operation may use, and the reserve if the application frees more than it adds.
    Shared,
    /// Also the reserve.
    Reserve,
}

impl Inner {
    /// Whether the index has space for what an application that begins now adds.
    pub(crate) fn check_index_space(&self, budget: IndexBudget) -> Result<(), StoreError> {
        let Err(full) = self.index().check_space() else {
            return Ok(());
        };
        let growth = {
            let state = self.lock();
            let reserve = budget == IndexBudget::Reserve;
            let gain = gain(&state);
            let growth = (reserve || gain > 0).then(|| growth(&state));
            growth.filter(|growth| reserve || gain >= RESERVE_GAIN * growth)
        };
        let Some(growth) = growth else {
            return Err(full.into());
        };
        Ok(self.index().check_reclaim_space(growth)?)
    }

    /// Whether the index has space for the next step of a removal.
    pub(crate) fn check_removal_space(&self) -> Result<(), StoreError> {
        let bytes = self.entries_per_removal() as u64 * REMOVAL_BYTES;
        Ok(self.index().check_reclaim_space(bytes)?)
    }

    /// Entries that are removed from the index in one step.
    pub(crate) fn entries_per_removal(&self) -> usize {
        REMOVALS_PER_CHUNK * self.bounds().truncate_chunks as usize
    }
}

/// About how many bytes an application adds, estimated high.
fn growth(state: &StoreState) -> u64 {
    let changes = state.changes();
    let dirty = state.dirty().chunks().difference(changes.chunks());
    let chunks = changes.chunks().iter().chain(dirty);
    let chunks = chunks.filter_map(|(id, n)| state.forks().chunk(*id, *n));
    let chunks = chunks.map(|chunk| {
        let map = ChunkRecord::encode(&chunk.to_runs());
        ENTRY_BYTES + map.len() as u64
    });
    let forks = changes.forks().filter_map(|id| state.forks().get(id));
    let forks = forks.map(|fork| ENTRY_BYTES + fork.key().fork.as_str().len() as u64);
    let removed = changes.recorded_names();
    let removed = removed.map(|key| 2 * (REMOVAL_BYTES + key.fork.as_str().len() as u64));
    let others = changes.other_records() as u64 * ENTRY_BYTES;
    let records = forks.chain(removed).sum::<u64>() + others;
    chunks.sum::<u64>() + state.dirty().blocks() * BLOCK_BYTES + records
}

/// Bytes of blocks that only an application frees.
fn gain(state: &StoreState) -> u64 {
    state.changes().removed_blocks() * BLOCK as u64
}
