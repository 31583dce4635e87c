//! The changes that memory and log have and the index lacks.

use std::collections::{BTreeSet, HashSet};

use weft_layout::FileId;

use crate::key::ForkKey;
use crate::record::ForkId;

/// A removed fork whose chunks may still be in the index.
#[derive(Debug)]
pub(crate) struct RemovedFork {
    pub(super) id: ForkId,
    key: ForkKey,
    /// Chunks whose blocks were freed when it was removed.
    pub(super) freed: HashSet<u64>,
    /// All of its blocks are free already: it was removed before the last opening.
    pub(super) counted: bool,
    /// Blocks that are not free yet.
    pub(super) blocks: u64,
    /// Its record was deleted from the index.
    recorded: bool,
    /// Its chunks before this one were, too.
    pub(super) next: u64,
}

impl RemovedFork {
    /// A fork that was removed with `blocks` blocks besides those of the chunks `freed`.
    pub(crate) fn new(id: ForkId, key: ForkKey, freed: HashSet<u64>, blocks: u64) -> Self {
        Self {
            id,
            key,
            freed,
            counted: false,
            blocks,
            recorded: false,
            next: 0,
        }
    }

    /// A removed fork that owns no blocks.
    pub(crate) fn without_blocks(id: ForkId, key: ForkKey) -> Self {
        Self {
            counted: true,
            ..Self::new(id, key, HashSet::new(), 0)
        }
    }

    /// Its id.
    pub(crate) fn id(&self) -> ForkId {
        self.id
    }

    /// Its name before it was removed.
    pub(crate) fn key(&self) -> &ForkKey {
        &self.key
    }

    /// Whether its record is still in the index; afterwards it counts as deleted.
    pub(crate) fn take_record(&mut self) -> bool {
        !std::mem::replace(&mut self.recorded, true)
    }
}

/// The differences from the index.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    files: BTreeSet<FileId>,
    forks: BTreeSet<ForkId>,
    chunks: BTreeSet<(ForkId, u64)>,
    checkpoints: BTreeSet<(FileId, u64)>,
    removed: Vec<RemovedFork>,
}

/// All changes, taken by an application.
pub(crate) struct TakenChanges {
    pub(crate) files: BTreeSet<FileId>,
    pub(crate) forks: BTreeSet<ForkId>,
    pub(crate) chunks: BTreeSet<(ForkId, u64)>,
    pub(crate) checkpoints: BTreeSet<(FileId, u64)>,
    pub(crate) removed: Vec<RemovedFork>,
}

impl Changes {
    /// Whether nothing differs.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
            && self.forks.is_empty()
            && self.chunks.is_empty()
            && self.checkpoints.is_empty()
            && self.removed.is_empty()
    }

    /// A file's record differs.
    pub(crate) fn file(&mut self, file: FileId) {
        self.files.insert(file);
    }

    /// A fork's record differs.
    pub(crate) fn fork(&mut self, id: ForkId) {
        self.forks.insert(id);
    }

    /// A chunk's entry differs, and so does its fork's record.
    pub(crate) fn chunk(&mut self, id: ForkId, n: u64) {
        self.chunks.insert((id, n));
        self.forks.insert(id);
    }

    /// A checkpoint was made or dropped.
    pub(crate) fn checkpoint(&mut self, file: FileId, number: u64) {
        self.checkpoints.insert((file, number));
    }

    /// A fork was removed.
    pub(crate) fn removed(&mut self, removed: RemovedFork) {
        self.forks.remove(&removed.id);
        self.removed.push(removed);
    }

    /// Queues removed forks again that an application did not finish.
    pub(crate) fn requeue_removed(&mut self, removed: Vec<RemovedFork>) {
        self.removed.extend(removed);
    }

    /// Takes everything.
    pub(crate) fn take(&mut self) -> TakenChanges {
        let Self {
            files,
            forks,
            chunks,
            checkpoints,
            removed,
        } = std::mem::take(self);
        TakenChanges {
            files,
            forks,
            chunks,
            checkpoints,
            removed,
        }
    }

    /// Marks all blocks of removed forks free: an opening counts blocks after it has replayed
    /// removals.
    pub(crate) fn mark_removed_counted(&mut self) {
        for removed in &mut self.removed {
            removed.counted = true;
        }
    }

    /// Whether there are removed forks.
    pub(crate) fn has_removed(&self) -> bool {
        !self.removed.is_empty()
    }

    /// Blocks that become free when the removed forks leave the index.
    pub(crate) fn removed_blocks(&self) -> u64 {
        let removed = self.removed.iter().filter(|removed| !removed.counted);
        removed.map(|removed| removed.blocks).sum()
    }

    /// The names of removed forks whose records are in the index.
    pub(crate) fn recorded_names(&self) -> impl Iterator<Item = &ForkKey> {
        let removed = self.removed.iter().filter(|removed| !removed.recorded);
        removed.map(|removed| &removed.key)
    }

    /// Forks whose records differ.
    pub(crate) fn forks(&self) -> impl Iterator<Item = ForkId> {
        self.forks.iter().copied()
    }

    /// Chunks whose entries differ.
    pub(crate) fn chunks(&self) -> &BTreeSet<(ForkId, u64)> {
        &self.chunks
    }

    /// How many records of files and checkpoints differ.
    pub(crate) fn other_records(&self) -> usize {
        self.files.len() + self.checkpoints.len()
    }
}
