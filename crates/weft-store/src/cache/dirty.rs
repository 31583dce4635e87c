//! The dirty chunks: those with blocks newer than on the disks.

use std::collections::BTreeSet;
use std::ops::{Bound, RangeInclusive};

use crate::record::ForkId;

/// The dirty chunks of a store, and how much of them is dirty.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    chunks: BTreeSet<(ForkId, u64)>,
    blocks: u64,
    full_slots: u64,
    flushes: u64,
}

impl Dirty {
    /// Dirty blocks in memory.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Chunks with dirty blocks.
    pub(crate) fn chunks(&self) -> &BTreeSet<(ForkId, u64)> {
        &self.chunks
    }

    /// The first dirty chunk within `chunks` after `from`.
    pub(crate) fn next(
        &self,
        from: Bound<(ForkId, u64)>,
        chunks: &RangeInclusive<(ForkId, u64)>,
    ) -> Option<(ForkId, u64)> {
        let next = self.chunks.range((from, Bound::Unbounded)).next().copied();
        next.filter(|next| next <= chunks.end())
    }

    /// Whether a fork has dirty blocks.
    pub(crate) fn has(&self, id: ForkId) -> bool {
        let mut chunks = self.chunks.range((id, 0)..=(id, u64::MAX));
        chunks.next().is_some()
    }

    /// A block of a chunk became dirty.
    pub(crate) fn add_block(&mut self, id: ForkId, n: u64) {
        self.blocks += 1;
        self.chunks.insert((id, n));
    }

    /// Blocks became clean, or were dropped.
    pub(crate) fn remove_blocks(&mut self, blocks: u64) {
        self.blocks -= blocks;
    }

    /// A chunk has no dirty block any more.
    pub(crate) fn remove_chunk(&mut self, id: ForkId, n: u64) {
        self.chunks.remove(&(id, n));
    }

    /// A whole slot became dirty.
    pub(crate) fn add_full_slot(&mut self) {
        self.full_slots += 1;
    }

    /// Slots that became dirty as a whole since [`Dirty::take_full_slots`].
    pub(crate) fn full_slots(&self) -> u64 {
        self.full_slots
    }

    /// Whether at least `least` slots are full; if so, they count as flushed.
    pub(crate) fn take_full_slots(&mut self, least: u64) -> bool {
        let enough = self.full_slots >= least;
        if enough {
            self.full_slots = 0;
        }
        enough
    }

    /// The number of a new flush.
    pub(crate) fn next_flush(&mut self) -> u64 {
        self.flushes += 1;
        self.flushes
    }
}
