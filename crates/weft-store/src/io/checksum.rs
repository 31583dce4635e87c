//! The end-to-end checksum of a batch: what is stored is what was sent
//! (`docs/design/0014-checksums.md`).
//!
//! The sender computed a checksum of the data. Whole blocks are summed in the memory where they are
//! stored, and the checksum of all data follows from theirs; smaller pieces are summed in the
//! memory that they came from, after they were copied.

use std::ops::Range;

use weft_sum::Sums;

use super::direct::PreparedBlocks;
use crate::error::StoreError;
use crate::key::Scattered;
use crate::pool::BLOCK;

/// How far a batch has come when its checksum is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// It has taken effect in memory, but is not in the log.
    InMemory,
}

/// The sums that the sender computed of a batch's data, and those computed here.
pub(crate) struct BatchChecksum {
    sums: Option<Sums>,
    /// Bytes that were summed as blocks: their offset in the data, their length, their sum.
    blocks: Vec<(usize, usize, u32)>,
}

impl BatchChecksum {
    /// For a batch of which nothing is prepared yet.
    pub(crate) fn of(sums: Option<Sums>) -> Self {
        let blocks = Vec::new();
        Self { sums, blocks }
    }

    /// Adds blocks that were prepared from the data, where byte `offset` of the fork is at `at`.
    pub(crate) fn add_prepared(
        &mut self,
        size: u32,
        offset: u64,
        at: usize,
        prepared: &[PreparedBlocks],
    ) {
        if self.sums.is_none() {
            return;
        }
        for p in prepared {
            let start = p.chunk * u64::from(size) + u64::from(p.first) * BLOCK as u64;
            // The padding of a short last block is not in the data.
            let whole = (size - p.first * BLOCK as u32) as usize / BLOCK;
            let blocks = &p.blocks[..p.blocks.len().min(whole)];
            let join = |sum, block: &(_, u32)| weft_sum::joined(sum, block.1, BLOCK);
            let sum = blocks.iter().fold(0, join);
            let from = at + (start - offset) as usize;
            self.blocks.push((from, blocks.len() * BLOCK, sum));
        }
    }

    /// Adds a block of a dirty page that was copied from offset `at` of the data.
    pub(crate) fn add_block(&mut self, at: usize, sum: u32) {
        if self.sums.is_some() {
            self.blocks.push((at, BLOCK, sum));
        }
    }

    /// The sum that the sender computed of a range of the data; `None` unless it is all of the
    /// data.
    pub(crate) fn of_whole(&self, data: &[u8], range: &Range<usize>) -> Option<u32> {
        let sums = self.sums.as_ref().filter(|_| *range == (0..data.len()));
        sums.map(Sums::all)
    }

    /// The sum of the block at offset `at` of the data, if it was computed when the data arrived.
    pub(crate) fn block(&self, at: usize) -> Option<u32> {
        self.sums.as_ref()?.block(at)
    }

    /// Whether any blocks were added.
    pub(crate) fn has_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Whether the data has the sum that the sender computed.
    ///
    /// # Errors
    /// [`StoreError::Memory`] if not. It closes the store if the batch has taken effect in memory.
    pub(crate) fn check(&self, writes: &[Scattered], effect: Effect) -> Result<(), StoreError> {
        let sum = self.sums.as_ref().map(Sums::all);
        let (Some(sum), Some(first)) = (sum, writes.first()) else {
            return Ok(());
        };
        let same = |w: &Scattered| w.data.as_ptr() == first.data.as_ptr();
        assert!(writes.iter().all(same), "the sum is that of one buffer");
        if self.sum_of(&first.data) == sum {
            return Ok(());
        }
        let offset = first.runs.first().map_or(0, |run| run.offset.0);
        let (chunk, within) = (
            offset / u64::from(first.chunk),
            offset % u64::from(first.chunk),
        );
        let at = (within / BLOCK as u64) as u32;
        let closes = effect == Effect::InMemory;
        Err(StoreError::memory(&first.key, chunk, at, closes))
    }

    fn sum_of(&self, data: &[u8]) -> u32 {
        let mut blocks = self.blocks.clone();
        blocks.sort_unstable();
        let (mut sum, mut at) = (0, 0);
        let mut add = |of, length| sum = weft_sum::joined(sum, of, length);
        for (from, length, of) in blocks {
            // Bytes that a batch writes twice were summed twice.
            if from < at {
                return weft_sum::of(data);
            }
            add(weft_sum::of(&data[at..from]), from - at);
            add(of, length);
            at = from + length;
        }
        add(weft_sum::of(&data[at..]), data.len() - at);
        sum
    }
}
