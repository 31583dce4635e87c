//! The free blocks of one disk.

use super::free::FreeBlocks;

/// One disk of the set.
#[derive(Debug, Default)]
pub(super) struct DiskSpace {
    pub(super) free: FreeBlocks,
    /// Free blocks that were punched out.
    pub(super) holes: FreeBlocks,
    /// Free blocks of which it is not known whether they were.
    pub(super) unsure: FreeBlocks,
    /// Free blocks that are in windows.
    pub(super) windowed: u64,
    /// Blocks that it could still grow by, as last heard, those without a sure place included.
    pub(super) growth: u64,
    /// It gets no new data.
    pub(super) closed: bool,
    /// It is not there: what is said of its blocks is believed.
    pub(super) missing: bool,
    /// How far its turn has come.
    pub(super) turn: i128,
}

impl DiskSpace {
    pub(super) fn usable(&self) -> u64 {
        self.free.count() + self.windowed
    }
}

impl DiskSpace {
    /// Free blocks without a sure place.
    pub(super) fn unbacked(&self) -> u64 {
        self.holes.count() + self.unsure.count()
    }

    /// Takes blocks that are free, wherever they are counted.
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
