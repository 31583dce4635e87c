//! What an opening brings into the state: records of the index, counts, and what a replay needs.

use weft_layout::FileId;

use crate::pages::{Chunk, slot_of};
use crate::record::ForkId;
use crate::space::Extent;
use crate::state::StoreState;

impl StoreState {
    /// Brings a chunk's entry into memory; one that is there stays.
    pub(crate) fn load_chunk(&mut self, id: ForkId, n: u64, chunk: Chunk) {
        if let Some(fork) = self.forks.get_mut(id) {
            fork.load_chunk(n, chunk);
            self.count_entry(id, n);
        }
    }

    /// New forks get ids from this one on at the earliest.
    pub(crate) fn begin_ids(&mut self, next: u64) {
        self.forks.begin_ids(next);
    }

    /// No new fork gets this id, or one before it.
    pub(crate) fn used_id(&mut self, id: ForkId) {
        self.forks.used_id(id);
    }

    /// Sets a file as the index has it.
    pub(crate) fn load_file(&mut self, file: FileId, deleted: bool, op: u64) {
        self.forks.load_file(file, deleted, op);
    }

    /// A replay does not know a fork's earlier length: it truncates the fork whatever the index
    /// says.
    pub(crate) fn forget_length(&mut self, id: ForkId, longest: u64) {
        if let Some(fork) = self.forks.get_mut(id) {
            fork.set_length(longest, fork.modified());
        }
    }

    /// The fork has its own entry of a chunk from now on, and the parent's does not show.
    pub(crate) fn hide_parent(&mut self, id: ForkId, n: u64) {
        if let Some(chunk) = self.forks.chunk_mut(id, n) {
            chunk.hide_parent();
        }
    }

    /// A dirty block needs the log from this frame on, or from an earlier one.
    pub(crate) fn need_frames_from(&mut self, id: ForkId, n: u64, block: u32, oldest: u64) {
        let chunk = self.forks.chunk_mut(id, n);
        if let Some(page) = chunk.and_then(|chunk| chunk.page_mut(slot_of(block))) {
            page.need_frames_from(oldest);
        }
    }

    /// Forgets what was counted: blocks, children, deferred truncations, and which blocks of
    /// removed forks are free.
    pub(crate) fn begin_count(&mut self) {
        self.changes.mark_removed_counted();
        self.forks.count_children();
        self.forks.clear_deferred_truncations();
        for fork in self.forks.values_mut() {
            fork.begin_count();
        }
    }

    /// Adds what was counted of a fork in a range of the index.
    pub(crate) fn add_count(
        &mut self,
        id: ForkId,
        blocks: u64,
        goal: Option<u64>,
        indexed_end: u64,
    ) {
        if let Some(fork) = self.forks.get_mut(id) {
            fork.counted(blocks, goal, indexed_end);
        }
    }

    /// Chunks from this one on are still to be emptied.
    pub(crate) fn defer_truncation(&mut self, id: ForkId, from: u64) {
        self.forks.defer_truncation(id, from);
    }

    /// A fork has no chunks beyond its length any more.
    pub(crate) fn end_deferred_truncation(&mut self, id: ForkId) {
        self.forks.end_deferred_truncation(id);
    }

    /// Blocks were taken for a fork: the next ones are best placed after them.
    pub(crate) fn placed_at(&mut self, id: ForkId, last: Extent) {
        if let Some(fork) = self.forks.get_mut(id) {
            fork.placed_at(last);
        }
    }
}
