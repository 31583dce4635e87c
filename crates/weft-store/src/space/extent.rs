//! Consecutive blocks, and hints for placing a fork's next ones.

use crate::record::Place;

/// Consecutive blocks of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first block's place, as a number.
    pub(crate) start: u64,
    pub(crate) blocks: u64,
}

impl Extent {
    pub(super) fn disk(self) -> u16 {
        Place(self.start).disk()
    }
}

/// A hint for placing blocks: the fork and its last place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AllocHint {
    /// The fork's id; `None`: a fork that does not exist yet.
    pub(crate) fork: Option<u64>,
    /// Blocks that the fork has.
    pub(crate) held: u64,
    /// The place after its last block; `u64::MAX`: none.
    pub(crate) goal: u64,
}
