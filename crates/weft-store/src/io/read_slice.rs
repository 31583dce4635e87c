//! Bytes on their way to a reader, with the sums under which they are stored
//! (`docs/design/0014-checksums.md`).
//!
//! A block's sum is computed when it is stored. A reader's bytes are compared with that sum, not
//! with one computed from the memory at that time: a caller that sends bytes on sends
//! [`ReadSlice::sum`], and calls [`Store::verify`] *after* the last use of the bytes. A page whose
//! bytes changed in memory is dropped and read again from the disk. If the disk does not have the
//! bytes yet, the store closes itself, because its log has them.

use std::cell::Cell;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytes::Bytes;

use crate::counters::Counters;
use crate::engine::{Inner, Store};
use crate::error::StoreError;
use crate::pool::{BLOCK, BUFFER_BLOCKS_MAX, Slice};
use crate::record::ForkId;
use crate::state::{ReadChunk, StoreState};

/// Consecutive bytes of a fork that were read: of one page, or of a hole.
#[derive(Clone, Debug)]
pub struct ReadSlice {
    bytes: Bytes,
    blocks: Option<Blocks>,
}

/// The whole blocks that a slice lies in.
#[derive(Clone, Debug)]
struct Blocks {
    slice: Slice,
    /// Bytes before the slice.
    before: usize,
    sums: [u32; BUFFER_BLOCKS_MAX],
    id: ForkId,
    chunk: u64,
    /// The number of the first block in the chunk.
    first: u32,
    /// Blocks that were used, a bit for each.
    used: Cell<u16>,
    /// Blocks that were verified when they were read from the disk, were not used since, and are
    /// sent only under that sum.
    fresh: Cell<u16>,
}

impl From<Bytes> for ReadSlice {
    /// Bytes that are not stored anywhere, such as zeros.
    fn from(bytes: Bytes) -> ReadSlice {
        let blocks = None;
        ReadSlice { bytes, blocks }
    }
}

impl Deref for ReadSlice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl ReadSlice {
    /// Bytes `range` of a chunk, all in valid blocks of one page.
    pub(crate) fn of(chunk: &mut ReadChunk<'_>, range: Range<u32>) -> Option<ReadSlice> {
        let (first, last) = (range.start / BLOCK as u32, (range.end - 1) / BLOCK as u32);
        let ((id, n), fresh) = (chunk.place_in_fork(), chunk.take_fresh(first, last));
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
        let bytes = from..from + range.len();
        Some(ReadSlice {
            bytes: Slice::new(Arc::clone(page.buffer()), bytes).into_bytes(),
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

    /// Returns a slice that no caller used: the next read of its blocks counts as the first.
    pub(crate) fn return_unused(self, state: &mut StoreState) {
        let Some(blocks) = self.blocks.filter(|blocks| blocks.fresh.get() != 0) else {
            return;
        };
        let (at, fresh) = ((blocks.id, blocks.chunk), blocks.fresh.get());
        state.return_fresh(at, blocks.first, fresh, &blocks.slice);
    }

    /// The bytes; they share the cache's memory.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Takes note that these bytes are used: [`Store::verify_used`] checks only the blocks that
    /// they lie in.
    pub fn mark_used(&self, range: Range<usize>) {
        if let Some(blocks) = self.blocks.as_ref().filter(|_| !range.is_empty()) {
            blocks.mark(range);
        }
    }

    /// Takes note that these bytes are used and are sent under the returned sum: their CRC-32C,
    /// from the stored sums of whole blocks, and computed for incomplete blocks.
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
    /// Takes note that these bytes of the slice are used under another sum than the stored ones.
    fn mark(&self, range: Range<usize>) {
        let first = (self.before + range.start) / BLOCK;
        let count = (self.before + range.end).div_ceil(BLOCK) - first;
        let marks = (((1_u32 << count) - 1) << first) as u16;
        self.used.set(self.used.get() | marks);
        self.fresh.set(self.fresh.get() & !marks);
    }

    /// The blocks of the chunk, among those in `checked`, whose bytes are not those that were
    /// stored.
    fn rotten(&self, checked: u16) -> Vec<u32> {
        let blocks = self.slice.chunks_exact(BLOCK).zip(self.sums).enumerate();
        blocks
            .filter(|(n, (bytes, sum))| checked >> n & 1 != 0 && weft_sum::of(bytes) != *sum)
            .map(|(n, _)| self.first + n as u32)
            .collect()
    }
}

impl Store {
    /// Whether slices that were read still are what was stored. If not, the changed blocks are
    /// dropped from the cache and the caller reads again, unless that was its `last` attempt.
    ///
    /// Cost: a sum over the blocks that the slices lie in.
    /// # Errors
    /// [`StoreError::Memory`] if the disk does not have the bytes yet, and after the last attempt.
    pub fn verify<'a>(
        &self,
        slices: impl IntoIterator<Item = &'a ReadSlice>,
        last: bool,
    ) -> Result<bool, StoreError> {
        self.verify_blocks(slices, last, |_| u16::MAX)
    }

    /// As [`Store::verify`], but only of bytes that [`ReadSlice::mark_used`] or [`ReadSlice::sum`]
    /// took note of: bytes that were read only because they lie in between are skipped. So are
    /// blocks that were just read from the disk and verified, and are sent under that very sum:
    /// their receiver sees any later change.
    ///
    /// # Errors
    /// As [`Store::verify`].
    pub fn verify_used<'a>(
        &self,
        slices: impl IntoIterator<Item = &'a ReadSlice>,
        last: bool,
    ) -> Result<bool, StoreError> {
        self.verify_blocks(slices, last, |blocks| {
            blocks.used.get() & !blocks.fresh.get()
        })
    }

    fn verify_blocks<'a>(
        &self,
        slices: impl IntoIterator<Item = &'a ReadSlice>,
        last: bool,
        checked: impl Fn(&Blocks) -> u16,
    ) -> Result<bool, StoreError> {
        let mut right = true;
        for blocks in slices.into_iter().filter_map(|slice| slice.blocks.as_ref()) {
            for block in blocks.rotten(checked(blocks)) {
                right = false;
                let error = self.0.drop_corrupted(blocks, block);
                if let Some(error) = error.filter(|e| last || e.closes()) {
                    return Err(error);
                }
            }
        }
        Ok(right)
    }
}

impl Inner {
    /// Drops a block whose bytes changed in memory; `None` if that was done before.
    fn drop_corrupted(&self, blocks: &Blocks, block: u32) -> Option<StoreError> {
        let mut state = self.lock();
        let key = state.forks().get(blocks.id)?.key().clone();
        let dirty = state.drop_corrupted((blocks.id, blocks.chunk), block, &blocks.slice)?;
        let error = self.memory_fault(StoreError::memory(&key, blocks.chunk, block, dirty));
        Some(if dirty {
            self.wake_waiting_calls();
            state.fail(error)
        } else {
            error
        })
    }

    /// Counts and logs a fault of this machine's memory.
    pub(crate) fn memory_fault(&self, error: StoreError) -> StoreError {
        Counters::add(&self.counters().memory_faults, 1);
        tracing::error!(%error, "this machine's memory is unreliable");
        error
    }
}
