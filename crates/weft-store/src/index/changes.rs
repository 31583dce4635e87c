//! What memory and log have that the index does not.

use std::collections::{BTreeSet, HashSet};

use weft_layout::FileId;

use crate::key::ForkKey;
use crate::record::ForkId;

/// A removed fork whose chunks may still be in the index.
#[derive(Debug)]
pub(crate) struct Dead {
    pub(crate) id: ForkId,
    pub(crate) key: ForkKey,
    /// Chunks whose blocks were freed when it was removed.
    pub(crate) freed: HashSet<u64>,
    /// All its blocks are free already: it was removed before the last opening.
    pub(crate) counted: bool,
    /// Blocks that are not free yet.
    pub(crate) blocks: u64,
    /// Its record has left the index.
    pub(crate) recorded: bool,
    /// Its chunks before this one have.
    pub(crate) next: u64,
}

/// What differs from the index.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) files: BTreeSet<FileId>,
    pub(crate) forks: BTreeSet<ForkId>,
    pub(crate) chunks: BTreeSet<(ForkId, u64)>,
    pub(crate) checkpoints: BTreeSet<(FileId, u64)>,
    pub(crate) dead: Vec<Dead>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
            && self.forks.is_empty()
            && self.chunks.is_empty()
            && self.checkpoints.is_empty()
            && self.dead.is_empty()
    }
}
