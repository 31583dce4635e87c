//! One slot of a chunk in memory: which of its 16 blocks are valid, dirty or being flushed.
//!
//! A *slot* is 16 blocks of the chunk; its page is a buffer of 1, 4 or 16 blocks that grows to
//! cover what is cached, so that a cold read of one block costs one block of memory. Readers and
//! writes in flight share buffers: a shared page is copied before it changes, so no reader ever
//! sees a buffer change.

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
    pub(crate) valid: u16,
    /// Newer than the disk; the log has the bytes.
    pub(crate) dirty: u16,
    /// Being written by flush number `flush`.
    pub(crate) flushing: u16,
    /// Changed since that flush began.
    pub(crate) redirtied: u16,
    pub(crate) flush: u64,
    /// The oldest frame of the log that the dirty blocks need.
    pub(crate) oldest: u64,
    /// Used since the clock's hand last passed.
    pub(crate) used: bool,
    /// The clock knows the page.
    pub(crate) queued: bool,
    /// Bytes read or written since the slot was last touched as a whole.
    touched: u32,
    /// As much was touched as the slot holds: it is in the replace queue.
    pub(crate) spent: bool,
    /// The replace queue has an entry for the slot.
    pub(crate) listed: bool,
    /// Fetched ahead and not read yet.
    pub(crate) fetched: u16,
    /// Found to be right when they came from the disk, and not read since.
    pub(crate) fresh: u16,
    /// Checksums of dirty blocks; the map has those of clean ones.
    pub(crate) sums: [u32; BUFFER_BLOCKS_MAX],
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

    /// Bytes of a slot of `held` bytes were read or written; whether the page came to its end by
    /// that, and goes from the hold queue to the replace queue. Touched again in part, it is held.
    pub(crate) fn touch(&mut self, bytes: u32, held: u32) -> bool {
        self.used = true;
        self.touched = self.touched.saturating_add(bytes);
        if self.touched < held {
            self.spent = false;
            return false;
        }
        // Bytes that are touched twice count twice, as in Vesta.
        self.touched %= held.max(1);
        self.spend()
    }

    /// Makes the page one of those to go first; whether the replace queue lacks it.
    pub(crate) fn spend(&mut self) -> bool {
        self.used = false;
        self.spent = true;
        !std::mem::replace(&mut self.listed, true)
    }

    /// Bytes of memory it holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.buffer.len() as u64
    }

    fn covers(&self, in_slot: u32) -> bool {
        (self.base..self.base + self.buffer.blocks() as u32).contains(&in_slot)
    }

    /// Where block `in_slot` of the slot begins in the buffer.
    pub(crate) fn at(&self, in_slot: u32) -> usize {
        (in_slot - self.base) as usize * BLOCK
    }

    /// The buffer, to be shared.
    pub(crate) fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }

    /// The bytes of one block that may be changed: copies the page when somebody shares it.
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

    /// The bytes of blocks of a page that nobody has seen yet.
    pub(crate) fn new_blocks(&mut self, first: u32, last: u32) -> &mut [u8] {
        let (from, to) = (self.at(first), self.at(last) + BLOCK);
        let buffer = Arc::get_mut(&mut self.buffer).expect("a new page is shared with nobody");
        &mut buffer[from..to]
    }

    /// Which of these blocks were found to be right and not read since, the first one's bit the
    /// lowest; by then they are read.
    pub(crate) fn take_fresh(&mut self, first: u32, last: u32) -> u16 {
        let within = first % BUFFER_BLOCKS_MAX as u32;
        let mask = (((1_u32 << (last - first + 1)) - 1) << within) as u16;
        let taken = self.fresh & mask;
        self.fresh &= !mask;
        taken >> within
    }

    /// Blocks that a promise of the allocator stands behind.
    pub(crate) fn promised(&self) -> u16 {
        self.dirty & (!self.flushing | self.redirtied)
    }

    /// Forgets blocks; returns how many promises they held.
    pub(crate) fn forget(&mut self, blocks: u16) -> u32 {
        let promises = (self.promised() & blocks).count_ones();
        self.clean(blocks);
        self.valid &= !blocks;
        self.fetched &= !blocks;
        promises
    }

    /// Blocks are no longer dirty.
    pub(crate) fn clean(&mut self, blocks: u16) {
        self.dirty &= !blocks;
        self.flushing &= !blocks;
        self.redirtied &= !blocks;
        if self.dirty == 0 {
            self.oldest = u64::MAX;
        }
    }
}
