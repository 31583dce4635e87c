//! Bytes on their way to a reader, with the sums under which they are stored:
//! `docs/design/0014-checksums.md`.
//!
//! A block's sum is computed when it is stored. What a reader gets is judged by that sum, not by
//! one computed from what lies in memory by then: whoever sends bytes on sends [`Part::sum`], and
//! asks [`Store::verify`] *after* the last use of the bytes. A page whose bytes changed in memory
//! is dropped and read anew from the disk; where the disk does not have them yet, the store closes
//! itself, because its log has.

use std::cell::Cell;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytes::Bytes;

use crate::counters::Counters;
use crate::engine::{Inner, Store};
use crate::error::StoreError;
use crate::pages::{Chunk, bit, slot_of};
use crate::pool::{BLOCK, BUFFER_BLOCKS_MAX, Slice};
use crate::record::ForkId;
use crate::state::State;

/// Consecutive bytes of a fork: of one page, or of a hole.
#[derive(Clone, Debug)]
pub struct Part {
    bytes: Bytes,
    blocks: Option<Blocks>,
}

/// The whole blocks that a part lies in.
#[derive(Clone, Debug)]
struct Blocks {
    slice: Slice,
    /// Bytes before the part.
    before: usize,
    sums: [u32; BUFFER_BLOCKS_MAX],
    id: ForkId,
    chunk: u64,
    /// The first block in the chunk.
    first: u32,
    /// Which of the blocks were used, a bit for each.
    used: Cell<u16>,
    /// Which were found to be right when they came from the disk, have not been read since, and go
    /// under that sum only.
    fresh: Cell<u16>,
}

impl From<Bytes> for Part {
    /// Bytes that are not stored anywhere: zeros, say.
    fn from(bytes: Bytes) -> Part {
        let blocks = None;
        Part { bytes, blocks }
    }
}

impl Deref for Part {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Part {
    /// Bytes `range` of a chunk, all in valid blocks of one page.
    pub(crate) fn of(id: ForkId, n: u64, chunk: &mut Chunk, range: Range<u32>) -> Option<Part> {
        let (first, last) = (range.start / BLOCK as u32, (range.end - 1) / BLOCK as u32);
        let fresh = chunk.page_mut(slot_of(first))?.take_fresh(first, last);
        let page = chunk.valid_page(first)?;
        let mut sums = [0; BUFFER_BLOCKS_MAX];
        for (sum, block) in sums.iter_mut().zip(first..=last) {
            *sum = chunk.sum(block);
        }
        let at = page.at(first % BUFFER_BLOCKS_MAX as u32);
        let end = at + (last - first + 1) as usize * BLOCK;
        let slice = Slice::new(Arc::clone(page.buffer()), at..end);
        let before = range.start as usize % BLOCK;
        let from = at + before;
        let part = from..from + range.len();
        Some(Part {
            bytes: Slice::new(Arc::clone(page.buffer()), part).into_bytes(),
            blocks: Some(Blocks {
                slice,
                before,
                sums,
                id,
                chunk: n,
                first,
                used: Cell::new(0),
                fresh: Cell::new(fresh),
            }),
        })
    }

    /// Nobody uses the part: whoever reads its blocks next is the first.
    pub(crate) fn give_back(self, state: &mut State) {
        let Some(blocks) = self.blocks.filter(|blocks| blocks.fresh.get() != 0) else {
            return;
        };
        let fork = state.forks_mut().get_mut(blocks.id);
        let chunk = fork.and_then(|fork| fork.chunk_mut(blocks.chunk));
        let page = chunk.and_then(|chunk| chunk.page_mut(slot_of(blocks.first)));
        if let Some(page) = page.filter(|page| blocks.slice.is_of(page.buffer())) {
            page.fresh |= blocks.fresh.get() << (blocks.first % BUFFER_BLOCKS_MAX as u32);
        }
    }

    /// The bytes; they share the cache's memory.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Says that these bytes are used: [`Store::verify_used`] looks at the blocks they lie in, and
    /// at no others.
    pub fn mark(&self, range: Range<usize>) {
        if let Some(blocks) = self.blocks.as_ref().filter(|_| !range.is_empty()) {
            blocks.mark(range);
        }
    }

    /// Says that these bytes are used and go under the sum that is returned: their CRC-32C, from
    /// the sums of the blocks that they are; that of parts of blocks from the bytes.
    pub fn sum(&self, range: Range<usize>) -> u32 {
        let Some(blocks) = &self.blocks else {
            return weft_sum::of(&self.bytes[range]);
        };
        let (mut at, end) = (blocks.before + range.start, blocks.before + range.end);
        let mut sum = 0;
        while at < end {
            let stop = (at / BLOCK * BLOCK + BLOCK).min(end);
            let of = if stop - at == BLOCK {
                blocks.used.set(blocks.used.get() | 1 << (at / BLOCK));
                blocks.sums[at / BLOCK]
            } else {
                blocks.mark(at - blocks.before..stop - blocks.before);
                weft_sum::of(&blocks.slice[at..stop])
            };
            sum = weft_sum::joined(sum, of, stop - at);
            at = stop;
        }
        sum
    }
}

impl Blocks {
    /// These bytes of the part are used under another sum than the stored ones.
    fn mark(&self, range: Range<usize>) {
        let first = (self.before + range.start) / BLOCK;
        let count = (self.before + range.end).div_ceil(BLOCK) - first;
        let marks = (((1_u32 << count) - 1) << first) as u16;
        self.used.set(self.used.get() | marks);
        self.fresh.set(self.fresh.get() & !marks);
    }

    /// The blocks of the chunk whose bytes are not those that were stored, among those whose bit is
    /// set.
    fn rotten(&self, looked_at: u16) -> Vec<u32> {
        let blocks = self.slice.chunks_exact(BLOCK).zip(self.sums).enumerate();
        blocks
            .filter(|(n, (bytes, sum))| looked_at >> n & 1 != 0 && weft_sum::of(bytes) != *sum)
            .map(|(n, _)| self.first + n as u32)
            .collect()
    }
}

impl Store {
    /// Whether parts that were read still are what was stored. Where not, what is in the cache is
    /// dropped: the caller reads again, or gives up when that was its `last` try.
    ///
    /// Cost: a sum over the blocks that the parts lie in.
    /// # Errors
    /// [`StoreError::Memory`] when the disk does not have the bytes yet, and on the last try.
    pub fn verify<'a>(
        &self,
        parts: impl IntoIterator<Item = &'a Part>,
        last: bool,
    ) -> Result<bool, StoreError> {
        self.verify_blocks(parts, last, |_| u16::MAX)
    }

    /// As [`Store::verify`], of what was marked by [`Part::mark`] or goes under [`Part::sum`]: what
    /// was read only because it lies between is left out. So are blocks that just came from the
    /// disk, were found to be right then, and go under that very sum: whoever gets them sees what
    /// became of them since.
    ///
    /// # Errors
    /// As [`Store::verify`].
    pub fn verify_used<'a>(
        &self,
        parts: impl IntoIterator<Item = &'a Part>,
        last: bool,
    ) -> Result<bool, StoreError> {
        self.verify_blocks(parts, last, |blocks| {
            blocks.used.get() & !blocks.fresh.get()
        })
    }

    fn verify_blocks<'a>(
        &self,
        parts: impl IntoIterator<Item = &'a Part>,
        last: bool,
        looked_at: impl Fn(&Blocks) -> u16,
    ) -> Result<bool, StoreError> {
        let mut right = true;
        for blocks in parts.into_iter().filter_map(|part| part.blocks.as_ref()) {
            for block in blocks.rotten(looked_at(blocks)) {
                right = false;
                let error = self.0.drop_rotten(blocks, block);
                if let Some(error) = error.filter(|e| last || e.closes()) {
                    return Err(error);
                }
            }
        }
        Ok(right)
    }
}

impl Inner {
    /// Drops a block whose bytes changed in memory; `None` when that was done before.
    fn drop_rotten(&self, blocks: &Blocks, block: u32) -> Option<StoreError> {
        let mut state = self.lock();
        let fork = state.forks_mut().get_mut(blocks.id)?;
        let key = fork.key().clone();
        let chunk = fork.chunk_mut(blocks.chunk)?;
        let page = chunk.page_mut(slot_of(block))?;
        let same = blocks.slice.is_of(page.buffer()) && page.valid & bit(block) != 0;
        if !same {
            return None;
        }
        let dirty = page.dirty & bit(block) != 0;
        if !dirty {
            page.valid &= !bit(block);
            page.fetched &= !bit(block);
        }
        let error = self.memory_fault(StoreError::memory(&key, blocks.chunk, block, dirty));
        Some(if dirty {
            self.signals.room.notify_waiters();
            state.fail_memory(error)
        } else {
            error
        })
    }

    /// Counts and tells what memory did.
    pub(crate) fn memory_fault(&self, error: StoreError) -> StoreError {
        Counters::add(&self.counters.memory_faults, 1);
        tracing::error!(%error, "this machine's memory is not to be relied upon");
        error
    }
}
