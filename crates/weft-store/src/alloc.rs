//! Which blocks of a disk are free.
//!
//! Extents in memory, rebuilt at open from what index and log refer to; nothing of it is durable.
//!
//! Invariants:
//! 1. A block is free, waiting, or referred to by one map (or one write under way): never two.
//! 2. `reserved` dirty blocks can always be placed: writes are refused before that is in doubt.
//! 3. A freed block is given out again only when a durable `Synced` record covers the record that
//!    freed it ([`Allocator::release`]): until then recovery may still need its content.

use std::collections::{BTreeMap, VecDeque};

/// Consecutive blocks of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) blocks: u64,
}

/// How many free extents one allocation looks at before it takes the best of them.
const LOOK: usize = 32;

/// Blocks that writes cannot have: cutting a fork dirties the block that it cuts, even on a full
/// disk.
const HELD_BACK: u64 = 64;

/// The free blocks of one disk.
#[derive(Debug, Default)]
pub(crate) struct Allocator {
    free: BTreeMap<u64, u64>,
    free_blocks: u64,
    waiting: VecDeque<(u64, Extent)>,
    waiting_blocks: u64,
    reserved: u64,
    /// Blocks the disk's file has.
    blocks: u64,
    cursor: u64,
}

impl Allocator {
    /// Blocks that writes may still take.
    pub(crate) fn available(&self) -> u64 {
        let held_back = (self.blocks / 64).min(HELD_BACK);
        self.free_blocks.saturating_sub(self.reserved + held_back)
    }

    /// Blocks that wait for a sync before they can be used again.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting_blocks
    }

    /// Blocks the disk's file has.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Blocks in use or promised.
    pub(crate) fn used(&self) -> u64 {
        self.blocks - self.free_blocks - self.waiting_blocks + self.reserved.min(self.free_blocks)
    }

    /// Whether this many blocks can be promised, those held back included.
    pub(crate) fn can_promise(&self, blocks: u64) -> bool {
        blocks == 0 || self.reserved + blocks <= self.free_blocks
    }

    /// Promises blocks to pages that become dirty.
    pub(crate) fn reserve(&mut self, blocks: u64) {
        self.reserved += blocks;
    }

    /// Takes promises back.
    pub(crate) fn unreserve(&mut self, blocks: u64) {
        self.reserved = self
            .reserved
            .checked_sub(blocks)
            .expect("every promise is taken back once");
    }

    /// The disk's file has grown.
    pub(crate) fn grow(&mut self, blocks: u64) {
        if blocks > self.blocks {
            let start = self.blocks;
            self.blocks = blocks;
            self.free(Extent {
                start,
                blocks: blocks - start,
            });
        }
    }

    /// Makes `blocks` free at once: nothing durable refers to them.
    pub(crate) fn free(&mut self, extent: Extent) {
        let Extent {
            mut start,
            mut blocks,
        } = extent;
        if blocks == 0 {
            return;
        }
        self.free_blocks += blocks;
        if let Some((&before, &length)) = self.free.range(..start).next_back() {
            assert!(before + length <= start, "block {start} was freed twice");
            if before + length == start {
                self.free.remove(&before);
                start = before;
                blocks += length;
            }
        }
        if let Some((&after, &length)) = self.free.range(start..).next() {
            assert!(start + blocks <= after, "block {after} was freed twice");
            if start + blocks == after {
                self.free.remove(&after);
                blocks += length;
            }
        }
        self.free.insert(start, blocks);
    }

    /// Blocks that the record of `sequence` freed.
    pub(crate) fn free_after(&mut self, sequence: u64, extent: Extent) {
        self.waiting_blocks += extent.blocks;
        if let Some((s, last)) = self.waiting.back_mut()
            && *s == sequence
            && last.start + last.blocks == extent.start
        {
            last.blocks += extent.blocks;
            return;
        }
        self.waiting.push_back((sequence, extent));
    }

    /// A `Synced` record that covers everything up to `sequence` is durable.
    pub(crate) fn release(&mut self, sequence: u64) {
        while let Some((_, extent)) = self.waiting.pop_front_if(|(s, _)| *s <= sequence) {
            self.waiting_blocks -= extent.blocks;
            self.free(extent);
        }
    }

    /// Takes these very blocks, for a map found at open; false when one of them is not free.
    pub(crate) fn claim(&mut self, extent: Extent) -> bool {
        let Extent { start, blocks } = extent;
        let Some((&from, &length)) = self.free.range(..=start).next_back() else {
            return false;
        };
        if start + blocks > from + length {
            return false;
        }
        self.cut(from, length, start, blocks);
        true
    }

    fn cut(&mut self, from: u64, length: u64, start: u64, blocks: u64) {
        self.free.remove(&from);
        if start > from {
            self.free.insert(from, start - from);
        }
        let (end, taken) = (from + length, start + blocks);
        if end > taken {
            self.free.insert(taken, end - taken);
        }
        self.free_blocks -= blocks;
    }

    /// Takes blocks that writes may have, near `goal`; `None` when there are too few.
    pub(crate) fn take(&mut self, blocks: u64, goal: u64) -> Option<Vec<Extent>> {
        (blocks <= self.available()).then(|| self.gather(blocks, goal))
    }

    /// Takes blocks promised before by [`Allocator::reserve`].
    pub(crate) fn take_reserved(&mut self, blocks: u64, goal: u64) -> Option<Vec<Extent>> {
        if blocks > self.free_blocks {
            return None;
        }
        self.unreserve(blocks);
        Some(self.gather(blocks, goal))
    }

    fn gather(&mut self, mut blocks: u64, goal: u64) -> Vec<Extent> {
        let mut found = Vec::new();
        let mut goal = goal;
        while blocks > 0 {
            let extent = self.pick(blocks, goal);
            blocks -= extent.blocks;
            goal = extent.start + extent.blocks;
            found.push(extent);
        }
        self.cursor = goal;
        found
    }

    fn pick(&mut self, want: u64, goal: u64) -> Extent {
        if let Some((&from, &length)) = self.free.range(..=goal).next_back()
            && goal < from + length
        {
            let blocks = want.min(from + length - goal);
            self.cut(from, length, goal, blocks);
            return Extent {
                start: goal,
                blocks,
            };
        }
        let mut best: Option<(u64, u64)> = None;
        let ahead = self.free.range(self.cursor..);
        for (&from, &length) in ahead.chain(self.free.range(..self.cursor)).take(LOOK) {
            if best.is_none_or(|(_, l)| length > l) {
                best = Some((from, length));
            }
            if length >= want {
                break;
            }
        }
        let (from, length) = best.expect("the caller counted the free blocks");
        let blocks = want.min(length);
        self.cut(from, length, from, blocks);
        Extent {
            start: from,
            blocks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_blocks_wait_for_a_durable_synced_record() {
        let mut disk = Allocator::default();
        disk.grow(10);
        assert_eq!(
            disk.take(10, 0),
            Some(vec![Extent {
                start: 0,
                blocks: 10
            }])
        );
        disk.free_after(
            5,
            Extent {
                start: 2,
                blocks: 3,
            },
        );
        disk.free_after(
            7,
            Extent {
                start: 5,
                blocks: 1,
            },
        );
        assert_eq!(disk.take(1, 0), None);
        disk.release(6);
        assert_eq!((disk.available(), disk.waiting()), (3, 1));
        disk.release(7);
        assert_eq!(
            disk.take(4, 2),
            Some(vec![Extent {
                start: 2,
                blocks: 4
            }])
        );
    }

    #[test]
    fn promised_blocks_are_not_given_to_others() {
        let mut disk = Allocator::default();
        disk.grow(4);
        disk.reserve(3);
        assert_eq!(disk.take(2, 0), None);
        assert!(disk.take(1, 0).is_some());
        assert!(disk.take_reserved(3, 0).is_some());
        assert_eq!(disk.available(), 0);
    }

    #[test]
    fn a_block_is_claimed_once() {
        let mut disk = Allocator::default();
        disk.grow(8);
        assert!(disk.claim(Extent {
            start: 2,
            blocks: 4
        }));
        assert!(!disk.claim(Extent {
            start: 5,
            blocks: 1
        }));
        assert!(!disk.claim(Extent {
            start: 7,
            blocks: 2
        }));
        assert_eq!(disk.available(), 4);
    }
}
