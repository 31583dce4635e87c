//! Chunks as reads see them: the bytes do not change, the notes of what was used do.

use std::ops::Deref;

use crate::cache::Residency;
use crate::pages::{Chunk, bit, slot_of};
use crate::pool::Slice;
use crate::record::ForkId;
use crate::state::StoreState;

/// A chunk in memory that a read looks at.
pub(crate) struct ReadChunk<'a> {
    id: ForkId,
    n: u64,
    chunk: &'a mut Chunk,
    cache: &'a mut Residency,
}

impl Deref for ReadChunk<'_> {
    type Target = Chunk;
    fn deref(&self) -> &Chunk {
        self.chunk
    }
}

impl ReadChunk<'_> {
    /// The fork that has the chunk, and its number.
    pub(crate) fn place_in_fork(&self) -> (ForkId, u64) {
        (self.id, self.n)
    }

    /// A call wants blocks of a slot: their page is not the clock's next victim.
    pub(crate) fn mark_used(&mut self, slot: usize) {
        if let Some(page) = self.chunk.page_mut(slot) {
            page.mark_used();
        }
    }

    /// A call reads `bytes` of blocks `first..=last` of a slot; returns how many of the blocks were
    /// prefetched and are read for the first time.
    pub(crate) fn note_read(&mut self, first: u32, last: u32, bytes: u32) -> u64 {
        let (slot, held) = (slot_of(first), self.cache.held_below());
        let Some(page) = self.chunk.page_mut(slot) else {
            return 0;
        };
        let prefetched = page.take_prefetched(first, last);
        if page.touch(bytes, held) {
            self.cache.mark_evict_first(self.id, self.n, slot);
        }
        u64::from(prefetched)
    }

    /// See [`Page::take_fresh`](crate::pages::Page::take_fresh).
    pub(crate) fn take_fresh(&mut self, first: u32, last: u32) -> u16 {
        let page = self.chunk.page_mut(slot_of(first));
        page.map_or(0, |page| page.take_fresh(first, last))
    }
}

impl StoreState {
    /// A chunk in memory, for a read.
    pub(crate) fn chunk_to_read(&mut self, id: ForkId, n: u64) -> Option<ReadChunk<'_>> {
        Some(ReadChunk {
            id,
            n,
            chunk: self.forks.chunk_mut(id, n)?,
            cache: &mut self.cache,
        })
    }

    /// Undoes [`ReadChunk::take_fresh`], if the page still has the buffer that the slice is of.
    pub(crate) fn return_fresh(
        &mut self,
        (id, n): (ForkId, u64),
        first: u32,
        taken: u16,
        slice: &Slice,
    ) {
        let chunk = self.forks.chunk_mut(id, n);
        let page = chunk.and_then(|chunk| chunk.page_mut(slot_of(first)));
        if let Some(page) = page.filter(|page| slice.is_of(page.buffer())) {
            page.return_fresh(first, taken);
        }
    }

    /// Drops a block that a slice was read from and that changed in memory, if it is clean; `None`
    /// if the cache does not have it any more, else whether it is dirty.
    pub(crate) fn drop_corrupted(
        &mut self,
        (id, n): (ForkId, u64),
        block: u32,
        slice: &Slice,
    ) -> Option<bool> {
        let page = self.forks.chunk_mut(id, n)?.page_mut(slot_of(block))?;
        if !slice.is_of(page.buffer()) || !page.has(block) {
            return None;
        }
        let dirty = page.block_is_dirty(block);
        if !dirty {
            page.forget(bit(block));
        }
        Some(dirty)
    }
}
