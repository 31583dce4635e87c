//! Forks by name: found, made, changed in length, removed.

use std::collections::HashSet;

use weft_layout::FileId;

use crate::error::StoreError;
use crate::forks::Fork;
use crate::index::RemovedFork;
use crate::key::{ForkKey, ForkStatus, Timestamp};
use crate::pool::BLOCK;
use crate::record::{ENTRY_BYTES, ForkId, ItemRecord};
use crate::space::AllocHint;
use crate::state::StoreState;
use crate::state::chunks::extent;

/// Fails if the file is deleted or the fork has another chunk size.
pub(crate) fn check_fork(state: &StoreState, key: &ForkKey, chunk: u32) -> Result<(), StoreError> {
    state.check_alive(key.file)?;
    match state.find(key).map(|id| state.forks[id].chunk_code()) {
        Some(fixed) if fixed != 0 && fixed != chunk => Err(StoreError::ChunkMismatch {
            file: key.file,
            fixed,
            given: chunk,
        }),
        _ => Ok(()),
    }
}

impl StoreState {
    /// Whether a numbered operation, or a later one, was done on a file.
    pub(crate) fn has_done(&self, file: FileId, op: u64) -> bool {
        self.forks.file(file).is_some_and(|f| f.op() >= op)
    }

    /// Records a numbered operation on a file.
    pub(crate) fn record_op(&mut self, file: FileId, op: u64) {
        self.forks.record_op(file, op);
        self.changes.file(file);
    }

    /// Fails if the file is deleted.
    pub(crate) fn check_alive(&self, file: FileId) -> Result<(), StoreError> {
        if self.health.is_torn() {
            self.check_failed()?;
        }
        match self.forks.file(file) {
            Some(f) if f.deleted() => Err(StoreError::Stale { file }),
            _ => Ok(()),
        }
    }

    /// The fork of this name.
    pub(crate) fn find(&self, key: &ForkKey) -> Option<ForkId> {
        self.forks.find(key)
    }

    /// The fork of this name, live or in a checkpoint.
    ///
    /// # Errors
    /// [`StoreError::NoCheckpoint`].
    pub(crate) fn find_in(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
    ) -> Result<Option<ForkId>, StoreError> {
        self.forks.find_in(key, checkpoint)
    }

    /// The fork of this name; creates it, or fixes its chunk size, if necessary.
    ///
    /// The caller has checked that the file is not deleted and the chunk size agrees.
    pub(crate) fn find_or_create(
        &mut self,
        key: &ForkKey,
        chunk: u32,
        modified: i64,
        body: &mut Vec<u8>,
    ) -> ForkId {
        let id = match self.find(key) {
            Some(id) if self.forks[id].chunk_code() == chunk || chunk == 0 => return id,
            Some(id) => id,
            None => {
                let id = self.forks.next_id();
                self.forks.used_id(id);
                id
            }
        };
        self.set_fork(id, chunk, key, modified);
        ItemRecord::Fork {
            id,
            chunk,
            key: key.clone(),
        }
        .encode(body);
        id
    }

    /// Applies a `Fork` record; a new fork gets the time `modified`.
    pub(crate) fn set_fork(&mut self, id: ForkId, chunk: u32, key: &ForkKey, modified: i64) {
        if self.forks.set(id, chunk, key, modified) {
            self.doubts.made(id, key.file);
        }
        self.changes.fork(id);
    }

    /// The allocation hint of a fork, or of one that does not exist yet.
    pub(crate) fn hint(&self, id: Option<ForkId>) -> AllocHint {
        let fork = id.and_then(|id| Some(self.forks.get(id)?.hint(id)));
        fork.unwrap_or(AllocHint {
            goal: u64::MAX,
            ..AllocHint::default()
        })
    }

    /// A fork's status for callers.
    pub(crate) fn status(&self, id: ForkId) -> ForkStatus {
        let fork = &self.forks[id];
        let stored = if fork.is_addressed() {
            self.stored_in_chunks(fork)
        } else {
            self.forks.stored_blocks(fork) * BLOCK as u64
        };
        ForkStatus {
            length: fork.length(),
            modified: Timestamp(fork.modified()),
            stored,
            chunk: fork.chunk_code(),
        }
    }

    /// Bytes of the chunks that the blocks of an addressed fork's recipe have room for.
    fn stored_in_chunks(&self, fork: &Fork) -> u64 {
        let checkpoint = fork.checkpoint();
        let recipe = self.find_in(&fork.key().recipe(), checkpoint);
        let blocks = recipe.ok().flatten().map_or(0, |id| {
            let recipe = &self.forks[id];
            self.forks.stored_blocks(recipe)
        });
        let chunk = u64::from(fork.chunk());
        let whole = fork.length().next_multiple_of(chunk);
        (blocks * (BLOCK as u64 / ENTRY_BYTES) * chunk).min(whole)
    }

    /// Sets a fork's length and time after a change of its bytes, and marks it touched.
    pub(crate) fn touch(&mut self, id: ForkId, length: u64, modified: i64) {
        self.touches.touch(id);
        self.set_length(id, length, modified);
    }

    /// Sets a fork's length and time without touching it.
    pub(crate) fn set_length(&mut self, id: ForkId, length: u64, modified: i64) {
        let fork = self.forks.get_mut(id);
        let fork = fork.expect("the caller found the fork under this lock");
        fork.set_length(length, modified);
        self.changes.fork(id);
    }

    /// Removes a fork and the ancestors that only it needs, and adds the items to a frame.
    pub(crate) fn remove_lineage(&mut self, id: ForkId, body: &mut Vec<u8>, sequence: u64) {
        for id in self.forks.removal_chain(id) {
            ItemRecord::Remove { id }.encode(body);
            self.remove(id, sequence);
        }
    }

    /// Removes a fork; its blocks are freed after a sync of frame `sequence`, those of chunks only
    /// in the index with the next application of the log.
    pub(crate) fn remove(&mut self, id: ForkId, sequence: u64) {
        let Some((fork, unnamed)) = self.forks.remove(id) else {
            return;
        };
        self.space.close_window(id.0);
        self.doubts.forget(id);
        let (mut freed, mut blocks) = (HashSet::new(), fork.blocks());
        let key = fork.key().clone();
        for (n, mut chunk) in fork.into_chunks() {
            for place in chunk.owned_places() {
                self.space.free_after(sequence, extent(place));
                blocks = blocks.saturating_sub(1);
            }
            let gone = chunk.forget_blocks(&(0..u32::MAX));
            self.cache.uncount(gone.bytes + chunk.counted_bytes());
            self.dirty.remove_blocks(u64::from(gone.dirty));
            self.space.unreserve(u64::from(gone.promises));
            self.dirty.remove_chunk(id, n);
            freed.insert(n);
        }
        if unnamed {
            self.touches.gone(&key);
        }
        self.cache.entries_removed();
        self.changes
            .removed(RemovedFork::new(id, key, freed, blocks));
    }

    /// Deletes a file for ever.
    pub(crate) fn delete(&mut self, file: FileId, sequence: u64) {
        let deleted = self.forks.delete(file);
        self.changes.file(file);
        for fork in deleted.live.iter().filter_map(|id| self.forks.get(*id)) {
            self.touches.gone(fork.key());
        }
        for number in deleted.checkpoints {
            self.changes.checkpoint(file, number);
        }
        for id in deleted.forks {
            self.remove(id, sequence);
        }
    }
}
