//! The allocator: free blocks of all disks, promises to dirty pages, and freed blocks that wait for
//! a sync.

use std::collections::{BTreeMap, VecDeque};

use super::disk::DiskSpace;
use super::extent::{AllocHint, Extent};
use super::windows::Windows;
use crate::limits::RESERVE_BLOCKS_MAX;
use crate::record::Place;

/// The reserve of `size` blocks.
fn reserve(size: u64) -> u64 {
    (size / 64).min(RESERVE_BLOCKS_MAX)
}

/// The free blocks of all disks.
#[derive(Debug, Default)]
pub(crate) struct Allocator {
    pub(super) disks: BTreeMap<u16, DiskSpace>,
    pub(super) windows: Windows,
    pub(super) waiting: VecDeque<(u64, Extent)>,
    pub(super) waiting_blocks: u64,
    pub(super) reserved: u64,
}

impl Allocator {
    pub(super) fn open_disks(&self) -> impl Iterator<Item = &DiskSpace> {
        self.disks.values().filter(|d| !d.closed)
    }

    pub(super) fn usable(&self) -> u64 {
        self.open_disks().map(DiskSpace::usable).sum()
    }

    /// Blocks that writes can still take.
    pub(crate) fn available(&self) -> u64 {
        let (mut usable, mut size) = (0, 0);
        for disk in self.open_disks() {
            usable += disk.usable();
            size += disk.free.size();
        }
        usable.saturating_sub(self.reserved + reserve(size))
    }

    /// Whether a disk that cannot grow is full: it has no more than its share of the reserve,
    /// including freed blocks that wait for a sync, or all blocks are promised.
    pub(crate) fn is_full(&self, number: u16) -> bool {
        let Some(disk) = self.disks.get(&number) else {
            return false;
        };
        if self.available() + self.waiting_blocks == 0 {
            return true;
        }
        let size: u64 = self.open_disks().map(|d| d.free.size()).sum();
        let share = (reserve(size) * disk.free.size()).div_ceil(size.max(1));
        let waiting = || {
            let extents = self.waiting.iter().map(|(_, extent)| extent);
            extents
                .filter(|e| e.disk() == number)
                .map(|e| e.blocks)
                .sum::<u64>()
        };
        disk.usable() <= share && disk.usable() + waiting() <= share
    }

    /// Freed blocks that wait for a sync before they can be reused.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting_blocks
    }

    /// Blocks in use or promised.
    pub(crate) fn used(&self) -> u64 {
        let there = self.disks.values().filter(|d| !d.missing);
        let taken = there.map(|d| d.free.size() - d.usable() - d.unbacked());
        let taken: u64 = taken.sum();
        taken.saturating_sub(self.waiting_blocks) + self.reserved.min(self.usable())
    }

    /// A disk's blocks: all of them, and the free ones that are backed by the host.
    pub(crate) fn of_disk(&self, disk: u16) -> (u64, u64) {
        let disk = self.disks.get(&disk).filter(|d| !d.missing);
        disk.map_or((0, 0), |d| (d.free.size(), d.usable()))
    }

    /// Whether this many blocks can be promised, including the reserve.
    pub(crate) fn can_promise(&self, blocks: u64) -> bool {
        blocks == 0 || self.reserved + blocks <= self.usable()
    }

    /// Whether every promise can be kept.
    pub(crate) fn keeps_promises(&self) -> bool {
        self.reserved <= self.usable()
    }

    /// Blocks promised.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Promises blocks to dirty pages.
    pub(crate) fn reserve(&mut self, blocks: u64) {
        self.reserved += blocks;
    }

    /// Cancels promises.
    pub(crate) fn unreserve(&mut self, blocks: u64) {
        self.reserved = self
            .reserved
            .checked_sub(blocks)
            .expect("every promise is taken back once");
    }

    /// The disk's file has this many blocks and can grow by `growth` more.
    pub(crate) fn grow(&mut self, disk: u16, blocks: u64, growth: u64) {
        let disk = self.disks.entry(disk).or_default();
        disk.free.grow(blocks);
        disk.growth = growth;
    }

    /// The disk gets no new data from now on.
    pub(crate) fn close(&mut self, number: u16) {
        self.disks.entry(number).or_default().closed = true;
        for window in self.windows.remove_of(number) {
            self.return_window(window);
        }
    }

    /// The disk is missing.
    pub(crate) fn mark_missing(&mut self, number: u16) {
        let disk = self.disks.entry(number).or_default();
        (disk.closed, disk.missing) = (true, true);
    }

    /// Disks that get new data.
    pub(crate) fn open(&self) -> Vec<u16> {
        let open = self.disks.iter().filter(|(_, d)| !d.closed);
        open.map(|(number, _)| *number).collect()
    }

    /// Frees blocks at once: nothing durable refers to them.
    pub(crate) fn free(&mut self, extent: Extent) {
        let disk = self.disks.entry(extent.disk()).or_default();
        if !disk.missing {
            let start = Place(extent.start).block();
            disk.free.free(start, extent.blocks);
        }
    }

    /// Frees blocks once the frame of `sequence` is durable, with a `Synced` record that covers it.
    pub(crate) fn free_after(&mut self, sequence: u64, extent: Extent) {
        if self.disks.get(&extent.disk()).is_none_or(|d| d.missing) {
            return;
        }
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

    /// Takes exactly these blocks, for a map found at open; false if one of them is not free.
    pub(crate) fn claim(&mut self, extent: Extent) -> bool {
        match self.disks.get_mut(&extent.disk()) {
            Some(disk) if disk.missing => true,
            Some(disk) => disk.claim(Place(extent.start).block(), extent.blocks),
            None => false,
        }
    }

    /// Whether a block is free.
    pub(crate) fn is_free(&self, place: Place) -> bool {
        let disk = self.disks.get(&place.disk());
        disk.is_some_and(|disk| !disk.missing && disk.is_free(place.block()))
    }

    /// Takes all blocks that maps refer to, on disks without a taken block: one pass in order
    /// instead of a search for each. On failure returns an extent that two maps refer to, or that
    /// is beyond its disk's end.
    pub(crate) fn claim_all(&mut self, mut taken: Vec<Extent>) -> Result<(), Extent> {
        taken.sort_unstable_by_key(|e| e.start);
        let mut rest = taken.as_slice();
        while let Some(first) = rest.first() {
            let number = first.disk();
            let (here, others) = rest.split_at(rest.partition_point(|e| e.disk() == number));
            rest = others;
            let disk = self.disks.get_mut(&number).ok_or(*first)?;
            if !disk.missing {
                disk.free.claim_all(here)?;
            }
        }
        Ok(())
    }

    /// Takes blocks for a write; `None` if there are too few.
    pub(crate) fn take(&mut self, blocks: u64, hint: AllocHint) -> Option<Vec<Extent>> {
        (blocks <= self.available()).then(|| self.gather(blocks, hint))
    }

    /// Takes blocks promised before by [`Allocator::reserve`].
    pub(crate) fn take_reserved(&mut self, blocks: u64, hint: AllocHint) -> Option<Vec<Extent>> {
        if blocks > self.usable() {
            return None;
        }
        self.unreserve(blocks);
        Some(self.gather(blocks, hint))
    }

    /// The caller has checked that there are enough.
    fn gather(&mut self, mut blocks: u64, mut hint: AllocHint) -> Vec<Extent> {
        let mut found: Vec<Extent> = Vec::new();
        while blocks > 0 {
            let part = match hint.fork.and_then(|f| self.windows.take(f, blocks)) {
                Some(part) => {
                    let disk = self.disks.get_mut(&part.disk());
                    disk.expect("a window is on a disk").windowed -= part.blocks;
                    part
                }
                None => self.fresh(blocks, hint),
            };
            blocks -= part.blocks;
            hint.held += part.blocks;
            hint.goal = part.start + part.blocks;
            match found.last_mut() {
                Some(last) if last.start + last.blocks == part.start => last.blocks += part.blocks,
                _ => found.push(part),
            }
        }
        found
    }
}
