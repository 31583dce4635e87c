//! Chunks with lost blocks.

use std::collections::BTreeSet;

use crate::record::ForkId;

/// Chunks whose entries may have lost blocks.
#[derive(Debug, Default)]
pub(crate) struct LossyChunks(BTreeSet<(ForkId, u64)>);

impl LossyChunks {
    /// A chunk's entry has a lost block.
    pub(crate) fn insert(&mut self, id: ForkId, n: u64) {
        self.0.insert((id, n));
    }

    /// A chunk's entry has no lost block.
    pub(crate) fn remove(&mut self, id: ForkId, n: u64) {
        self.0.remove(&(id, n));
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ForkId, u64)> {
        self.0.iter().copied()
    }
}
