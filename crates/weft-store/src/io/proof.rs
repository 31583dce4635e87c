//! That what is stored is what came: `docs/design/0014-checksums.md`.
//!
//! Whoever sent bytes summed them. Whole blocks are summed where they are kept, so for them the sum
//! of all follows from those of the blocks; pieces of blocks are summed where they came from, after
//! they were copied.

use std::ops::Range;

use weft_sum::Sums;

use super::direct::Prepared;
use crate::error::StoreError;
use crate::key::Scattered;
use crate::pool::BLOCK;

/// The sum that the data of a batch had where it came from, and what is known of it here.
pub(crate) struct Proof {
    sums: Option<Sums>,
    /// Bytes that were summed as blocks: where they begin in the data, how many, their sum.
    blocks: Vec<(usize, usize, u32)>,
}

impl Proof {
    /// Of a batch of which nothing is prepared yet.
    pub(crate) fn of(sums: Option<Sums>) -> Self {
        let blocks = Vec::new();
        Self { sums, blocks }
    }

    /// Takes in blocks prepared from the data, where byte `offset` of the fork is at `at`.
    pub(crate) fn take(&mut self, size: u32, offset: u64, at: usize, prepared: &[Prepared]) {
        if self.sums.is_none() {
            return;
        }
        for p in prepared {
            let start = p.chunk * u64::from(size) + u64::from(p.first) * BLOCK as u64;
            // A last block that is short is padded, which is not in the data.
            let room = (size - p.first * BLOCK as u32) as usize / BLOCK;
            let blocks = &p.blocks[..p.blocks.len().min(room)];
            let join = |sum, block: &(_, u32)| weft_sum::joined(sum, block.1, BLOCK);
            let sum = blocks.iter().fold(0, join);
            let from = at + (start - offset) as usize;
            self.blocks.push((from, blocks.len() * BLOCK, sum));
        }
    }

    /// Takes in a block of a dirty page, which was copied from `at`.
    pub(crate) fn put(&mut self, at: usize, sum: u32) {
        if self.sums.is_some() {
            self.blocks.push((at, BLOCK, sum));
        }
    }

    /// The sum that a part of the data must have for the proof to hold, where that is known: where
    /// it is all of it.
    pub(crate) fn of_all(&self, data: &[u8], part: &Range<usize>) -> Option<u32> {
        let sums = self.sums.as_ref().filter(|_| *part == (0..data.len()));
        sums.map(Sums::all)
    }

    /// The sum of the block of the data at `at`, if it was computed when the data arrived.
    pub(crate) fn block(&self, at: usize) -> Option<u32> {
        self.sums.as_ref()?.block(at)
    }

    /// Whether blocks were summed.
    pub(crate) fn has_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Refuses what does not have the sum that it had; `closes`: it has taken effect already, but
    /// not in the log, and the store must not go on.
    pub(crate) fn check(&self, writes: &[Scattered], closes: bool) -> Result<(), StoreError> {
        let sum = self.sums.as_ref().map(Sums::all);
        let (Some(sum), Some(first)) = (sum, writes.first()) else {
            return Ok(());
        };
        let same = |w: &Scattered| w.data.as_ptr() == first.data.as_ptr();
        debug_assert!(writes.iter().all(same), "the sum is one of one buffer");
        if self.sum_of(&first.data) == sum {
            return Ok(());
        }
        let offset = first.runs.first().map_or(0, |run| run.offset.0);
        let (chunk, within) = (
            offset / u64::from(first.chunk),
            offset % u64::from(first.chunk),
        );
        let at = (within / BLOCK as u64) as u32;
        Err(StoreError::memory(&first.key, chunk, at, closes))
    }

    fn sum_of(&self, data: &[u8]) -> u32 {
        let mut blocks = self.blocks.clone();
        blocks.sort_unstable();
        let (mut sum, mut at) = (0, 0);
        let mut add = |of, length| sum = weft_sum::joined(sum, of, length);
        for (from, length, of) in blocks {
            // What was written twice in one batch was summed twice.
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
