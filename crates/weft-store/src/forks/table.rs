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
    /// Kept forks that belong to no checkpoint any more.
    pub(super) idle: BTreeSet<ForkId>,
    /// Forks with tails.
    tails: BTreeSet<ForkId>,
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
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (ForkId, &mut Fork)> {
        self.by_id.iter_mut().map(|(id, fork)| (*id, fork))
    }

    /// As [`Forks::iter_mut`], without the ids.
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

    /// Drops a chunk from memory: the index has its entry.
    pub(crate) fn drop_chunk(&mut self, id: ForkId, n: u64) {
        if let Some(fork) = self.by_id.get_mut(&id) {
            fork.chunks.remove(&n);
        }
    }

    /// The id that the next new fork gets.
    pub(crate) fn next_id(&self) -> ForkId {
        ForkId(self.next)
    }

    /// New forks get ids from this one on at the earliest.
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
    /// A file.
    pub(crate) fn file(&self, file: FileId) -> Option<&File> {
        self.files.get(&file)
    }

    /// A file's last numbered operation was this; the file is made if need be.
    pub(crate) fn done(&mut self, file: FileId, op: u64) {
        self.files.entry(file).or_default().op = op;
    }

    /// A file as the index has it.
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

    /// The fork of this name, living or in a checkpoint.
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

    /// The forks of a file's names.
    pub(crate) fn living(&self, file: FileId) -> Vec<ForkId> {
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

    /// All forks of a name, living and kept.
    pub(crate) fn all_of(&self, key: &ForkKey) -> Vec<ForkId> {
        let Some(file) = self.files.get(&key.file) else {
            return Vec::new();
        };
        let all = file.forks.values().chain(&file.kept).copied();
        all.filter(|id| self.by_id.get(id).is_some_and(|f| f.key == *key))
            .collect()
    }

    /// Gives a fork a name and a chunk size; makes it if it is not there, `modified` then. Whether
    /// it was made.
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
                kept: None,
                children: 0,
                tail: None,
            });
        let file = self.files.entry(key.file).or_default();
        file.forks.insert((key.cell, key.fork.clone()), id);
        made
    }

    /// Takes a fork out, with its name and its places in checkpoints. Whether the name is without a
    /// fork now.
    pub(crate) fn remove(&mut self, id: ForkId) -> Option<(Fork, bool)> {
        let fork = self.by_id.remove(&id)?;
        let mut unnamed = false;
        if let Some(file) = self.files.get_mut(&fork.key.file) {
            let name = (fork.key.cell, fork.key.fork.clone());
            if file.forks.get(&name) == Some(&id) {
                file.forks.remove(&name);
                unnamed = true;
            }
            file.kept.remove(&id);
            let keeper = fork.kept.and_then(|n| file.checkpoints.get_mut(&n));
            if let Some(keeper) = keeper.filter(|c| c.forks.get(&name) == Some(&id)) {
                keeper.forks.remove(&name);
            }
        }
        self.idle.remove(&id);
        self.tails.remove(&id);
        if let Some(parent) = fork.parent.and_then(|p| self.by_id.get_mut(&p)) {
            parent.children = parent.children.saturating_sub(1);
        }
        Some((fork, unnamed))
    }

    /// Deletes a file for ever: returns its forks, which are without names, those that lost them
    /// just now first, and its checkpoints.
    pub(crate) fn delete(&mut self, file: FileId) -> Deleted {
        let entry = self.files.entry(file).or_default();
        entry.deleted = true;
        let living: BTreeSet<ForkId> = std::mem::take(&mut entry.forks).into_values().collect();
        let mut forks = living.clone();
        forks.append(&mut entry.kept);
        let checkpoints = std::mem::take(&mut entry.checkpoints);
        Deleted {
            living,
            forks,
            checkpoints: checkpoints.into_keys().collect(),
        }
    }
}

/// What a deleted file had.
pub(crate) struct Deleted {
    /// Forks that had names.
    pub(crate) living: BTreeSet<ForkId>,
    /// All forks.
    pub(crate) forks: BTreeSet<ForkId>,
    pub(crate) checkpoints: Vec<u64>,
}

/// Tails.
impl Forks {
    /// Whether a fork has a tail that must go before the fork is this long.
    pub(crate) fn must_settle(&self, id: ForkId, length: u64) -> bool {
        let fork = &self.by_id[&id];
        fork.tail.is_some() && length > fork.length
    }

    /// A fork's tail begins here, or earlier if it has one; `None`: it has none any more.
    pub(crate) fn set_tail(&mut self, id: ForkId, from: Option<u64>) {
        let Some(fork) = self.by_id.get_mut(&id) else {
            self.tails.remove(&id);
            return;
        };
        if let Some(from) = from {
            fork.tail = Some(fork.tail.map_or(from, |tail| tail.min(from)));
            self.tails.insert(id);
        } else {
            fork.tail = None;
            self.tails.remove(&id);
        }
    }

    /// No fork has a tail.
    pub(crate) fn clear_tails(&mut self) {
        for id in std::mem::take(&mut self.tails) {
            if let Some(fork) = self.by_id.get_mut(&id) {
                fork.tail = None;
            }
        }
    }

    /// Whether a fork has a tail.
    pub(crate) fn has_tail(&self, id: ForkId) -> bool {
        self.tails.contains(&id)
    }

    /// The first fork with a tail.
    pub(crate) fn first_tail(&self) -> Option<ForkId> {
        self.tails.first().copied()
    }
}
