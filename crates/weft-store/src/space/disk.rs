//! The free blocks of one disk.

use super::free::FreeBlocks;

/// The free blocks of one disk, by kind.
#[derive(Debug, Default)]
pub(super) struct DiskSpace {
    pub(super) free: FreeBlocks,
    /// Free blocks that were punched out.
    pub(super) holes: FreeBlocks,
    /// Free blocks that may be punched out or not.
    pub(super) unsure: FreeBlocks,
    /// Free blocks that are in windows.
    pub(super) windowed: u64,
    /// Blocks by which it can still grow, as last checked, including unbacked ones.
    pub(super) growth: u64,
    /// It gets no new data.
    pub(super) closed: bool,
    /// It is missing: claims of its blocks are accepted unchecked.
    pub(super) missing: bool,
    /// Its credit for the next turn.
    pub(super) turn: i128,
}

impl DiskSpace {
    pub(super) fn usable(&self) -> u64 {
        self.free.count() + self.windowed
    }
}

impl DiskSpace {
    /// Free blocks that the host may not back.
    pub(super) fn unbacked(&self) -> u64 {
        self.holes.count() + self.unsure.count()
    }

    /// Takes free blocks of any kind.
    pub(super) fn claim(&mut self, start: u64, blocks: u64) -> bool {
        [&mut self.free, &mut self.holes, &mut self.unsure]
            .into_iter()
            .any(|set| set.claim(start, blocks))
    }

    pub(super) fn is_free(&self, block: u64) -> bool {
        [&self.free, &self.holes, &self.unsure]
            .iter()
            .any(|set| set.has(block))
    }
}
