//! Unbacked free blocks: punched out, or of a file that was found with holes, so that the host may
//! have no space for them.
//!
//! They count as growth of their disk: no write gets one before it is filled. The caller never
//! grows, fills and punches at the same time.

use super::allocator::Allocator;
use super::disk::DiskSpace;
use super::extent::Extent;
use crate::limits::EXTENTS_PER_STEP;
use crate::record::Place;

/// Free blocks that are not punched, for the next writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PunchReserve {
    /// In large extents.
    pub(crate) large: u64,
    /// In small ones: punching each costs a request.
    pub(crate) small: u64,
}

/// A walk over the free extents of a disk from its end: first the large ones, then the small ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PunchWalk {
    large: bool,
    before: u64,
}

impl PunchWalk {
    pub(crate) fn new() -> Self {
        Self {
            large: true,
            before: u64::MAX,
        }
    }
}

fn extents(number: u16, ranges: Vec<(u64, u64)>) -> Vec<Extent> {
    let extent = |(start, blocks)| Extent {
        start: u64::from(number) << 48 | start,
        blocks,
    };
    ranges.into_iter().map(extent).collect()
}

impl Allocator {
    /// Unbacked free blocks of a disk.
    pub(crate) fn unbacked(&self, number: u16) -> u64 {
        self.disks.get(&number).map_or(0, DiskSpace::unbacked)
    }

    /// Those of them that may be punched out or not.
    pub(crate) fn unsure(&self, number: u16) -> u64 {
        self.disks
            .get(&number)
            .map_or(0, |disk| disk.unsure.count())
    }

    /// The disk's file has holes at unknown offsets: all of its free blocks are unbacked.
    pub(crate) fn mark_unsure(&mut self, number: u16) {
        self.close_windows();
        let Some(disk) = self.disks.get_mut(&number) else {
            return;
        };
        for (start, blocks) in disk.free.lowest(u64::MAX, usize::MAX) {
            disk.free.claim(start, blocks);
            disk.unsure.free(start, blocks);
            disk.growth += blocks;
        }
    }

    /// Frees all windows: the store is idle.
    pub(crate) fn close_windows(&mut self) {
        for window in self.windows.remove_all() {
            self.return_window(window);
        }
    }

    /// The next free blocks to punch out, up to `most`; no write gets them from now on. `None` at
    /// the end of the walk; an empty list only says that this step found none.
    pub(crate) fn take_to_punch(
        &mut self,
        number: u16,
        keep: PunchReserve,
        most: u64,
        walk: &mut PunchWalk,
    ) -> Option<Vec<Extent>> {
        let disk = self.disks.get_mut(&number).filter(|d| !d.missing)?;
        loop {
            let (there, keep) = if walk.large {
                (disk.free.large(), keep.large)
            } else {
                (disk.free.count() - disk.free.large(), keep.small)
            };
            let most = most.min(there.saturating_sub(keep));
            if most > 0 && walk.before > 0 {
                let (ranges, before) =
                    disk.free
                        .take_highest(walk.large, most, walk.before, EXTENTS_PER_STEP);
                walk.before = before;
                for (start, blocks) in &ranges {
                    disk.holes.free(*start, *blocks);
                    disk.growth += blocks;
                }
                return Some(extents(number, ranges));
            }
            if !walk.large {
                return None;
            }
            *walk = PunchWalk {
                large: false,
                before: u64::MAX,
            };
        }
    }

    /// The next blocks that may be punched out or not; the caller punches them.
    pub(crate) fn take_unsure(&mut self, number: u16, most: u64) -> Vec<Extent> {
        let Some(disk) = self.disks.get_mut(&number) else {
            return Vec::new();
        };
        let ranges = disk.unsure.lowest(most, EXTENTS_PER_STEP);
        for (start, blocks) in &ranges {
            disk.unsure.claim(*start, *blocks);
            disk.holes.free(*start, *blocks);
        }
        extents(number, ranges)
    }

    /// A punch failed: the blocks may be punched out or not.
    pub(crate) fn mark_punch_unsure(&mut self, extent: Extent) {
        if let Some(disk) = self.disks.get_mut(&extent.disk()) {
            let start = Place(extent.start).block();
            if disk.holes.claim(start, extent.blocks) {
                disk.unsure.free(start, extent.blocks);
            }
        }
    }

    /// Blocks of a disk to be filled, up to `most`; they stay unbacked until [`Allocator::filled`].
    /// First those that may not be punched out.
    pub(crate) fn to_fill(&self, number: u16, most: u64) -> Vec<Extent> {
        let Some(disk) = self.disks.get(&number) else {
            return Vec::new();
        };
        let mut ranges = disk.unsure.lowest(most, EXTENTS_PER_STEP);
        let found: u64 = ranges.iter().map(|(_, blocks)| blocks).sum();
        ranges.extend(disk.holes.lowest(most - found, EXTENTS_PER_STEP));
        extents(number, ranges)
    }

    /// Blocks are backed again: writes can take them.
    pub(crate) fn filled(&mut self, extent: Extent) {
        if let Some(disk) = self.disks.get_mut(&extent.disk()) {
            let start = Place(extent.start).block();
            if disk.holes.claim(start, extent.blocks) || disk.unsure.claim(start, extent.blocks) {
                disk.free.free(start, extent.blocks);
                disk.growth = disk.growth.saturating_sub(extent.blocks);
            }
        }
    }
}
