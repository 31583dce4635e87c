//! Forks that derive from others: the changes that go with a change of their tree.

use weft_layout::FileId;

use crate::index::RemovedFork;
use crate::key::ForkKey;
use crate::pages::Page;
use crate::record::{ForkId, ForkRecord};
use crate::state::StoreState;
use crate::state::chunks::extent;

impl StoreState {
    /// Gives a fork its own entry of a chunk that shows `owner`'s, whose pages are clean.
    pub(crate) fn copy_entry(&mut self, id: ForkId, owner: ForkId, n: u64) {
        let Some(copy) = self.forks.chunk(owner, n) else {
            return;
        };
        let copy = copy.derived();
        if let Some(chunk) = self.forks.chunk_mut(id, n) {
            chunk.set_places(copy);
            self.count_entry(id, n);
        }
    }

    /// Loads a fork from the index. Half of an application may have left records with its name and
    /// without: then it lost its name.
    pub(crate) fn load_fork(&mut self, record: &ForkRecord, key: &ForkKey, kept: bool) {
        let live = self.forks.find(key);
        self.forks.used_id(record.id);
        self.set_fork(record.id, record.chunk, key, record.modified);
        self.set_length(record.id, record.length, record.modified);
        self.forks.load(record);
        if kept {
            self.keep(record.id, record.checkpoint);
            if let Some(live) = live.filter(|l| *l != record.id) {
                self.forks.rename(key, live);
            }
        }
    }

    /// Adds a checkpoint of a file.
    pub(crate) fn add_checkpoint(&mut self, file: FileId, number: u64, made: i64) {
        self.forks.add_checkpoint(file, number, made);
        self.changes.checkpoint(file, number);
        self.doubts.kept(file, number);
    }

    /// A fork loses its name and becomes a checkpoint fork.
    pub(crate) fn keep(&mut self, id: ForkId, number: u64) {
        if self.forks.keep(id, number) {
            self.changes.fork(id);
        }
    }

    /// A fork takes over a name with its parent's contents. In a replay it may exist already, and
    /// the parent may not.
    pub(crate) fn derive(
        &mut self,
        id: ForkId,
        parent: ForkId,
        chunk: u32,
        key: &ForkKey,
        length: u64,
        modified: i64,
    ) {
        self.forks.used_id(id);
        self.set_fork(id, chunk, key, modified);
        self.forks.derive(id, parent, key, length);
        self.doubts.derive(id, parent);
        self.set_length(id, length, modified);
    }

    /// Drops a checkpoint; its forks belong to none.
    pub(crate) fn forget_checkpoint(&mut self, file: FileId, number: u64) {
        let Some(kept) = self.forks.forget_checkpoint(file, number) else {
            return;
        };
        self.changes.checkpoint(file, number);
        for id in kept {
            self.changes.fork(id);
        }
    }

    /// A fork without name and checkpoint from which one fork derives, and that child. A fork whose
    /// dirty pages may find no place has to wait: a merge would drop them.
    pub(crate) fn mergeable(&self) -> Option<(ForkId, ForkId)> {
        let places = self.space.keeps_promises();
        self.forks.mergeable(|id| places || !self.dirty.has(id))
    }

    /// Gives a checkpoint fork's entry of a chunk to its only child; both chunks are in memory, and
    /// the first one's pages are clean.
    pub(crate) fn adopt(&mut self, from: ForkId, to: ForkId, n: u64, sequence: u64) {
        let Some(source) = self.forks.get_mut(from) else {
            return;
        };
        let through = source.inherits(n);
        let Some(chunk) = source.chunk_mut(n) else {
            return;
        };
        debug_assert!(!chunk.is_dirty(), "what is dirty is not given away");
        for page in chunk.take_pages() {
            self.cache.uncount(page.bytes());
        }
        let given = chunk.give_places(through);
        let own: Vec<_> = given.owned_blocks().collect();
        source.transfer_out(own.len() as u64);
        self.changes.chunk(from, n);
        let Some(child) = self.forks.get_mut(to) else {
            return;
        };
        let visible =
            child.inherits(n) || child.chunks().get(&n).is_some_and(|c| !c.shows_parent());
        let Some(chunk) = child.chunk_mut(n).filter(|_| visible) else {
            for (_, place) in own {
                self.space.free_after(sequence, extent(place));
            }
            return;
        };
        let mut got = 0;
        if chunk.shows_parent() {
            got = own.len() as u64;
            chunk.set_places(given);
        } else {
            for (block, place) in own {
                if chunk.place(block).is_none_or(|(at, _)| at != place) {
                    self.space.free_after(sequence, extent(place));
                } else if chunk.is_inherited(block) {
                    chunk.inherit(block, false);
                    got += 1;
                }
            }
        }
        child.transfer_in(got);
        self.mark_changed(to, n);
        self.count_entry(to, n);
    }

    /// Removes a checkpoint fork without chunks; its only child derives from its parent.
    pub(crate) fn merge(&mut self, from: ForkId, to: ForkId) {
        let Some(gone) = self.forks.merge(from, to) else {
            return;
        };
        for chunk in gone.chunks().values() {
            let pages = chunk.pages().map(Page::bytes);
            self.cache
                .uncount(chunk.counted_bytes() + pages.sum::<u64>());
        }
        self.doubts.forget(from);
        self.cache.entries_removed();
        if self.forks.contains(to) {
            self.changes.fork(to);
        }
        self.changes
            .removed(RemovedFork::without_blocks(from, gone.key().clone()));
    }
}
