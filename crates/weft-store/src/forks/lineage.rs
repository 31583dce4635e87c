//! Forks that derive from others: the tree that checkpoints make of them.
//!
//! A fork has an entry of a chunk, or shows its parent's. Invariants:
//! 1. A block belongs to the one fork whose entry has it without the mark *inherited*.
//! 2. A checkpoint fork is immutable, except that its dirty pages are flushed and its only child
//!    adopts its chunks.
//! 3. A fork's parent exists as long as the fork.

use std::collections::BTreeSet;
use std::ops::Range;

use weft_layout::FileId;

use super::fork::{Checkpoint, Fork};
use super::table::Forks;
use crate::key::ForkKey;
use crate::pages::Chunk;
use crate::pool::BLOCK;
use crate::record::{ForkId, ForkRecord};

/// What readers see.
impl Forks {
    /// The fork whose chunk `n` a reader of `id` sees, or else the fork whose entry is not in
    /// memory.
    pub(crate) fn shown(&self, id: ForkId, n: u64) -> Result<ForkId, ForkId> {
        let mut at = id;
        loop {
            let fork = &self.by_id[&at];
            let chunk = fork.chunks.get(&n).ok_or(at)?;
            match fork.parent {
                Some(parent) if chunk.shows_parent() => at = parent,
                _ => return Ok(at),
            }
        }
    }

    /// The chunk that a reader of `id` sees, if all entries of the index are in memory.
    pub(crate) fn shown_of_loaded(&self, id: ForkId, n: u64) -> Option<&Chunk> {
        let mut fork = self.by_id.get(&id)?;
        loop {
            match fork.chunks.get(&n) {
                Some(chunk) if !chunk.shows_parent() => return Some(chunk),
                _ if !fork.inherits(n) => return None,
                _ => fork = self.by_id.get(&fork.parent?)?,
            }
        }
    }

    /// A fork, its parent and so on, each with the chunk up to which it shows.
    pub(crate) fn lineage(&self, id: ForkId) -> Vec<(ForkId, u64)> {
        let (mut out, mut at, mut limit) = (Vec::new(), Some(id), u64::MAX);
        while let Some((id, fork)) = at.and_then(|id| Some((id, self.by_id.get(&id)?))) {
            out.push((id, limit));
            limit = limit.min(fork.inherit);
            at = fork.parent;
        }
        out
    }

    /// Numbers of the first `most` chunks in memory that a reader of `id` might see, ascending.
    pub(crate) fn view_chunks(&self, id: ForkId, range: Range<u64>, most: usize) -> Vec<u64> {
        let mut found = BTreeSet::new();
        for (id, limit) in self.lineage(id) {
            let range = range.start..range.end.min(limit).max(range.start);
            let chunks = self.by_id[&id].chunks.range(range);
            let owned = chunks.filter(|(_, c)| !c.shows_parent()).map(|(n, _)| *n);
            found.extend(owned.take(most));
        }
        found.into_iter().take(most).collect()
    }

    /// Blocks of a fork: exact without a parent, else an upper bound.
    pub(crate) fn stored_blocks(&self, fork: &Fork) -> u64 {
        let owned = fork.blocks + fork.unplaced;
        let Some(parent) = fork.parent.and_then(|p| self.by_id.get(&p)) else {
            return owned;
        };
        let mut blocks = owned;
        let mut at = Some(parent);
        while let Some(fork) = at {
            blocks += fork.blocks + fork.unplaced;
            at = fork.parent.and_then(|p| self.by_id.get(&p));
        }
        let chunk = u64::from(fork.chunk.max(1));
        let longest = fork.length.div_ceil(chunk) * chunk.div_ceil(BLOCK as u64);
        blocks.min(longest)
    }

    /// Whether the index has all of a fork's chunks in memory, as they are.
    pub(crate) fn is_in_index(&self, id: ForkId) -> bool {
        let chunks = self.by_id.get(&id).map(|fork| fork.chunks.values());
        let mut chunks = chunks.into_iter().flatten();
        chunks.all(|chunk| !chunk.is_dirty() && chunk.is_indexed())
    }
}

/// How the tree changes.
impl Forks {
    /// Chunks from `end` on are not inherited any more.
    pub(crate) fn inherit_below(&mut self, id: ForkId, end: u64) {
        let Some(fork) = self.by_id.get_mut(&id) else {
            return;
        };
        fork.inherit = fork.inherit.min(end);
        for (_, chunk) in fork.chunks.range_mut(fork.inherit..) {
            chunk.hide_parent();
        }
    }

    /// Sets what the index has of a fork that [`Forks::set`] made.
    pub(crate) fn load(&mut self, record: &ForkRecord) {
        if let Some(fork) = self.by_id.get_mut(&record.id) {
            fork.parent = record.parent;
            fork.inherit = record.inherit;
        }
    }

    /// Adds a checkpoint of a file.
    pub(crate) fn add_checkpoint(&mut self, file: FileId, number: u64, made: i64) {
        let checkpoints = &mut self.files.entry(file).or_default().checkpoints;
        checkpoints.entry(number).or_default().made = made;
    }

    /// A fork loses its name and becomes a checkpoint fork; returns whether the fork exists.
    pub(crate) fn keep(&mut self, id: ForkId, number: u64) -> bool {
        let Some(fork) = self.by_id.get_mut(&id) else {
            return false;
        };
        fork.checkpoint = Some(number);
        let name = (fork.key.cell, fork.key.fork.clone());
        let file = self.files.entry(fork.key.file).or_default();
        if file.forks.get(&name) == Some(&id) {
            file.forks.remove(&name);
        }
        file.checkpoint_forks.insert(id);
        if let Some(checkpoint) = file.checkpoints.get_mut(&number) {
            checkpoint.forks.insert(name, id);
        }
        true
    }

    /// A fork that [`Forks::set`] made takes over its parent's contents. In a replay the parent may
    /// not exist any more.
    pub(crate) fn derive(&mut self, id: ForkId, parent: ForkId, key: &ForkKey, length: u64) {
        let chunk = self.by_id[&id].chunk;
        let known = self.by_id.get_mut(&parent).filter(|_| chunk != 0);
        let goal = known.map(|parent| {
            parent.count_child();
            parent.goal
        });
        let fork = self.by_id.get_mut(&id).expect("it was just set");
        fork.checkpoint = None;
        if let Some(goal) = goal {
            fork.parent = Some(parent);
            fork.inherit = length.div_ceil(u64::from(chunk));
            fork.goal = goal;
        }
        let file = self.files.entry(key.file).or_default();
        file.checkpoint_forks.remove(&id);
    }

    /// Drops a checkpoint: returns its forks, which belong to none now. `None` if the file is
    /// unknown.
    pub(crate) fn forget_checkpoint(&mut self, file: FileId, number: u64) -> Option<Vec<ForkId>> {
        let entry = self.files.get_mut(&file)?;
        let Checkpoint { forks, .. } = entry.checkpoints.remove(&number).unwrap_or_default();
        let mut kept = Vec::new();
        for id in forks.into_values() {
            if let Some(fork) = self.by_id.get_mut(&id) {
                fork.checkpoint = Some(0);
                self.idle.insert(id);
                kept.push(id);
            }
        }
        Some(kept)
    }

    /// The forks to remove with a fork: itself, then the ancestors that only it needs.
    pub(crate) fn removal_chain(&self, id: ForkId) -> Vec<ForkId> {
        let mut out = vec![id];
        let mut at = self.by_id.get(&id).and_then(|f| f.parent);
        while let Some((id, fork)) = at.and_then(|id| Some((id, self.by_id.get(&id)?)))
            && fork.checkpoint == Some(0)
            && fork.children == 1
        {
            out.push(id);
            at = fork.parent;
        }
        out
    }

    /// Counts the children of each fork, after forks were loaded or replayed.
    pub(crate) fn count_children(&mut self) {
        let parents: Vec<ForkId> = self.by_id.values().filter_map(|f| f.parent).collect();
        for fork in self.by_id.values_mut() {
            fork.children = 0;
        }
        for parent in parents {
            if let Some(fork) = self.by_id.get_mut(&parent) {
                fork.children += 1;
            }
        }
        let idle = self.by_id.iter().filter(|(_, f)| f.checkpoint == Some(0));
        self.idle = idle.map(|(id, _)| *id).collect();
    }

    /// A fork without name and checkpoint from which one fork derives, and that child; only where
    /// `may` holds.
    pub(crate) fn mergeable(&self, may: impl Fn(ForkId) -> bool) -> Option<(ForkId, ForkId)> {
        let single = |id: &&ForkId| {
            let single = self.by_id.get(id).is_some_and(|f| f.children == 1);
            single && may(**id)
        };
        let from = *self.idle.iter().find(single)?;
        let file = self.files.get(&self.by_id[&from].key.file)?;
        let mut related = file.forks.values().chain(&file.checkpoint_forks);
        let child = related.find(|id| self.by_id.get(id).is_some_and(|f| f.parent == Some(from)));
        child.map(|to| (from, *to))
    }

    /// Removes a checkpoint fork without chunks from the tree: its only child derives from its
    /// parent.
    pub(crate) fn merge(&mut self, from: ForkId, to: ForkId) -> Option<Fork> {
        let parent = self.by_id.get(&from)?.parent;
        // The parent's count of children stays: the child takes the fork's place.
        let gone = self.by_id.remove(&from)?;
        self.idle.remove(&from);
        self.end_deferred_truncation(from);
        if let Some(file) = self.files.get_mut(&gone.key.file) {
            file.checkpoint_forks.remove(&from);
        }
        if let Some(child) = self.by_id.get_mut(&to) {
            child.parent = parent;
            let inherit = if parent.is_some() { gone.inherit } else { 0 };
            self.inherit_below(to, inherit);
        }
        Some(gone)
    }
}
