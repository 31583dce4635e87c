//! Files, their checkpoints and their forks in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weft_layout::{ADDRESSED_BIT, CellIndex, ChunkCode};

use crate::key::{ForkKey, ForkName};
use crate::pages::{Chunk, Page};
use crate::record::{ForkId, Place};
use crate::space::{AllocHint, Extent};

/// A file: its tombstone, its last numbered operation, its forks.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(super) deleted: bool,
    pub(super) op: u64,
    pub(super) forks: BTreeMap<(CellIndex, ForkName), ForkId>,
    /// Forks without names: those of checkpoints, and those that others derive from.
    pub(super) checkpoint_forks: BTreeSet<ForkId>,
    pub(super) checkpoints: BTreeMap<u64, Checkpoint>,
}

/// A checkpoint of a file.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    pub(super) made: i64,
    pub(super) forks: BTreeMap<(CellIndex, ForkName), ForkId>,
}

/// A fork and those of its chunks that are in memory.
#[derive(Debug)]
pub(crate) struct Fork {
    pub(super) key: ForkKey,
    /// 0 until the first write fixes it.
    pub(super) chunk: ChunkCode,
    pub(super) length: u64,
    pub(super) modified: i64,
    /// Blocks that it owns in its maps.
    pub(super) blocks: u64,
    /// Dirty blocks without a place.
    pub(super) unplaced: u64,
    pub(super) chunks: BTreeMap<u64, Chunk>,
    /// No chunk from here on is in the index.
    pub(super) indexed_end: u64,
    /// The best place on the disks for its next block.
    pub(super) goal: u64,
    /// The fork whose chunks show where it has none.
    pub(super) parent: Option<ForkId>,
    /// Chunks from this number on do not show the parent's.
    pub(super) inherit: u64,
    /// Set once it lost its name and is immutable: its checkpoint, or 0 for a fork that only other
    /// forks need.
    pub(super) checkpoint: Option<u64>,
    /// How many forks derive from it.
    pub(super) children: u32,
    /// Chunks from here on are beyond its length, and may have entries that are still to be
    /// emptied.
    pub(super) deferred_truncation: Option<u64>,
}

impl File {
    /// Whether it was deleted.
    pub(crate) fn deleted(&self) -> bool {
        self.deleted
    }

    /// Its last numbered operation.
    pub(crate) fn op(&self) -> u64 {
        self.op
    }

    /// Its forks by name.
    pub(crate) fn forks(&self) -> &BTreeMap<(CellIndex, ForkName), ForkId> {
        &self.forks
    }

    /// Its forks that lost their names.
    pub(crate) fn checkpoint_forks(&self) -> &BTreeSet<ForkId> {
        &self.checkpoint_forks
    }

    /// Its checkpoints by number.
    pub(crate) fn checkpoints(&self) -> &BTreeMap<u64, Checkpoint> {
        &self.checkpoints
    }
}

impl Checkpoint {
    /// When it was made.
    pub(crate) fn made(&self) -> i64 {
        self.made
    }

    /// Its forks, by name.
    pub(crate) fn forks(&self) -> &BTreeMap<(CellIndex, ForkName), ForkId> {
        &self.forks
    }
}

/// Attributes of a fork.
impl Fork {
    /// Its name, or the name that it lost.
    pub(crate) fn key(&self) -> &ForkKey {
        &self.key
    }

    /// The size of its chunks; 0 until the first write fixes it.
    pub(crate) fn chunk(&self) -> u32 {
        self.chunk & !ADDRESSED_BIT
    }

    /// The size of its chunks, and whether it is addressed.
    pub(crate) fn chunk_code(&self) -> ChunkCode {
        self.chunk
    }

    /// Whether its bytes are in chunks that its recipe names. Then it has a length and no blocks.
    pub(crate) fn is_addressed(&self) -> bool {
        self.chunk & ADDRESSED_BIT != 0
    }

    /// One past its last byte.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// When it was last written or truncated.
    pub(crate) fn modified(&self) -> i64 {
        self.modified
    }

    /// Blocks that it owns in its maps.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// No chunk from here on is in the index.
    pub(crate) fn indexed_end(&self) -> u64 {
        self.indexed_end
    }

    /// The fork whose chunks show where it has none.
    pub(crate) fn parent(&self) -> Option<ForkId> {
        self.parent
    }

    /// Chunks from this number on do not show the parent's.
    pub(crate) fn inherit(&self) -> u64 {
        self.inherit
    }

    /// Its checkpoint if it lost its name; 0: none.
    pub(crate) fn checkpoint(&self) -> Option<u64> {
        self.checkpoint
    }

    /// How many forks derive from it.
    pub(crate) fn children(&self) -> u32 {
        self.children
    }

    /// The first chunk that a deferred truncation has yet to empty.
    pub(crate) fn deferred_truncation(&self) -> Option<u64> {
        self.deferred_truncation
    }

    /// The best place for its next blocks.
    pub(crate) fn hint(&self, id: ForkId) -> AllocHint {
        AllocHint {
            fork: Some(id.0),
            held: self.blocks,
            goal: self.goal,
        }
    }

    /// The first chunk that is entirely beyond its length.
    pub(crate) fn end_chunk(&self) -> u64 {
        self.length.div_ceil(u64::from(self.chunk.max(1)))
    }

    /// Whether the parent's chunk of this number shows if the fork has none.
    pub(crate) fn inherits(&self, n: u64) -> bool {
        self.parent.is_some() && n < self.inherit
    }
}

/// Its chunks.
impl Fork {
    /// Those in memory, by number.
    pub(crate) fn chunks(&self) -> &BTreeMap<u64, Chunk> {
        &self.chunks
    }

    /// A chunk in memory, to be changed.
    pub(crate) fn chunk_mut(&mut self, n: u64) -> Option<&mut Chunk> {
        self.chunks.get_mut(&n)
    }

    /// A chunk, to be changed; an empty one if it is not in memory.
    pub(crate) fn chunk_or_default(&mut self, n: u64) -> &mut Chunk {
        self.chunks.entry(n).or_default()
    }

    /// Inserts a chunk, unless it is in memory.
    pub(crate) fn load_chunk(&mut self, n: u64, chunk: Chunk) {
        self.chunks.entry(n).or_insert(chunk);
    }

    /// The chunks that were in memory, of a fork that was removed.
    pub(crate) fn into_chunks(self) -> BTreeMap<u64, Chunk> {
        self.chunks
    }

    /// The index has, or will delete, an entry of this number.
    pub(crate) fn chunk_indexed(&mut self, n: u64) {
        self.indexed_end = self.indexed_end.max(n + 1);
    }
}

/// Its length and its blocks.
impl Fork {
    /// Sets length and time.
    pub(crate) fn set_length(&mut self, length: u64, modified: i64) {
        self.length = length;
        self.modified = modified;
    }

    /// The next blocks are best placed after these.
    pub(crate) fn placed_at(&mut self, last: Extent) {
        self.goal = last.start + last.blocks;
    }

    /// Moves a block of a chunk to a place; returns the place that the fork owned before.
    pub(crate) fn place(&mut self, n: u64, block: u32, place: Place, crc: u32) -> Option<Place> {
        let entry = self.chunks.entry(n).or_default();
        match entry.set(block, place, crc) {
            Some((old, false)) => return Some(old),
            Some((_, true)) => self.blocks += 1,
            None => {
                self.blocks += 1;
                if entry.block_is_dirty(block) {
                    self.unplaced -= 1;
                }
            }
        }
        None
    }

    /// Moves a block of a chunk in memory to a place that no disk has, unless it is a hole. Returns
    /// whether it did, and the place that the fork owned.
    pub(crate) fn unplace(
        &mut self,
        n: u64,
        block: u32,
        absent: Place,
        crc: u32,
    ) -> (bool, Option<Place>) {
        let Some(entry) = self.chunks.get_mut(&n) else {
            return (false, None);
        };
        if entry.place(block).is_none() {
            return (false, None);
        }
        let left = entry.set(block, absent, crc);
        entry.inherit(block, true);
        let owned = left.filter(|(_, inherited)| !inherited);
        if owned.is_some() {
            // Recovery counts blocks only after it has replayed the log.
            self.blocks = self.blocks.saturating_sub(1);
        }
        (true, owned.map(|(place, _)| place))
    }

    /// Empties blocks of a chunk in memory: calls `freed` with each place that the fork owned.
    /// Returns how many blocks had places.
    pub(crate) fn empty(
        &mut self,
        n: u64,
        blocks: &Range<u32>,
        mut freed: impl FnMut(Place),
    ) -> u64 {
        let Some(chunk) = self.chunks.get_mut(&n) else {
            return 0;
        };
        self.unplaced -= chunk.unplaced(blocks);
        let (mut owned, mut gone) = (0, 0);
        chunk.empty(blocks.clone(), |place, inherited| {
            gone += 1;
            if !inherited {
                owned += 1;
                freed(place);
            }
        });
        // Recovery counts blocks only after it has replayed the log.
        self.blocks = self.blocks.saturating_sub(owned);
        gone
    }

    /// Blocks pass to another fork.
    pub(crate) fn transfer_out(&mut self, blocks: u64) {
        self.blocks = self.blocks.saturating_sub(blocks);
    }

    /// Blocks of another fork pass to this one.
    pub(crate) fn transfer_in(&mut self, blocks: u64) {
        self.blocks += blocks;
    }

    /// The page of a slot that is in memory, and the count of dirty blocks without a place, for a
    /// write that adds to both.
    pub(crate) fn page_to_write(&mut self, n: u64, slot: usize) -> Option<(&mut Page, &mut u64)> {
        let page = self.chunks.get_mut(&n)?.page_mut(slot)?;
        Some((page, &mut self.unplaced))
    }

    /// One more fork derives from this one.
    pub(crate) fn count_child(&mut self) {
        self.children += 1;
    }

    /// Forgets what was counted: an opening counts blocks again.
    pub(crate) fn begin_count(&mut self) {
        self.blocks = 0;
        self.unplaced = 0;
        self.indexed_end = 0;
    }

    /// Adds what an opening counted of the fork in a range of the index.
    pub(crate) fn counted(&mut self, blocks: u64, goal: Option<u64>, indexed_end: u64) {
        self.blocks += blocks;
        self.goal = goal.unwrap_or(self.goal);
        self.indexed_end = self.indexed_end.max(indexed_end);
    }
}
