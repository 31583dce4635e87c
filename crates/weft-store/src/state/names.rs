//! Forks by name, living or in a checkpoint.

use super::State;
use crate::error::StoreError;
use crate::key::ForkKey;
use crate::record::{ForkId, ItemRecord};

/// The fork of this name, living or in a checkpoint.
pub(crate) fn find_in(
    state: &State,
    key: &ForkKey,
    number: Option<u64>,
) -> Result<Option<ForkId>, StoreError> {
    let Some(number) = number else {
        return Ok(state.find(key));
    };
    let file = key.file;
    let found = state
        .files
        .get(&file)
        .and_then(|f| f.checkpoints.get(&number));
    let found = found.ok_or(StoreError::NoCheckpoint { file, number })?;
    Ok(found.forks.get(&(key.cell, key.fork.clone())).copied())
}

/// Removes a fork and those that were only there for it.
pub(crate) fn remove(state: &mut State, id: ForkId, body: &mut Vec<u8>, sequence: u64) {
    for id in state.doomed(id) {
        ItemRecord::Remove { id }.encode(body);
        state.remove(id, sequence);
    }
}

/// Refuses deleted files and other chunk sizes.
pub(crate) fn check_fork(state: &State, key: &ForkKey, chunk: u32) -> Result<(), StoreError> {
    state.check_alive(key.file)?;
    match state.find(key).map(|id| state.forks[&id].chunk) {
        Some(fixed) if fixed != 0 && fixed != chunk => Err(StoreError::ChunkMismatch {
            file: key.file,
            fixed,
            given: chunk,
        }),
        _ => Ok(()),
    }
}
