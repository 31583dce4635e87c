//! The free blocks of one disk, as extents.

use std::collections::BTreeMap;

use super::extent::Extent;
use crate::limits::{EXTENTS_SEARCHED, LARGE_EXTENT};
use crate::record::Place;

/// The free blocks of one disk; numbers count from the disk's first block.
#[derive(Debug, Default)]
pub(super) struct FreeBlocks {
    extents: BTreeMap<u64, u64>,
    count: u64,
    /// Blocks of large extents.
    large: u64,
    size: u64,
    cursor: u64,
}

impl FreeBlocks {
    /// Blocks that are free.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Free blocks in large extents.
    pub(super) fn large(&self) -> u64 {
        self.large
    }

    fn insert(&mut self, start: u64, blocks: u64) {
        self.extents.insert(start, blocks);
        self.large += if blocks >= LARGE_EXTENT { blocks } else { 0 };
    }

    fn remove(&mut self, start: u64) {
        let blocks = self.extents.remove(&start).unwrap_or(0);
        self.large -= if blocks >= LARGE_EXTENT { blocks } else { 0 };
    }

    /// The lowest extents, up to `most` blocks and `examined` of them; they stay free.
    pub(super) fn lowest(&self, mut most: u64, examined: usize) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        for (&from, &blocks) in self.extents.iter().take(examined) {
            if most == 0 {
                break;
            }
            found.push((from, blocks.min(most)));
            most -= blocks.min(most);
        }
        found
    }

    /// Takes the highest large (or small) extents below block `before`, up to `most` blocks;
    /// examines at most `examined` extents. Also returns the block below which the next search
    /// continues.
    pub(super) fn take_highest(
        &mut self,
        large: bool,
        mut most: u64,
        before: u64,
        examined: usize,
    ) -> (Vec<(u64, u64)>, u64) {
        let (mut found, mut reached) = (Vec::new(), 0);
        for (at, (&from, &blocks)) in self.extents.range(..before).rev().enumerate() {
            if most == 0 {
                break;
            }
            if at == examined {
                reached = from + blocks;
                break;
            }
            if (blocks >= LARGE_EXTENT) == large {
                let part = blocks.min(most);
                found.push((from + blocks - part, part));
                most -= part;
                // The next step takes the rest of it.
                reached = if most == 0 { from + blocks - part } else { 0 };
            }
        }
        for (start, blocks) in &found {
            assert!(self.claim(*start, *blocks), "it was found a moment ago");
        }
        (found, reached)
    }

    /// Blocks the disk has.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The disk has this many blocks now.
    pub(super) fn grow(&mut self, size: u64) {
        if size > self.size {
            let from = std::mem::replace(&mut self.size, size);
            self.free(from, size - from);
        }
    }

    /// Makes blocks free.
    pub(super) fn free(&mut self, mut start: u64, mut blocks: u64) {
        if blocks == 0 {
            return;
        }
        self.count += blocks;
        if let Some((&before, &length)) = self.extents.range(..start).next_back() {
            assert!(before + length <= start, "block {start} was freed twice");
            if before + length == start {
                self.remove(before);
                start = before;
                blocks += length;
            }
        }
        if let Some((&after, &length)) = self.extents.range(start..).next() {
            assert!(start + blocks <= after, "block {after} was freed twice");
            if start + blocks == after {
                self.remove(after);
                blocks += length;
            }
        }
        self.insert(start, blocks);
    }

    /// Whether a block is free.
    pub(super) fn has(&self, block: u64) -> bool {
        let before = self.extents.range(..=block).next_back();
        before.is_some_and(|(from, length)| block < from + length)
    }

    /// Takes exactly these blocks; false if one of them is not free.
    pub(super) fn claim(&mut self, start: u64, blocks: u64) -> bool {
        let Some((&from, &length)) = self.extents.range(..=start).next_back() else {
            return false;
        };
        if start + blocks > from + length {
            return false;
        }
        self.split(from, length, start, blocks);
        true
    }

    /// Takes all of these ascending extents of a disk without a taken block; fails with the first
    /// one that overlaps another or the disk's end.
    pub(super) fn claim_all(&mut self, taken: &[Extent]) -> Result<(), Extent> {
        let mut at = 0;
        let mut free = Vec::new();
        for extent in taken {
            let start = Place(extent.start).block();
            if start < at || start + extent.blocks > self.size {
                return Err(*extent);
            }
            free.push((at, start - at));
            at = start + extent.blocks;
        }
        free.push((at, self.size - at));
        free.retain(|(_, blocks)| *blocks > 0);
        self.count = free.iter().map(|(_, blocks)| blocks).sum();
        let large = free.iter().map(|(_, blocks)| *blocks);
        self.large = large.filter(|blocks| *blocks >= LARGE_EXTENT).sum();
        self.extents = free.into_iter().collect();
        Ok(())
    }

    fn split(&mut self, from: u64, length: u64, start: u64, blocks: u64) {
        self.remove(from);
        if start > from {
            self.insert(from, start - from);
        }
        let (end, taken) = (from + length, start + blocks);
        if end > taken {
            self.insert(taken, end - taken);
        }
        self.count -= blocks;
    }

    /// Takes up to `want` consecutive blocks: at `goal` if that is free, else from the first extent
    /// after the last search that is long enough, or the longest one examined. `None` if no block
    /// is free.
    pub(super) fn pick(&mut self, want: u64, goal: Option<u64>) -> Option<(u64, u64)> {
        let at_goal = goal.and_then(|goal| {
            let (&from, &length) = self.extents.range(..=goal).next_back()?;
            (goal < from + length).then_some((from, length, goal))
        });
        let (from, length, start) = at_goal.or_else(|| self.search(want))?;
        let blocks = want.min(from + length - start);
        self.split(from, length, start, blocks);
        self.cursor = start + blocks;
        Some((start, blocks))
    }

    fn search(&self, want: u64) -> Option<(u64, u64, u64)> {
        let mut best: Option<(u64, u64)> = None;
        let ahead = self.extents.range(self.cursor..);
        let all = ahead.chain(self.extents.range(..self.cursor));
        for (&from, &length) in all.take(EXTENTS_SEARCHED) {
            if best.is_none_or(|(_, most)| length > most) {
                best = Some((from, length));
            }
            if length >= want {
                break;
            }
        }
        best.map(|(from, length)| (from, length, from))
    }
}
