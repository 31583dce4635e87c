//! Pages of forks: cached, made dirty, evicted.

use std::ops::Range;
use std::sync::Arc;

use crate::cache::PrefetchBounds;
use crate::pages::{Page, bit, slot_of};
use crate::pool::{BLOCK, BUFFER_BLOCKS_MAX, Buffer, Pool};
use crate::record::{ForkId, checksum};
use crate::state::StoreState;

/// A block that is about to be changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockChange {
    pub(crate) chunk: u64,
    /// In the chunk.
    pub(crate) block: u32,
    /// The last block of the chunk that the change reaches, if it is dense.
    pub(crate) last: u32,
    /// Bytes of the block; the last block of a chunk may be short.
    pub(crate) held: usize,
    /// Whether all of them change.
    pub(crate) whole: bool,
    /// Bytes of the change.
    pub(crate) bytes: u32,
}

impl StoreState {
    /// Counts a chunk's entry in the cache after it was loaded or grew.
    pub(crate) fn count_entry(&mut self, id: ForkId, n: u64) {
        self.cache.count_entry(&mut self.forks, id, n);
    }

    /// Bytes of a slot were written: see [`Page::touch`].
    pub(crate) fn touch_page(&mut self, id: ForkId, n: u64, slot: usize, bytes: u32) {
        self.cache.touch_page(&mut self.forks, id, n, slot, bytes);
    }

    /// Puts a page into a slot and counts it.
    pub(crate) fn set_page(&mut self, id: ForkId, n: u64, slot: usize, page: Page) {
        self.cache.set_page(&mut self.forks, id, n, slot, page);
    }

    /// Evicts clean pages, and entries that the index has, until `limit` holds.
    ///
    /// Cost: bounded in proportion to what the cache has grown since the last call.
    pub(crate) fn evict(&mut self, limit: u64) {
        self.cache.evict(&mut self.forks, limit);
    }

    /// Evicts everything that can be evicted.
    pub(crate) fn evict_all(&mut self) {
        self.cache.evict_all(&mut self.forks);
    }

    /// The slots to prefetch after a read of slots, as [`crate::cache::Residency::predict`].
    pub(crate) fn predict(
        &mut self,
        id: ForkId,
        slots: Range<u64>,
        reach: impl FnOnce(u64) -> PrefetchBounds,
    ) -> Option<Range<u64>> {
        self.cache.predict(id, slots, reach)
    }

    /// Makes the pages of slots of a chunk the first to be evicted.
    pub(crate) fn spend_pages(&mut self, id: ForkId, n: u64, slots: impl Iterator<Item = usize>) {
        let Some(chunk) = self.forks.chunk_mut(id, n) else {
            return;
        };
        for slot in slots {
            if chunk.page_mut(slot).is_some_and(Page::mark_evict_first) {
                self.cache.mark_evict_first(id, n, slot);
            }
        }
    }

    /// Drops the clean pages of a chunk, and makes its dirty ones the first to be evicted.
    pub(crate) fn discard_pages(&mut self, id: ForkId, n: u64) {
        self.cache.discard(&mut self.forks, id, n);
    }

    /// Marks a block dirty that the caller is about to change, and returns its page. Also returns a
    /// correction for its new checksum: 0, unless the block's bytes changed in memory before; with
    /// it the corruption stays detectable.
    pub(crate) fn change_block(
        &mut self,
        pool: &Pool,
        id: ForkId,
        change: &BlockChange,
    ) -> (&mut Page, u32) {
        let (sequence, held) = (self.next_sequence(), self.cache.held_below());
        let BlockChange {
            chunk: n, block, ..
        } = *change;
        let slot = slot_of(block);
        let blocks = BUFFER_BLOCKS_MAX as u32;
        let fork = self.forks.get_mut(id);
        let fork = fork.expect("the fork was found under this lock");
        let chunk = fork.chunk_or_default(n);
        let placed = chunk.place(block).is_some();
        let expected = chunk.sum(block);
        let uncounted = chunk.counted_bytes() == 0;
        if chunk.page_mut(slot).is_none() {
            let last = change.last.clamp(block, slot as u32 * blocks + blocks - 1);
            let page = Page::covering(pool, block % blocks, last % blocks);
            self.set_page(id, n, slot, page);
        }
        if uncounted {
            self.count_entry(id, n);
        }
        let fork = self.forks.get_mut(id);
        let fork = fork.expect("the fork was found under this lock");
        let page = fork.page_to_write(n, slot);
        let (page, unplaced) = page.expect("the page was made above");
        let (before, known) = (page.bytes(), page.has(block));
        let bytes = page.block_mut(pool, block % blocks);
        let carry = if known && !change.whole {
            checksum(bytes) ^ expected
        } else {
            0
        };
        if !known {
            assert!(
                !placed || change.whole,
                "a block is loaded before part of it is written"
            );
            bytes[if change.whole { change.held } else { 0 }..].fill(0);
        }
        self.cache.resized(before, page.bytes());
        let dirtied = page.mark_dirty(block, sequence);
        if dirtied.needs_promise {
            self.space.reserve(1);
        }
        if dirtied.was_clean {
            *unplaced += u64::from(!placed);
            self.dirty.add_block(id, n);
        }
        if dirtied.fills_slot {
            self.dirty.add_full_slot();
        }
        if page.touch(change.bytes, held) {
            self.cache.mark_evict_first(id, n, slot);
        }
        (page, carry)
    }

    /// Puts a page of blocks that were written to the disk into the cache, in place of older bytes;
    /// returns how many bytes it copied into an existing page. The blocks are mapped already.
    pub(crate) fn replace_blocks(
        &mut self,
        pool: &Pool,
        (id, n): (ForkId, u64),
        blocks: Range<u32>,
        page: Page,
    ) -> u64 {
        let slot = slot_of(blocks.start);
        let Some(chunk) = self.forks.chunk_mut(id, n) else {
            return 0;
        };
        let bytes = (blocks.len() * BLOCK) as u32;
        let Some(old) = chunk.page_mut(slot) else {
            self.set_page(id, n, slot, page);
            self.touch_page(id, n, slot, bytes);
            return 0;
        };
        let dirty = (old.dirty() & page.valid()).count_ones();
        let promises = old.forget(page.valid());
        let merge = old.valid() != 0;
        if merge {
            let before = old.bytes();
            for block in blocks {
                let from = page.at(block % 16);
                old.copy_block(pool, block % 16, &page.buffer()[from..from + BLOCK]);
            }
            self.cache.resized(before, old.bytes());
        }
        let clean = dirty > 0 && !chunk.is_dirty();
        self.dirty.remove_blocks(u64::from(dirty));
        self.space.unreserve(u64::from(promises));
        if clean {
            self.dirty.remove_chunk(id, n);
        }
        if !merge {
            self.set_page(id, n, slot, page);
        }
        self.touch_page(id, n, slot, bytes);
        if merge { u64::from(bytes) } else { 0 }
    }

    /// Puts blocks that were read into the cache: those that `valid` marks in their slot; the
    /// buffer begins with block `first`. `prefetched`: no call has asked for them yet.
    pub(crate) fn add_loaded(
        &mut self,
        pool: &Pool,
        (id, n): (ForkId, u64),
        first: u32,
        (buffer, valid): (Buffer, u16),
        prefetched: bool,
    ) {
        let slot = slot_of(first);
        let Some(chunk) = self.forks.chunk_mut(id, n) else {
            return;
        };
        let Some(page) = chunk.page_mut(slot) else {
            let mut page = Page::loaded(first % 16, Arc::new(buffer), valid);
            page.mark_prefetched(if prefetched { valid } else { 0 });
            return self.set_page(id, n, slot, page);
        };
        let before = page.bytes();
        for (i, bytes) in (0_u32..).zip(buffer.chunks_exact(BLOCK)) {
            let mask = bit(first + i) & valid;
            if mask != 0 {
                page.copy_block(pool, (first + i) % 16, bytes);
                page.mark_prefetched(if prefetched { mask } else { 0 });
            }
        }
        self.cache.resized(before, page.bytes());
    }
}
