//! Chunks whose entries were seen with a lost block.

use std::collections::BTreeSet;

use crate::record::ForkId;

/// Chunks whose entries may say that blocks are lost.
#[derive(Debug, Default)]
pub(crate) struct LossyChunks(BTreeSet<(ForkId, u64)>);

impl LossyChunks {
    /// A chunk's entry says that a block is lost.
    pub(crate) fn insert(&mut self, id: ForkId, n: u64) {
        self.0.insert((id, n));
    }

    /// A chunk's entry says so no more.
    pub(crate) fn remove(&mut self, id: ForkId, n: u64) {
        self.0.remove(&(id, n));
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ForkId, u64)> {
        self.0.iter().copied()
    }
}
