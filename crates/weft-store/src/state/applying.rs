//! Chunk entries on their way to the index.

use super::StoreState;
use crate::pages::Page;
use crate::record::{ForkId, RunsRecord};

impl StoreState {
    /// Copies a chunk's entry for the index, which is said to have it from now on: the chunk stays
    /// in memory until [`StoreState::end_application`]. `None` where the chunk is not in memory;
    /// `Some(None)` where the index needs no entry of it.
    pub(crate) fn copy_to_index(&mut self, id: ForkId, n: u64) -> Option<Option<RunsRecord>> {
        let fork = self.forks.get_mut(id)?;
        let hides = fork.inherits(n);
        let chunk = fork.chunk_mut(n)?;
        chunk.begin_application();
        let runs = chunk.to_runs();
        // An empty chunk must hide what its parent has.
        let stored = !chunk.shows_parent() && (!runs.runs.is_empty() || hides);
        fork.chunk_indexed(n);
        Some(stored.then_some(runs))
    }

    /// The index has the entry that was copied last.
    pub(crate) fn end_application(&mut self, id: ForkId, n: u64) {
        if let Some(chunk) = self.forks.chunk_mut(id, n) {
            chunk.end_application();
        }
    }

    /// The oldest frame of the log that dirty blocks need; [`u64::MAX`]: none.
    pub(crate) fn oldest_dirty(&self) -> u64 {
        let chunks = self.dirty.chunks().iter();
        let chunks = chunks.filter_map(|(id, n)| self.forks.chunk(*id, *n));
        let oldest = chunks.flat_map(|chunk| chunk.pages()).map(Page::oldest);
        oldest.min().unwrap_or(u64::MAX)
    }
}
