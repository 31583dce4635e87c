//! Files, their checkpoints and their forks, as they are in memory.

use std::collections::{BTreeMap, BTreeSet};

use weft_layout::CellIndex;

use crate::key::{ForkKey, ForkName};
use crate::pages::Chunk;
use crate::record::ForkId;
use crate::space::Wish;

/// A file: its tombstone, its last cutting operation, its forks.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) deleted: bool,
    pub(crate) op: u64,
    pub(crate) forks: BTreeMap<(CellIndex, ForkName), ForkId>,
    /// Forks that lost their names and are kept: for checkpoints, or because others derive from them.
    pub(crate) kept: BTreeSet<ForkId>,
    pub(crate) checkpoints: BTreeMap<u64, Checkpoint>,
}

/// A checkpoint of a file.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    pub(crate) made: i64,
    pub(crate) forks: BTreeMap<(CellIndex, ForkName), ForkId>,
}

/// A fork and those of its chunks that are in memory.
#[derive(Debug)]
pub(crate) struct Fork {
    pub(crate) key: ForkKey,
    /// 0 until the first write fixes it.
    pub(crate) chunk: u32,
    pub(crate) length: u64,
    pub(crate) modified: i64,
    /// Blocks of its own that its maps hold.
    pub(crate) blocks: u64,
    /// Dirty blocks without a place.
    pub(crate) unplaced: u64,
    pub(crate) chunks: BTreeMap<u64, Chunk>,
    /// No chunk from here on is in the index.
    pub(crate) indexed_end: u64,
    /// Where on the disk its next block would lie well.
    pub(crate) goal: u64,
    /// The fork whose chunks show where it has none of its own.
    pub(crate) parent: Option<ForkId>,
    /// Chunks from this number on are not its parent's.
    pub(crate) inherit: u64,
    /// It lost its name and changes no more; the checkpoint that keeps it, 0: none does.
    pub(crate) kept: Option<u64>,
    /// How many forks derive from it.
    pub(crate) children: u32,
    /// Chunks from here on lie beyond its length, and may have entries that are still to be emptied.
    pub(crate) tail: Option<u64>,
}

impl Fork {
    /// Where its next blocks would lie well.
    pub(crate) fn wish(&self, id: ForkId) -> Wish {
        Wish {
            fork: Some(id.0),
            held: self.blocks,
            goal: self.goal,
        }
    }

    /// The first chunk that lies beyond its length wholly.
    pub(crate) fn end_chunk(&self) -> u64 {
        self.length.div_ceil(u64::from(self.chunk.max(1)))
    }

    /// Whether the parent's chunk of this number shows where the fork has none of its own.
    pub(crate) fn inherits(&self, n: u64) -> bool {
        self.parent.is_some() && n < self.inherit
    }
}
