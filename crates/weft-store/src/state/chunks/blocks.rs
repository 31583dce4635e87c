//! Blocks of forks: placed, emptied, truncated.

use std::ops::Range;

use crate::record::{ForkId, Place};
use crate::space::Extent;
use crate::state::StoreState;

/// The block at a place.
pub(crate) fn extent(place: Place) -> Extent {
    Extent {
        start: place.0,
        blocks: 1,
    }
}

impl StoreState {
    /// Moves a block of a chunk to a place; the old place is freed after a sync of frame
    /// `sequence`.
    pub(crate) fn place_block(
        &mut self,
        id: ForkId,
        chunk: u64,
        block: u32,
        place: Place,
        crc: u32,
        sequence: u64,
    ) {
        let fork = self.forks.get_mut(id);
        if let Some(old) = fork.and_then(|fork| fork.place(chunk, block, place, crc)) {
            self.space.free_after(sequence, extent(old));
        }
    }

    /// A chunk's entry differs from the index now.
    pub(crate) fn mark_changed(&mut self, id: ForkId, chunk: u64) {
        if let Some(entry) = self.forks.chunk_mut(id, chunk) {
            entry.mark_changed();
            if entry.may_have_lost() {
                self.lossy.insert(id, chunk);
            }
            self.changes.chunk(id, chunk);
        }
    }

    /// Drops everything beyond `length` and sets the length; the chunks that this touches are in
    /// memory. The caller zeroes the rest of the last block. Returns how many chunks it emptied.
    pub(crate) fn truncate(
        &mut self,
        id: ForkId,
        length: u64,
        modified: i64,
        sequence: u64,
    ) -> u64 {
        self.doubts.prove(id, &(length..u64::MAX));
        let fork = &self.forks[id];
        if length >= fork.length() || fork.chunk() == 0 {
            self.touch(id, length, modified);
            return 0;
        }
        self.truncate_deferred(id, length, modified, sequence);
        let end = self.forks[id].end_chunk();
        let emptied = self.empty_chunks(id, end..u64::MAX, sequence);
        self.forks.end_deferred_truncation(id);
        emptied
    }

    /// Empties blocks of a chunk in memory; their places are freed after a sync of frame
    /// `sequence`.
    pub(crate) fn empty(&mut self, id: ForkId, n: u64, blocks: Range<u32>, sequence: u64) {
        let Some(fork) = self.forks.get_mut(id) else {
            return;
        };
        let gone = fork.empty(n, &blocks, |place| {
            self.space.free_after(sequence, extent(place));
        });
        self.forget_pages(id, n, &blocks);
        if gone > 0 {
            self.mark_changed(id, n);
        }
    }

    /// Drops the copies of blocks in memory, dirty or not.
    pub(super) fn forget_pages(&mut self, id: ForkId, n: u64, blocks: &Range<u32>) {
        let Some(chunk) = self.forks.chunk_mut(id, n) else {
            return;
        };
        let forgotten = chunk.forget_blocks(blocks);
        let dirty = chunk.is_dirty();
        self.cache.uncount(forgotten.bytes);
        self.dirty.remove_blocks(u64::from(forgotten.dirty));
        self.space.unreserve(u64::from(forgotten.promises));
        if !dirty {
            self.dirty.remove_chunk(id, n);
        }
    }
}
