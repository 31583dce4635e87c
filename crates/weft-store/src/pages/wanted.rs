//! A block that a call needs from the disk.

use crate::record::{ForkId, Place};

/// A block to be read from the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WantedBlock {
    pub(crate) id: ForkId,
    pub(crate) chunk: u64,
    pub(crate) block: u32,
    pub(crate) place: Place,
}
