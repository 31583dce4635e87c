//! Buffered writes: copying small pieces into dirty pages, block by block, so that the cost of a
//! block is paid once for all its pieces.

use std::slice;

use weft_layout::{CellOffset, Strided, copy_strided};

use super::checksum::BatchChecksum;
use crate::engine::Inner;
use crate::key::Run;
use crate::pool::{BLOCK, BUFFER_BLOCKS_MAX};
use crate::record::{self, ForkId, end_is_legal};
use crate::state::{BlockChange, StoreState};

/// Pieces further apart than this share no page.
const SPARSE: u64 = 4 * BLOCK as u64;

/// One block of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockAt {
    pub(crate) chunk: u64,
    /// In the chunk.
    pub(crate) block: u32,
    /// Bytes of the fork; the last block of a chunk may be short.
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Pieces that lie in one block, or the share of one piece that does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment {
    pub(crate) place: BlockAt,
    /// Their offsets in the block.
    to: Strided,
    /// The offset of the first in the data.
    at: usize,
    length: usize,
    count: usize,
    /// The last block of the chunk that the run reaches, if it is dense.
    last: u32,
}

impl Fragment {
    /// Bytes of all its pieces.
    fn bytes(&self) -> u32 {
        (self.length * self.count) as u32
    }

    /// The change that it makes to its block.
    fn change(&self) -> BlockChange {
        BlockChange {
            chunk: self.place.chunk,
            block: self.place.block,
            last: self.last,
            held: (self.place.end - self.place.start) as usize,
            whole: self.whole(),
            bytes: self.bytes(),
        }
    }

    /// Marks its bytes of the block.
    pub(crate) fn mark(&self, block: &mut [bool; BLOCK]) {
        for n in 0..self.count {
            let at = self.to.at + n * self.to.step.unsigned_abs();
            block[at..at + self.length].fill(true);
        }
    }

    /// Whether it is the whole block.
    pub(crate) fn whole(&self) -> bool {
        self.count == 1 && self.length as u64 == self.place.end - self.place.start
    }
}

/// The fragments of runs, in order.
pub(crate) struct Fragments<'a> {
    size: u64,
    runs: slice::Iter<'a, Run>,
    /// The rest of the current run.
    run: Run,
    /// Bytes of its first piece that earlier fragments covered.
    passed: u64,
    place: BlockAt,
}

impl<'a> Fragments<'a> {
    /// The fragments of runs in a fork of this chunk size.
    pub(crate) fn new(size: u32, runs: &'a [Run]) -> Self {
        Self {
            size: u64::from(size),
            runs: runs.iter(),
            run: Run::one(0, 0, 0),
            passed: 0,
            place: BlockAt {
                chunk: 0,
                block: 0,
                start: 1,
                end: 0,
            },
        }
    }

    fn place_of(&self, offset: u64) -> BlockAt {
        let chunk = offset / self.size;
        let origin = chunk * self.size;
        let block = (offset - origin) / BLOCK as u64;
        let start = block * BLOCK as u64;
        BlockAt {
            chunk,
            block: block as u32,
            start: origin + start,
            end: origin + self.size.min(start + BLOCK as u64),
        }
    }

    fn last_block(&self, run: &Run) -> u32 {
        let chunk_end = (self.place.chunk + 1) * self.size;
        if run.count > 1 && run.stride > SPARSE {
            return self.place.block;
        }
        let last = run.end().min(chunk_end) - 1;
        ((last - self.place.chunk * self.size) / BLOCK as u64) as u32
    }
}

impl Iterator for Fragments<'_> {
    type Item = Fragment;

    #[inline]
    fn next(&mut self) -> Option<Fragment> {
        if self.run.count == 0 {
            self.run = *self.runs.next()?;
        }
        let offset = self.run.offset.0 + self.passed;
        if offset < self.place.start || offset >= self.place.end {
            self.place = self.place_of(offset);
        }
        let (run, left) = (self.run, self.place.end - offset);
        let last = self.last_block(&run);
        let to = Strided {
            at: (offset - self.place.start) as usize,
            step: run.stride.cast_signed() as isize,
        };
        let place = self.place;
        let fragment = |at, length, count| Fragment {
            place,
            to,
            at,
            length,
            count,
            last,
        };
        let rest = run.length - self.passed;
        let at = run.at + self.passed as usize;
        if rest > left {
            self.passed += left;
            return Some(fragment(at, left as usize, 1));
        }
        let count = if self.passed > 0 || run.count == 1 {
            1
        } else {
            ((left - rest) / run.stride + 1).min(run.count)
        };
        self.passed = 0;
        self.run = run.after(count);
        Some(fragment(at, rest as usize, count as usize))
    }
}

impl Inner {
    /// Copies bytes into dirty pages. Blocks that they cover only partly are in memory.
    pub(crate) fn buffer_bytes(
        &self,
        state: &mut StoreState,
        id: ForkId,
        size: u32,
        offset: u64,
        data: &[u8],
    ) {
        let run = Run::one(offset, 0, data.len() as u64);
        self.buffer_runs(state, id, size, &[run], data, &mut BatchChecksum::of(None));
    }

    /// As [`Inner::buffer_bytes`], of many pieces; adds those that are whole blocks to `checksum`.
    /// No run is empty.
    pub(crate) fn buffer_runs(
        &self,
        state: &mut StoreState,
        id: ForkId,
        size: u32,
        runs: &[Run],
        data: &[u8],
        checksum: &mut BatchChecksum,
    ) {
        let mut fragments = Fragments::new(size, runs);
        let mut next = fragments.next();
        while let Some(first) = next {
            let place = first.place;
            let (page, carry) = state.change_block(self.pool(), id, &first.change());
            let in_slot = place.block % BUFFER_BLOCKS_MAX as u32;
            let block = page.block_mut(self.pool(), in_slot);
            let (mut now, mut single) = (first, true);
            loop {
                let from = Strided::packed(now.at, now.length);
                copy_strided(block, now.to, data, from, now.length, now.count);
                next = fragments.next();
                match next {
                    Some(more) if more.place == place => (now, single) = (more, false),
                    _ => break,
                }
            }
            let sum = record::checksum(block) ^ carry;
            page.set_sum(in_slot, sum);
            if single && first.length == BLOCK {
                checksum.add_block(first.at, sum);
            }
        }
    }
}

impl Run {
    /// One piece.
    pub fn one(offset: u64, at: usize, length: u64) -> Run {
        Run {
            offset: CellOffset(offset),
            at,
            length,
            count: u64::from(length > 0),
            stride: length.max(1),
        }
    }

    /// Appends a run if its bytes follow directly in the data and in the fork; returns whether they
    /// do.
    pub fn join(&mut self, next: &Run) -> bool {
        let single = |run: &Run| run.count == 1 || run.stride == run.length;
        let follows = self.at + self.bytes() as usize == next.at;
        let meets = single(self) && single(next) && self.end() == next.offset.0;
        if follows && meets {
            *self = Run::one(self.offset.0, self.at, self.bytes() + next.bytes());
        }
        follows && meets
    }

    /// Whether all its pieces lie below the largest offset of a fork.
    pub(crate) fn is_legal(&self) -> bool {
        let last = self
            .stride
            .checked_mul(self.count.saturating_sub(1))
            .and_then(|far| far.checked_add(self.offset.0));
        last.is_some_and(|last| end_is_legal(last, self.length))
    }

    /// One past the last piece's last byte in the fork.
    pub(crate) fn end(&self) -> u64 {
        self.offset.0 + self.stride * (self.count - 1) + self.length
    }

    /// All pieces but the first `n`.
    pub(crate) fn after(&self, n: u64) -> Run {
        Run {
            offset: CellOffset(self.offset.0 + self.stride * n),
            at: self.at + (self.length * n) as usize,
            count: self.count - n,
            ..*self
        }
    }

    /// Bytes of all pieces.
    pub(crate) fn bytes(&self) -> u64 {
        self.length * self.count
    }
}
