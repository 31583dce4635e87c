//! All files and forks of a store, by id and by name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Index;

use weft_layout::FileId;

use super::fork::{Checkpoint, File, Fork};
use crate::error::StoreError;
use crate::key::ForkKey;
use crate::pages::Chunk;
use crate::record::ForkId;

/// The files and forks of a store.
#[derive(Debug, Default)]
pub(crate) struct Forks {
    pub(super) files: HashMap<FileId, File>,
    pub(super) by_id: HashMap<ForkId, Fork>,
    next: u64,
    /// Checkpoint forks whose checkpoint was dropped.
    pub(super) idle: BTreeSet<ForkId>,
    /// Forks with a deferred truncation.
    deferred_truncations: BTreeSet<ForkId>,
}

impl Index<ForkId> for Forks {
    type Output = Fork;
    fn index(&self, id: ForkId) -> &Fork {
        &self.by_id[&id]
    }
}

/// By id.
impl Forks {
    /// A fork.
    pub(crate) fn get(&self, id: ForkId) -> Option<&Fork> {
        self.by_id.get(&id)
    }

    /// A fork, to be changed.
    pub(crate) fn get_mut(&mut self, id: ForkId) -> Option<&mut Fork> {
        self.by_id.get_mut(&id)
    }

    /// Whether there is a fork of this id.
    pub(crate) fn contains(&self, id: ForkId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// All forks, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ForkId, &Fork)> {
        self.by_id.iter().map(|(id, fork)| (*id, fork))
    }

    /// All forks, to be changed, in no order.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Fork> {
        self.by_id.values_mut()
    }

    /// A chunk that is in memory.
    pub(crate) fn chunk(&self, id: ForkId, n: u64) -> Option<&Chunk> {
        self.by_id.get(&id)?.chunks.get(&n)
    }

    /// A chunk that is in memory, to be changed.
    pub(crate) fn chunk_mut(&mut self, id: ForkId, n: u64) -> Option<&mut Chunk> {
        self.by_id.get_mut(&id)?.chunks.get_mut(&n)
    }

    /// Evicts a chunk whose entry the index has.
    pub(crate) fn drop_chunk(&mut self, id: ForkId, n: u64) {
        if let Some(fork) = self.by_id.get_mut(&id) {
            fork.chunks.remove(&n);
        }
    }

    /// The id that the next new fork gets.
    pub(crate) fn next_id(&self) -> ForkId {
        ForkId(self.next)
    }

    /// New forks get ids from this one on, or from a later one.
    pub(crate) fn begin_ids(&mut self, next: u64) {
        self.next = self.next.max(next);
    }

    /// No new fork gets this id, or one before it.
    pub(crate) fn used_id(&mut self, id: ForkId) {
        self.next = self.next.max(id.0 + 1);
    }
}

/// By name.
impl Forks {
    /// All files, in no order.
    pub(crate) fn files(&self) -> impl Iterator<Item = (FileId, &File)> {
        self.files.iter().map(|(id, file)| (*id, file))
    }

    /// A file.
    pub(crate) fn file(&self, file: FileId) -> Option<&File> {
        self.files.get(&file)
    }

    /// Records a file's last numbered operation; creates the file if it is unknown.
    pub(crate) fn record_op(&mut self, file: FileId, op: u64) {
        self.files.entry(file).or_default().op = op;
    }

    /// Sets a file as the index has it.
    pub(crate) fn load_file(&mut self, file: FileId, deleted: bool, op: u64) {
        let file = self.files.entry(file).or_default();
        (file.deleted, file.op) = (deleted, op);
    }

    /// Gives a name back to the fork that had it.
    pub(crate) fn rename(&mut self, key: &ForkKey, id: ForkId) {
        let file = self.files.entry(key.file).or_default();
        file.forks.insert((key.cell, key.fork.clone()), id);
    }

    /// The fork of this name.
    pub(crate) fn find(&self, key: &ForkKey) -> Option<ForkId> {
        let forks = &self.files.get(&key.file)?.forks;
        forks.get(&(key.cell, key.fork.clone())).copied()
    }

    /// The fork of this name, live or in a checkpoint.
    ///
    /// # Errors
    /// [`StoreError::NoCheckpoint`].
    pub(crate) fn find_in(
        &self,
        key: &ForkKey,
        number: Option<u64>,
    ) -> Result<Option<ForkId>, StoreError> {
        let Some(number) = number else {
            return Ok(self.find(key));
        };
        let forks = &self.checkpoint(key.file, number)?.forks;
        Ok(forks.get(&(key.cell, key.fork.clone())).copied())
    }

    /// A file's live forks.
    pub(crate) fn live(&self, file: FileId) -> Vec<ForkId> {
        let forks = self.files.get(&file).map(|f| f.forks.values().copied());
        forks.into_iter().flatten().collect()
    }

    /// A checkpoint of a file.
    ///
    /// # Errors
    /// [`StoreError::NoCheckpoint`].
    pub(crate) fn checkpoint(&self, file: FileId, number: u64) -> Result<&Checkpoint, StoreError> {
        let found = self
            .files
            .get(&file)
            .and_then(|f| f.checkpoints.get(&number));
        found.ok_or(StoreError::NoCheckpoint { file, number })
    }

    /// All forks of a name, live ones and those of checkpoints.
    pub(crate) fn all_of(&self, key: &ForkKey) -> Vec<ForkId> {
        let Some(file) = self.files.get(&key.file) else {
            return Vec::new();
        };
        let all = file.forks.values().chain(&file.checkpoint_forks).copied();
        all.filter(|id| self.by_id.get(id).is_some_and(|f| f.key == *key))
            .collect()
    }

    /// Gives a fork a name and a chunk size; creates it if it does not exist, with the time
    /// `modified`. Returns whether it created it.
    pub(crate) fn set(&mut self, id: ForkId, chunk: u32, key: &ForkKey, modified: i64) -> bool {
        let made = !self.by_id.contains_key(&id);
        self.by_id
            .entry(id)
            .and_modify(|f| f.chunk = chunk)
            .or_insert_with(|| Fork {
                key: key.clone(),
                chunk,
                length: 0,
                modified,
                blocks: 0,
                unplaced: 0,
                chunks: BTreeMap::new(),
                indexed_end: 0,
                goal: u64::MAX,
                parent: None,
                inherit: 0,
                checkpoint: None,
                children: 0,
                deferred_truncation: None,
            });
        let file = self.files.entry(key.file).or_default();
        file.forks.insert((key.cell, key.fork.clone()), id);
        made
    }

    /// Removes a fork with its name and its places in checkpoints. Also returns whether the name
    /// has no fork now.
    pub(crate) fn remove(&mut self, id: ForkId) -> Option<(Fork, bool)> {
        let fork = self.by_id.remove(&id)?;
        let mut unnamed = false;
        if let Some(file) = self.files.get_mut(&fork.key.file) {
            let name = (fork.key.cell, fork.key.fork.clone());
            if file.forks.get(&name) == Some(&id) {
                file.forks.remove(&name);
                unnamed = true;
            }
            file.checkpoint_forks.remove(&id);
            let keeper = fork.checkpoint.and_then(|n| file.checkpoints.get_mut(&n));
            if let Some(keeper) = keeper.filter(|c| c.forks.get(&name) == Some(&id)) {
                keeper.forks.remove(&name);
            }
        }
        self.idle.remove(&id);
        self.deferred_truncations.remove(&id);
        if let Some(parent) = fork.parent.and_then(|p| self.by_id.get_mut(&p)) {
            parent.children = parent.children.saturating_sub(1);
        }
        Some((fork, unnamed))
    }

    /// Deletes a file for ever: returns its forks, which have no names any more, and its
    /// checkpoints.
    pub(crate) fn delete(&mut self, file: FileId) -> Deleted {
        let entry = self.files.entry(file).or_default();
        entry.deleted = true;
        let live: BTreeSet<ForkId> = std::mem::take(&mut entry.forks).into_values().collect();
        let mut forks = live.clone();
        forks.append(&mut entry.checkpoint_forks);
        let checkpoints = std::mem::take(&mut entry.checkpoints);
        Deleted {
            live,
            forks,
            checkpoints: checkpoints.into_keys().collect(),
        }
    }
}

/// The forks and checkpoints of a deleted file.
pub(crate) struct Deleted {
    /// Forks that had names.
    pub(crate) live: BTreeSet<ForkId>,
    /// All forks.
    pub(crate) forks: BTreeSet<ForkId>,
    pub(crate) checkpoints: Vec<u64>,
}

/// Deferred truncations.
impl Forks {
    /// Whether a deferred truncation must be finished before the fork has this length.
    pub(crate) fn must_finish_truncation(&self, id: ForkId, length: u64) -> bool {
        let fork = &self.by_id[&id];
        fork.deferred_truncation.is_some() && length > fork.length
    }

    /// Chunks of a fork from this one on, or from an earlier one if a truncation was deferred
    /// before, are still to be emptied.
    pub(crate) fn defer_truncation(&mut self, id: ForkId, from: u64) {
        if let Some(fork) = self.by_id.get_mut(&id) {
            let earlier = fork.deferred_truncation.unwrap_or(from);
            fork.deferred_truncation = Some(earlier.min(from));
            self.deferred_truncations.insert(id);
        }
    }

    /// A fork has no chunks beyond its length any more.
    pub(crate) fn end_deferred_truncation(&mut self, id: ForkId) {
        if let Some(fork) = self.by_id.get_mut(&id) {
            fork.deferred_truncation = None;
        }
        self.deferred_truncations.remove(&id);
    }

    /// Forgets all deferred truncations.
    pub(crate) fn clear_deferred_truncations(&mut self) {
        for id in std::mem::take(&mut self.deferred_truncations) {
            if let Some(fork) = self.by_id.get_mut(&id) {
                fork.deferred_truncation = None;
            }
        }
    }

    /// Whether a fork has a deferred truncation.
    pub(crate) fn has_deferred_truncation(&self, id: ForkId) -> bool {
        self.deferred_truncations.contains(&id)
    }

    /// The first fork with a deferred truncation.
    pub(crate) fn first_deferred_truncation(&self) -> Option<ForkId> {
        self.deferred_truncations.first().copied()
    }
}
