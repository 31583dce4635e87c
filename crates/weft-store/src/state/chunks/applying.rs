//! Chunk entries on their way to the index.

use crate::pages::{Chunk, Page};
use crate::record::{ForkId, RunsRecord};
use crate::state::StoreState;

/// What the index is to have of a chunk.
pub(crate) enum IndexEntry {
    Stored(RunsRecord),
    /// No entry: the chunk is empty, or its parent's shows.
    Absent,
}

impl StoreState {
    /// Copies a chunk's entry for the index, which counts as having it from now on: the chunk stays
    /// in memory until [`StoreState::end_application`]. `None` if the chunk is not in memory.
    pub(crate) fn copy_to_index(&mut self, id: ForkId, n: u64) -> Option<IndexEntry> {
        let fork = self.forks.get_mut(id)?;
        let hides = fork.inherits(n);
        let chunk = fork.chunk_mut(n)?;
        chunk.begin_application();
        let runs = chunk.to_runs();
        // An empty chunk must hide what its parent has.
        let stored = !chunk.shows_parent() && (!runs.runs.is_empty() || hides);
        fork.chunk_indexed(n);
        Some(if stored {
            IndexEntry::Stored(runs)
        } else {
            IndexEntry::Absent
        })
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
        let oldest = chunks.flat_map(Chunk::pages).map(Page::oldest);
        oldest.min().unwrap_or(u64::MAX)
    }
}
