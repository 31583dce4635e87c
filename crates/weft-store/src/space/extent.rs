//! Consecutive blocks, and where a fork would like its next ones.

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

/// Who wants blocks, and where they would lie well.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AllocHint {
    /// The fork's id; `None`: a fork that is not there yet.
    pub(crate) fork: Option<u64>,
    /// Blocks the fork has.
    pub(crate) held: u64,
    /// The place behind its last one; `u64::MAX`: none.
    pub(crate) goal: u64,
}
