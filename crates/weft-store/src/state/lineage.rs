//! Forks that derive from others: the tree that checkpoints make of them.
//!
//! A chunk of a fork is its own, or its parent's shows through. Invariants:
//! 1. A block belongs to the one fork that has it in its entry without the mark *inherited*.
//! 2. A kept fork changes no more, except that its dirty pages are flushed and that its only child adopts its chunks.
//! 3. A fork's parent is there as long as the fork is.

use std::collections::BTreeSet;
use std::ops::Range;

use weft_layout::FileId;

use super::State;
use super::blocks::extent;
use crate::cache::{APPLYING, CHANGED, Chunk, Page};
use crate::forks::{Checkpoint, Fork};
use crate::index::Dead;
use crate::key::ForkKey;
use crate::pool::BLOCK;
use crate::record::{ForkId, ForkRecord};

impl State {
    /// The fork whose chunk `n` a reader of `id` sees, or else the fork whose entry is not in memory.
    pub(crate) fn shown(&self, id: ForkId, n: u64) -> Result<ForkId, ForkId> {
        let mut at = id;
        loop {
            let fork = &self.forks[&at];
            let chunk = fork.chunks.get(&n).ok_or(at)?;
            match fork.parent {
                Some(parent) if chunk.through => at = parent,
                _ => return Ok(at),
            }
        }
    }

    /// The chunk that a reader of `id` sees, where all entries that the index has are in memory.
    pub(crate) fn shown_of_loaded(&self, id: ForkId, n: u64) -> Option<&Chunk> {
        let mut fork = self.forks.get(&id)?;
        loop {
            match fork.chunks.get(&n) {
                Some(chunk) if !chunk.through => return Some(chunk),
                _ if !fork.inherits(n) => return None,
                _ => fork = self.forks.get(&fork.parent?)?,
            }
        }
    }

    /// A fork, its parent and so on, each with the chunk up to which it can show.
    pub(crate) fn lineage(&self, id: ForkId) -> Vec<(ForkId, u64)> {
        let (mut out, mut at, mut limit) = (Vec::new(), Some(id), u64::MAX);
        while let Some((id, fork)) = at.and_then(|id| Some((id, self.forks.get(&id)?))) {
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
            let chunks = self.forks[&id].chunks.range(range);
            let own = chunks.filter(|(_, c)| !c.through).map(|(n, _)| *n);
            found.extend(own.take(most));
        }
        found.into_iter().take(most).collect()
    }

    /// Blocks that a fork holds: exact without a parent, else at most so many.
    pub(crate) fn stored_blocks(&self, fork: &Fork) -> u64 {
        let own = fork.blocks + fork.unplaced;
        let Some(parent) = fork.parent.and_then(|p| self.forks.get(&p)) else {
            return own;
        };
        let mut blocks = own;
        let mut at = Some(parent);
        while let Some(fork) = at {
            blocks += fork.blocks + fork.unplaced;
            at = fork.parent.and_then(|p| self.forks.get(&p));
        }
        let chunk = u64::from(fork.chunk.max(1));
        let room = fork.length.div_ceil(chunk) * chunk.div_ceil(BLOCK as u64);
        blocks.min(room)
    }

    /// Makes a chunk the fork's own that shows through from `owner`, whose pages are clean.
    pub(crate) fn copy_entry(&mut self, id: ForkId, owner: ForkId, n: u64) {
        let Some(copy) = self.forks.get(&owner).and_then(|f| f.chunks.get(&n)) else {
            return;
        };
        let copy = copy.derived();
        if let Some(chunk) = self.forks.get_mut(&id).and_then(|f| f.chunks.get_mut(&n)) {
            chunk.put_places(copy);
            self.count_entry(id, n);
        }
    }

    /// Nothing from chunk `end` on is inherited any more.
    pub(crate) fn inherit_below(&mut self, id: ForkId, end: u64) {
        let Some(fork) = self.forks.get_mut(&id) else {
            return;
        };
        fork.inherit = fork.inherit.min(end);
        for (_, chunk) in fork.chunks.range_mut(fork.inherit..) {
            chunk.through = false;
        }
    }

    /// A fork as the index has it. Half of an application may have left it under its name and without: then it is kept.
    pub(crate) fn load_fork(&mut self, record: &ForkRecord, key: &ForkKey, kept: bool) {
        let name = (key.cell, key.fork.clone());
        let files = &mut self.files;
        let living = files
            .get(&key.file)
            .and_then(|f| f.forks.get(&name))
            .copied();
        self.set_fork(record.id, record.chunk, key, record.modified);
        self.set_length(record.id, record.length, record.modified);
        if let Some(fork) = self.forks.get_mut(&record.id) {
            fork.parent = record.parent;
            fork.inherit = record.inherit;
        }
        if kept {
            self.keep(record.id, record.checkpoint);
            if let Some(living) = living.filter(|l| *l != record.id) {
                let file = self.files.entry(key.file).or_default();
                file.forks.insert(name, living);
            }
        }
    }

    /// A checkpoint of a file exists.
    pub(crate) fn add_checkpoint(&mut self, file: FileId, number: u64, made: i64) {
        let checkpoints = &mut self.files.entry(file).or_default().checkpoints;
        checkpoints.entry(number).or_default().made = made;
        self.changes.checkpoints.insert((file, number));
        self.doubts().kept(file, number);
    }

    /// A fork loses its name and is kept for a checkpoint.
    pub(crate) fn keep(&mut self, id: ForkId, number: u64) {
        let Some(fork) = self.forks.get_mut(&id) else {
            return;
        };
        fork.kept = Some(number);
        let name = (fork.key.cell, fork.key.fork.clone());
        let file = self.files.entry(fork.key.file).or_default();
        if file.forks.get(&name) == Some(&id) {
            file.forks.remove(&name);
        }
        file.kept.insert(id);
        if let Some(checkpoint) = file.checkpoints.get_mut(&number) {
            checkpoint.forks.insert(name, id);
        }
        self.changes.forks.insert(id);
    }

    /// A fork takes over a name, with what its parent has. In replay it may be there already, and the parent gone.
    pub(crate) fn derive(
        &mut self,
        id: ForkId,
        parent: ForkId,
        chunk: u32,
        key: &ForkKey,
        length: u64,
        modified: i64,
    ) {
        self.next_fork = self.next_fork.max(id.0 + 1);
        self.set_fork(id, chunk, key, modified);
        let known = self.forks.get_mut(&parent).filter(|_| chunk != 0);
        let goal = known.map(|parent| {
            parent.children += 1;
            parent.goal
        });
        let fork = self.forks.get_mut(&id).expect("it was just set");
        fork.kept = None;
        if let Some(goal) = goal {
            fork.parent = Some(parent);
            fork.inherit = length.div_ceil(u64::from(chunk));
            fork.goal = goal;
        }
        let file = self.files.entry(key.file).or_default();
        file.kept.remove(&id);
        self.doubts().derive(id, parent);
        self.set_length(id, length, modified);
    }

    /// A checkpoint is gone; its forks are kept for none.
    pub(crate) fn forget(&mut self, file: FileId, number: u64) {
        let Some(entry) = self.files.get_mut(&file) else {
            return;
        };
        self.changes.checkpoints.insert((file, number));
        let Checkpoint { forks, .. } = entry.checkpoints.remove(&number).unwrap_or_default();
        for id in forks.into_values() {
            if let Some(fork) = self.forks.get_mut(&id) {
                fork.kept = Some(0);
                self.idle.insert(id);
                self.changes.forks.insert(id);
            }
        }
    }

    /// What goes when a fork is removed: itself, and those that were only there for it, in this order.
    pub(crate) fn doomed(&self, id: ForkId) -> Vec<ForkId> {
        let mut out = vec![id];
        let mut at = self.forks.get(&id).and_then(|f| f.parent);
        while let Some((id, fork)) = at.and_then(|id| Some((id, self.forks.get(&id)?)))
            && fork.kept == Some(0)
            && fork.children == 1
        {
            out.push(id);
            at = fork.parent;
        }
        out
    }

    /// Counts who derives from whom, after forks were loaded or replayed.
    pub(crate) fn count_children(&mut self) {
        let parents: Vec<ForkId> = self.forks.values().filter_map(|f| f.parent).collect();
        for fork in self.forks.values_mut() {
            fork.children = 0;
        }
        for parent in parents {
            if let Some(fork) = self.forks.get_mut(&parent) {
                fork.children += 1;
            }
        }
        let idle = self.forks.iter().filter(|(_, f)| f.kept == Some(0));
        self.idle = idle.map(|(id, _)| *id).collect();
    }

    /// A kept fork without a checkpoint from which one fork derives, and that fork. One whose dirty pages may find no place
    /// waits: they would go with it.
    pub(crate) fn mergeable(&self) -> Option<(ForkId, ForkId)> {
        let places = self.disk.keeps_promises();
        let single = |id: &&ForkId| {
            let single = self.forks.get(id).is_some_and(|f| f.children == 1);
            single && (places || !self.has_dirty(**id))
        };
        let from = *self.idle.iter().find(single)?;
        let file = self.files.get(&self.forks[&from].key.file)?;
        let mut related = file.forks.values().chain(&file.kept);
        let child = related.find(|id| self.forks.get(id).is_some_and(|f| f.parent == Some(from)));
        child.map(|to| (from, *to))
    }

    /// Whether a fork has bytes that only the log and memory have.
    pub(crate) fn has_dirty(&self, id: ForkId) -> bool {
        let mut dirty = self.dirty_chunks.range((id, 0)..=(id, u64::MAX));
        dirty.next().is_some()
    }

    /// Gives what a kept fork has of a chunk to its only child; both chunks are in memory and the pages of the first clean.
    pub(crate) fn adopt(&mut self, from: ForkId, to: ForkId, n: u64, sequence: u64) {
        let Some(source) = self.forks.get_mut(&from) else {
            return;
        };
        let through = source.inherits(n);
        let Some(chunk) = source.chunks.get_mut(&n) else {
            return;
        };
        debug_assert!(!chunk.is_dirty(), "what is dirty is not given away");
        for page in std::mem::take(&mut chunk.pages).into_iter().flatten() {
            self.cached -= page.bytes();
        }
        let given = chunk.take_places();
        chunk.through = through;
        chunk.marks |= CHANGED;
        let own: Vec<_> = given.own_blocks().collect();
        source.blocks = source.blocks.saturating_sub(own.len() as u64);
        self.changes.chunks.insert((from, n));
        self.changes.forks.insert(from);
        let Some(child) = self.forks.get_mut(&to) else {
            return;
        };
        let visible = child.inherits(n) || child.chunks.get(&n).is_some_and(|c| !c.through);
        let Some(chunk) = child.chunks.get_mut(&n).filter(|_| visible) else {
            for (_, place) in own {
                self.disk.free_after(sequence, extent(place));
            }
            return;
        };
        if chunk.through {
            child.blocks += own.len() as u64;
            chunk.put_places(given);
        } else {
            for (block, place) in own {
                if chunk.place(block).is_none_or(|(at, _)| at != place) {
                    self.disk.free_after(sequence, extent(place));
                } else if chunk.is_inherited(block) {
                    chunk.inherit(block, false);
                    child.blocks += 1;
                }
            }
        }
        self.mark_changed(to, n);
        self.count_entry(to, n);
    }

    /// A kept fork without chunks goes; its only child derives from its parent.
    pub(crate) fn merged(&mut self, from: ForkId, to: ForkId) {
        let Some(gone) = self.forks.remove(&from) else {
            return;
        };
        for chunk in gone.chunks.values() {
            let pages = chunk.pages.iter().flatten().map(Page::bytes);
            self.cached -= chunk.cost + pages.sum::<u64>();
        }
        self.doubts().forget(from);
        self.idle.remove(&from);
        self.tails.remove(&from);
        self.evictions += 1;
        if let Some(file) = self.files.get_mut(&gone.key.file) {
            file.kept.remove(&from);
        }
        if let Some(child) = self.forks.get_mut(&to) {
            child.parent = gone.parent;
            let inherit = if gone.parent.is_some() {
                gone.inherit
            } else {
                0
            };
            self.inherit_below(to, inherit);
            self.changes.forks.insert(to);
        }
        self.changes.forks.remove(&from);
        self.changes.dead.push(Dead {
            id: from,
            key: gone.key,
            freed: std::collections::HashSet::new(),
            counted: true,
            blocks: 0,
            recorded: false,
            next: 0,
        });
    }
}

impl State {
    /// Whether all that is known of a fork's chunks is in the index, on stable storage.
    pub(crate) fn is_in_index(&self, id: ForkId) -> bool {
        let chunks = self.forks.get(&id).map(|fork| fork.chunks.values());
        let mut chunks = chunks.into_iter().flatten();
        chunks.all(|chunk| !chunk.is_dirty() && chunk.marks & (CHANGED | APPLYING) == 0)
    }
}
