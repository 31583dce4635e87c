//! Whether the index has room for an application of the log.
//!
//! What everybody may use ends at a margin. Below it the rest is for those who bring space back,
//! and for who looks after the store: else deletions would wait for a room that only they can make.

use super::Inner;
use crate::error::StoreError;
use crate::pool::BLOCK;
use crate::record::ChunkRecord;
use crate::state::State;

/// Chunks of removed forks that leave the index at a time, for each that a cut empties at one
/// moment.
const REMOVALS: usize = 8;
/// Bytes of an entry of the index, but for what a chunk's says of its blocks and for names.
const ENTRY_BYTES: u64 = 96;
/// Bytes of a removal of one.
const REMOVAL_BYTES: u64 = 64;
/// What a dirty block adds to its chunk's entry when it is written to a place of its own, at most.
const BLOCK_BYTES: u64 = 40;
/// An application has the last room if it brings back so many times what it adds.
const GAIN: u64 = 8;

impl Inner {
    /// Whether the index has room for what an application that begins now adds.
    pub(crate) fn check_index_room(&self, room: Room) -> Result<(), StoreError> {
        let Err(full) = self.index.check_room() else {
            return Ok(());
        };
        let growth = {
            let state = self.lock();
            let gain = gain(&state);
            let asks = room == Room::Last || gain > 0;
            let growth = asks.then(|| growth(&state));
            growth.filter(|growth| room == Room::Last || gain >= GAIN * growth)
        };
        let Some(growth) = growth else {
            return Err(full.into());
        };
        Ok(self.index.check_last_room(growth)?)
    }

    /// Whether it has room for the next part of what is to be removed.
    pub(crate) fn check_removal_room(&self) -> Result<(), StoreError> {
        let bytes = self.removals() as u64 * REMOVAL_BYTES;
        Ok(self.index.check_last_room(bytes)?)
    }

    /// Entries that are removed from the index at a time.
    pub(crate) fn removals(&self) -> usize {
        REMOVALS * self.bounds.cut as usize
    }
}

/// Bytes that an application adds, roughly and rather too many.
fn growth(state: &State) -> u64 {
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
    let dead = changes.recorded_names();
    let dead = dead.map(|key| 2 * (REMOVAL_BYTES + key.fork.as_str().len() as u64));
    let others = changes.other_records() as u64 * ENTRY_BYTES;
    let records = forks.chain(dead).sum::<u64>() + others;
    chunks.sum::<u64>() + state.dirty().blocks() * BLOCK_BYTES + records
}

/// Bytes of blocks that only an application brings back.
fn gain(state: &State) -> u64 {
    state.changes().dead_blocks() * BLOCK as u64
}

/// The room of the index that an application may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// What is there for everybody, and the last if it brings back more than it takes.
    Shared,
    /// Also the last.
    Last,
}
