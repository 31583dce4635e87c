//! One slot of a chunk in memory: which of its 16 blocks are valid, dirty or being flushed.
//!
//! A *slot* is 16 blocks of the chunk; its page is a buffer of 1, 4 or 16 blocks that grows to
//! cover what is cached, so that a cold read of one block costs one block of memory. Readers and
//! writes in flight share buffers: a shared page is copied before it changes, so no reader ever
//! sees a buffer change.
//!
//! Invariants: a dirty block is valid; a flushing block is dirty; a redirtied block is flushing.

use std::ops::Range;
use std::sync::Arc;

use crate::pool::{BLOCK, BUFFER_BLOCKS_MAX, Buffer, Pool};

/// Bytes of a slot.
pub(crate) const SLOT: u64 = (BUFFER_BLOCKS_MAX * BLOCK) as u64;

/// The bit of `block` in its slot's masks.
pub(crate) fn bit(block: u32) -> u16 {
    1 << (block as usize % BUFFER_BLOCKS_MAX)
}

/// The slot of `block`.
pub(crate) fn slot_of(block: u32) -> usize {
    block as usize / BUFFER_BLOCKS_MAX
}

/// Cached blocks of one slot. Masks have one bit per block of the slot.
#[expect(
    clippy::struct_excessive_bools,
    reason = "what two queues know of a page; any combination can be"
)]
#[derive(Debug)]
pub(crate) struct Page {
    /// First block of the slot that the buffer covers.
    base: u32,
    buffer: Arc<Buffer>,
    valid: u16,
    /// Newer than the disk; the log has the bytes.
    dirty: u16,
    /// Being written by flush number `flush`.
    flushing: u16,
    /// Changed since that flush began.
    redirtied: u16,
    flush: u64,
    /// The oldest frame of the log that the dirty blocks need.
    oldest: u64,
    /// Used since the clock's hand last passed.
    used: bool,
    /// The clock has an entry for the slot.
    queued: bool,
    /// Bytes read or written since the slot was last touched as a whole.
    touched: u32,
    /// The whole slot was touched: the page is among the first to be evicted.
    spent: bool,
    /// The replace queue has an entry for the slot.
    listed: bool,
    /// Prefetched and not read yet.
    fetched: u16,
    /// Verified when they came from the disk, and not read since.
    fresh: u16,
    /// Checksums of dirty blocks; the map has those of clean ones.
    sums: [u32; BUFFER_BLOCKS_MAX],
}

/// What changed when a block became dirty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dirtied {
    /// The block needs a promise of the allocator.
    pub(crate) needs_promise: bool,
    /// The block was clean.
    pub(crate) was_clean: bool,
    /// With it the whole slot is dirty.
    pub(crate) fills_slot: bool,
}

impl Page {
    /// A page over the smallest buffer that covers blocks `first..=last` of the slot.
    pub(crate) fn covering(pool: &Pool, first: u32, last: u32) -> Self {
        let blocks = [1_u32, 4, 16].into_iter().find(|n| first / n == last / n);
        let blocks = blocks.expect("a slot has 16 blocks");
        let buffer = Arc::new(pool.take(blocks as usize));
        Self::filled(first / blocks * blocks, buffer, 0)
    }

    /// A page of blocks that were just read or written.
    pub(crate) fn filled(base: u32, buffer: Arc<Buffer>, valid: u16) -> Self {
        Self {
            base,
            buffer,
            valid,
            dirty: 0,
            flushing: 0,
            redirtied: 0,
            flush: 0,
            oldest: u64::MAX,
            used: true,
            queued: false,
            touched: 0,
            spent: false,
            listed: false,
            fetched: 0,
            fresh: 0,
            sums: [0; BUFFER_BLOCKS_MAX],
        }
    }

    /// A page of blocks that were read from the disk and verified.
    pub(crate) fn loaded(base: u32, buffer: Arc<Buffer>, valid: u16) -> Self {
        Self {
            fresh: valid,
            ..Self::filled(base, buffer, valid)
        }
    }

    /// Bytes of memory it holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// The buffer, to be shared.
    pub(crate) fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }

    /// Where block `in_slot` of the slot begins in the buffer.
    pub(crate) fn at(&self, in_slot: u32) -> usize {
        (in_slot - self.base) as usize * BLOCK
    }

    fn covers(&self, in_slot: u32) -> bool {
        (self.base..self.base + self.buffer.blocks() as u32).contains(&in_slot)
    }
}

/// Valid blocks and their bytes.
impl Page {
    /// The mask of valid blocks.
    pub(crate) fn valid(&self) -> u16 {
        self.valid
    }

    /// Whether a block is valid.
    pub(crate) fn has(&self, block: u32) -> bool {
        self.valid & bit(block) != 0
    }

    /// Blocks of a new page got their bytes.
    pub(crate) fn mark_valid(&mut self, blocks: Range<u32>) {
        self.valid |= blocks.fold(0, |valid, block| valid | bit(block));
    }

    /// The bytes of one block, to be changed; copies the page if it is shared.
    pub(crate) fn block_mut(&mut self, pool: &Pool, in_slot: u32) -> &mut [u8] {
        let bounds = if self.covers(in_slot) {
            (self.base, self.base + self.buffer.blocks() as u32 - 1)
        } else {
            let end = self.base + self.buffer.blocks() as u32 - 1;
            (self.base.min(in_slot), end.max(in_slot))
        };
        if !self.covers(in_slot) || Arc::get_mut(&mut self.buffer).is_none() {
            let grown = Self::covering(pool, bounds.0, bounds.1);
            let mut buffer = pool.take(grown.buffer.blocks());
            for b in (0..16).filter(|b| self.valid & bit(*b) != 0) {
                let to = (b - grown.base) as usize * BLOCK;
                buffer[to..to + BLOCK].copy_from_slice(&self.buffer[self.at(b)..][..BLOCK]);
            }
            self.base = grown.base;
            self.buffer = Arc::new(buffer);
        }
        self.fresh = 0;
        let at = self.at(in_slot);
        let buffer = Arc::get_mut(&mut self.buffer).expect("the page was copied if it was shared");
        &mut buffer[at..at + BLOCK]
    }

    /// Copies a block in. It is valid at once: growing for the next block keeps only valid ones.
    pub(crate) fn copy_block(&mut self, pool: &Pool, in_slot: u32, bytes: &[u8]) {
        self.block_mut(pool, in_slot).copy_from_slice(bytes);
        self.valid |= bit(in_slot);
    }

    /// The bytes of blocks of a new page.
    pub(crate) fn new_blocks(&mut self, first: u32, last: u32) -> &mut [u8] {
        let (from, to) = (self.at(first), self.at(last) + BLOCK);
        let buffer = Arc::get_mut(&mut self.buffer).expect("a new page is shared with nobody");
        &mut buffer[from..to]
    }

    /// Drops blocks, dirty or not; returns how many promises they held.
    pub(crate) fn forget(&mut self, blocks: u16) -> u32 {
        let promises = (self.promised() & blocks).count_ones();
        self.clean(blocks);
        self.valid &= !blocks;
        self.fetched &= !blocks;
        promises
    }
}

/// Dirty blocks, and the flush that writes them.
impl Page {
    /// The mask of dirty blocks.
    pub(crate) fn dirty(&self) -> u16 {
        self.dirty
    }

    /// Whether any block is dirty.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty != 0
    }

    /// Whether every block of the slot is dirty.
    pub(crate) fn is_full(&self) -> bool {
        self.dirty == u16::MAX
    }

    /// Whether a block is dirty.
    pub(crate) fn block_is_dirty(&self, block: u32) -> bool {
        self.dirty & bit(block) != 0
    }

    /// The checksum of a dirty block.
    pub(crate) fn sum(&self, block: u32) -> u32 {
        self.sums[block as usize % BUFFER_BLOCKS_MAX]
    }

    /// Sets the checksum of a dirty block.
    pub(crate) fn set_sum(&mut self, block: u32, sum: u32) {
        self.sums[block as usize % BUFFER_BLOCKS_MAX] = sum;
    }

    /// Dirty blocks with a promise of the allocator.
    pub(crate) fn promised(&self) -> u16 {
        self.dirty & (!self.flushing | self.redirtied)
    }

    /// A block is changed by frame `sequence` of the log.
    pub(crate) fn mark_dirty(&mut self, block: u32, sequence: u64) -> Dirtied {
        let mask = bit(block);
        let (needs_promise, was_clean) = (self.promised() & mask == 0, self.dirty & mask == 0);
        self.valid |= mask;
        let was_full = self.is_full();
        self.dirty |= mask;
        self.redirtied |= self.flushing & mask;
        self.need_frames_from(sequence);
        Dirtied {
            needs_promise,
            was_clean,
            fills_slot: self.is_full() && !was_full,
        }
    }

    /// The oldest frame of the log that the dirty blocks need; [`u64::MAX`]: none.
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// The dirty blocks need the log from this frame on, or from an earlier one.
    pub(crate) fn need_frames_from(&mut self, sequence: u64) {
        self.oldest = self.oldest.min(sequence);
    }

    /// A flush takes all dirty blocks.
    pub(crate) fn begin_flush(&mut self, flush: u64) {
        self.flushing = self.dirty;
        self.redirtied = 0;
        self.flush = flush;
    }

    /// Whether a flush still has a block: nothing took its place meanwhile.
    pub(crate) fn is_flushing(&self, flush: u64, block: u32) -> bool {
        self.flush == flush && self.flushing & bit(block) != 0
    }

    /// A flush did not write a block, which stays dirty; returns whether it has a promise.
    pub(crate) fn abandon_flush(&mut self, block: u32) -> bool {
        let promised = self.redirtied & bit(block) != 0;
        self.flushing &= !bit(block);
        self.redirtied &= !bit(block);
        promised
    }

    /// A flush wrote a block as of frame `as_of`; returns whether the block is clean now.
    pub(crate) fn end_flush(&mut self, block: u32, as_of: u64) -> bool {
        if self.abandon_flush(block) {
            self.oldest = self.oldest.max(as_of + 1);
            return false;
        }
        self.clean(bit(block));
        true
    }

    /// Blocks are no longer dirty.
    fn clean(&mut self, blocks: u16) {
        self.dirty &= !blocks;
        self.flushing &= !blocks;
        self.redirtied &= !blocks;
        if self.dirty == 0 {
            self.oldest = u64::MAX;
        }
    }
}

/// Use, as the cache's two queues see it.
impl Page {
    /// Bytes were read or written. Once `held` bytes were touched, the page is spent: it moves from
    /// the hold queue to the replace queue. Returns whether the page must be added to the replace
    /// queue. A page that is touched again in part is held again.
    pub(crate) fn touch(&mut self, bytes: u32, held: u32) -> bool {
        self.used = true;
        self.touched = self.touched.saturating_add(bytes);
        if self.touched < held {
            self.spent = false;
            return false;
        }
        // Bytes that are touched twice count twice, as in Vesta.
        self.touched %= held.max(1);
        self.mark_evict_first()
    }

    /// Makes the page one of the first to be evicted; returns whether the replace queue lacks it.
    pub(crate) fn mark_evict_first(&mut self) -> bool {
        self.used = false;
        self.spent = true;
        !std::mem::replace(&mut self.listed, true)
    }

    /// Whether the page is to be evicted first.
    pub(crate) fn is_evict_first(&self) -> bool {
        self.spent
    }

    /// Whether the page was used since the clock's hand last passed.
    pub(crate) fn is_used(&self) -> bool {
        self.used
    }

    /// A call uses the page.
    pub(crate) fn mark_used(&mut self) {
        self.used = true;
    }

    /// The clock's hand passes.
    pub(crate) fn clear_used(&mut self) {
        self.used = false;
    }

    /// Whether the replace queue has an entry for the slot.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed
    }

    /// The replace queue dropped its entry.
    pub(crate) fn unlist(&mut self) {
        self.listed = false;
    }

    /// The page takes its slot, and the queue entries of the one that was there; whether the clock
    /// has none.
    pub(crate) fn take_slot(&mut self, before: Option<&Page>) -> bool {
        self.queued = true;
        self.listed |= before.is_some_and(|page| page.listed);
        !before.is_some_and(|page| page.queued)
    }

    /// Blocks were prefetched.
    pub(crate) fn mark_prefetched(&mut self, blocks: u16) {
        self.fetched |= blocks;
    }

    /// Blocks that were prefetched and not read.
    pub(crate) fn prefetched_unread(&self) -> u32 {
        self.fetched.count_ones()
    }

    /// How many of these blocks were prefetched and are read now for the first time.
    pub(crate) fn take_prefetched(&mut self, first: u32, last: u32) -> u32 {
        let mask = (first..=last).fold(0, |mask, block| mask | bit(block));
        let count = (self.fetched & mask).count_ones();
        self.fetched &= !mask;
        count
    }

    /// Which of these blocks were verified and not read since, the first one's bit the lowest; now
    /// they count as read.
    pub(crate) fn take_fresh(&mut self, first: u32, last: u32) -> u16 {
        let within = first % BUFFER_BLOCKS_MAX as u32;
        let mask = (((1_u32 << (last - first + 1)) - 1) << within) as u16;
        let taken = self.fresh & mask;
        self.fresh &= !mask;
        taken >> within
    }

    /// Undoes [`Page::take_fresh`]: the blocks were not used after all.
    pub(crate) fn return_fresh(&mut self, first: u32, taken: u16) {
        self.fresh |= taken << (first % BUFFER_BLOCKS_MAX as u32);
    }
}
