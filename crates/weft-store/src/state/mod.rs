//! Everything a store knows in memory, under one lock.
//!
//! One owner: every change of forks, maps, pages and free blocks happens here, together with the
//! log frame that records it, in the order of the frames' sequences. The lock is held for
//! microseconds, never while waiting for a disk. Rejected: a lock per fork or chunk, because a
//! batch touches several and the log needs one order anyway.

mod blocks;
mod doubts;
mod eviction;
mod frames;
mod health;
mod lineage;
mod load;
mod lost;
mod names;
mod touched;
mod truncation;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Range;

use weft_layout::FileId;

use crate::cache::{CHANGED, Traces};
use crate::config::CacheRules;
use crate::doubt::{Doubts, Touches};
use crate::error::StoreError;
use crate::forks::{File, Fork};
use crate::index::{Changes, Dead};
use crate::key::{ForkKey, ForkStatus, Timestamp};
use crate::log::Head;
use crate::pool::BLOCK;
use crate::record::{ForkId, ItemRecord, Place};
use crate::space::{Allocator, Wish};
use blocks::forget_pages;
use health::Health;

pub(crate) use blocks::extent;
pub(crate) use eviction::set_page;
pub(crate) use load::Load;
pub(crate) use names::{check_fork, find_in, remove};

/// Everything a store knows in memory.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) files: HashMap<FileId, File>,
    pub(crate) forks: HashMap<ForkId, Fork>,
    pub(crate) next_fork: u64,
    pub(crate) disk: Allocator,
    pub(crate) changes: Changes,
    /// Kept forks that belong to no checkpoint any more.
    pub(crate) idle: BTreeSet<ForkId>,
    /// Forks with tails.
    pub(crate) tails: BTreeSet<ForkId>,
    pub(crate) dirty_chunks: BTreeSet<(ForkId, u64)>,
    /// Chunks whose entries may say that blocks are lost.
    pub(crate) lossy: BTreeSet<(ForkId, u64)>,
    /// Dirty blocks in memory.
    pub(crate) dirty_blocks: u64,
    /// Slots that became dirty as a whole since those were last flushed.
    pub(crate) full_slots: u64,
    /// Bytes of pages and entries in memory.
    pub(crate) cached: u64,
    /// Bytes up to which the cache is left alone, because an eviction has just found nothing to take.
    pub(crate) look_at: u64,
    /// The hold queue, a clock: every page and entry.
    pub(crate) clock: VecDeque<(ForkId, u64, u32)>,
    /// The replace queue: pages of slots that were read or written as a whole. They go first.
    pub(crate) replace: VecDeque<(ForkId, u64, u32)>,
    /// What decides who goes.
    pub(crate) rules: CacheRules,
    /// The slots of forks that were read last.
    pub(crate) traces: Traces,
    /// Blocks that were fetched ahead and went without having been read.
    pub(crate) fetched_in_vain: u64,
    /// Counts evicted entries, so that a load from the index can tell that it was overtaken.
    pub(crate) evictions: u64,
    pub(crate) flushes: u64,
    head: Head,
    /// What large calls under way will add.
    pub(crate) admitted: Load,
    health: Health,
    /// What is not proven to be as it was acknowledged.
    doubts: Doubts,
    /// Which forks the last frames touched.
    touches: Touches,
}

impl State {
    /// What is in doubt.
    pub(crate) fn doubted(&self) -> &Doubts {
        &self.doubts
    }

    /// What is in doubt, to be changed.
    pub(crate) fn doubts(&mut self) -> &mut Doubts {
        &mut self.doubts
    }

    /// Which forks the last frames touched.
    pub(crate) fn touches(&mut self) -> &mut Touches {
        &mut self.touches
    }

    /// Refuses when the store failed.
    pub(crate) fn check_failed(&self) -> Result<(), StoreError> {
        self.health.failure().cloned().map_or(Ok(()), Err)
    }

    /// Refuses when the store failed or was closed.
    pub(crate) fn check_writable(&self) -> Result<(), StoreError> {
        self.check_failed()?;
        if self.health.is_closed() {
            return Err(StoreError::Closed);
        }
        Ok(())
    }

    /// Whether a file has had a numbered operation, or a later one.
    pub(crate) fn has_done(&self, file: FileId, op: u64) -> bool {
        self.files.get(&file).is_some_and(|f| f.op >= op)
    }

    /// Refuses late calls for deleted files.
    pub(crate) fn check_alive(&self, file: FileId) -> Result<(), StoreError> {
        if self.health.is_torn() {
            self.check_failed()?;
        }
        match self.files.get(&file) {
            Some(f) if f.deleted => Err(StoreError::Stale { file }),
            _ => Ok(()),
        }
    }

    /// The fork of this name.
    pub(crate) fn find(&self, key: &ForkKey) -> Option<ForkId> {
        let forks = &self.files.get(&key.file)?.forks;
        forks.get(&(key.cell, key.fork.clone())).copied()
    }

    /// The fork of this name with this chunk size, made or fixed if need be.
    ///
    /// The caller has checked that the file is alive and the chunk size agrees.
    pub(crate) fn find_or_create(
        &mut self,
        key: &ForkKey,
        chunk: u32,
        modified: i64,
        body: &mut Vec<u8>,
    ) -> ForkId {
        let id = match self.find(key) {
            Some(id) if self.forks[&id].chunk == chunk || chunk == 0 => return id,
            Some(id) => id,
            None => {
                self.next_fork += 1;
                ForkId(self.next_fork - 1)
            }
        };
        self.set_fork(id, chunk, key, modified);
        ItemRecord::Fork {
            id,
            chunk,
            key: key.clone(),
        }
        .encode(body);
        id
    }

    /// A `Fork` record takes effect; a fork that is new was `modified` then.
    pub(crate) fn set_fork(&mut self, id: ForkId, chunk: u32, key: &ForkKey, modified: i64) {
        let goal = self.disk_goal(id);
        if !self.forks.contains_key(&id) {
            self.doubts.made(id, key.file);
        }
        self.forks
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
                goal,
                parent: None,
                inherit: 0,
                kept: None,
                children: 0,
                tail: None,
            });
        let file = self.files.entry(key.file).or_default();
        file.forks.insert((key.cell, key.fork.clone()), id);
        self.changes.forks.insert(id);
    }

    fn disk_goal(&self, id: ForkId) -> u64 {
        self.forks.get(&id).map_or(u64::MAX, |f| f.goal)
    }

    /// Who wants blocks: a fork, or one that is not there yet.
    pub(crate) fn wish(&self, id: Option<ForkId>) -> Wish {
        let fork = id.and_then(|id| Some(self.forks.get(&id)?.wish(id)));
        fork.unwrap_or(Wish {
            goal: u64::MAX,
            ..Wish::default()
        })
    }

    /// What callers are told of a fork.
    pub(crate) fn status(&self, id: ForkId) -> ForkStatus {
        let fork = &self.forks[&id];
        ForkStatus {
            length: fork.length,
            modified: Timestamp(fork.modified),
            stored: self.stored_blocks(fork) * BLOCK as u64,
            chunk: fork.chunk,
        }
    }

    /// Sets a fork's length and time and notes the change: its bytes are others now.
    pub(crate) fn touch(&mut self, id: ForkId, length: u64, modified: i64) {
        self.touches.touch(id);
        self.set_length(id, length, modified);
    }

    /// Sets a fork's length and time where it is made or moved.
    pub(crate) fn set_length(&mut self, id: ForkId, length: u64, modified: i64) {
        let fork = self
            .forks
            .get_mut(&id)
            .expect("the caller found the fork under this lock");
        fork.length = length;
        fork.modified = modified;
        self.changes.forks.insert(id);
    }

    /// Whether only the log has something.
    pub(crate) fn is_ahead_of_index(&self) -> bool {
        !self.changes.is_empty() || !self.dirty_chunks.is_empty()
    }

    /// A block of a chunk lies here now; the old place waits for a sync after `sequence`.
    pub(crate) fn place_block(
        &mut self,
        id: ForkId,
        chunk: u64,
        block: u32,
        place: Place,
        crc: u32,
        sequence: u64,
    ) {
        let Some(fork) = self.forks.get_mut(&id) else {
            return;
        };
        let entry = fork.chunks.entry(chunk).or_default();
        match entry.set(block, place, crc) {
            Some((old, false)) => self.disk.free_after(sequence, extent(old)),
            Some((_, true)) => fork.blocks += 1,
            None => {
                fork.blocks += 1;
                if entry.block_is_dirty(block) {
                    fork.unplaced -= 1;
                }
            }
        }
    }

    /// A chunk's entry differs from the index now.
    pub(crate) fn mark_changed(&mut self, id: ForkId, chunk: u64) {
        if let Some(entry) = self
            .forks
            .get_mut(&id)
            .and_then(|f| f.chunks.get_mut(&chunk))
        {
            entry.marks |= CHANGED;
            if entry.lacks() {
                self.lossy.insert((id, chunk));
            }
            self.changes.chunks.insert((id, chunk));
            self.changes.forks.insert(id);
        }
    }

    /// Drops what lies beyond `length` and sets the length; chunks that the cut touches are in
    /// memory. The caller zeroes the rest of the last block. Returns how many chunks it emptied.
    pub(crate) fn cut(&mut self, id: ForkId, length: u64, modified: i64, sequence: u64) -> u64 {
        self.doubts.prove(id, &(length..u64::MAX));
        let fork = &self.forks[&id];
        if length >= fork.length || fork.chunk == 0 {
            self.touch(id, length, modified);
            return 0;
        }
        self.cut_off(id, length, modified, sequence);
        let end = self.forks[&id].end_chunk();
        let emptied = self.empty_chunks(id, end..u64::MAX, sequence);
        self.set_tail(id, None);
        emptied
    }

    /// Makes holes of blocks of a chunk that is in memory; their places wait for a sync after
    /// `sequence`.
    pub(crate) fn empty(&mut self, id: ForkId, n: u64, blocks: Range<u32>, sequence: u64) {
        let Some(fork) = self.forks.get_mut(&id) else {
            return;
        };
        let Some(chunk) = fork.chunks.get_mut(&n) else {
            return;
        };
        fork.unplaced -= chunk.unplaced(&blocks);
        let (mut freed, mut gone) = (0, 0);
        chunk.empty(blocks.clone(), |place, inherited| {
            gone += 1;
            if !inherited {
                freed += 1;
                self.disk.free_after(sequence, extent(place));
            }
        });
        // Recovery counts blocks only after it has replayed the log.
        fork.blocks = fork.blocks.saturating_sub(freed);
        let (cached, dirty, promises) = forget_pages(chunk, &blocks);
        self.cached -= cached;
        self.dirty_blocks -= u64::from(dirty);
        self.disk.unreserve(u64::from(promises));
        if !chunk.is_dirty() {
            self.dirty_chunks.remove(&(id, n));
        }
        if gone > 0 {
            self.mark_changed(id, n);
        }
    }

    /// Removes a fork; its blocks wait for a sync after `sequence`, those of chunks that are only
    /// in the index for the next application of the log.
    pub(crate) fn remove(&mut self, id: ForkId, sequence: u64) {
        let Some(fork) = self.forks.remove(&id) else {
            return;
        };
        self.disk.close_window(id.0);
        self.doubts.forget(id);
        let (mut freed, mut blocks) = (HashSet::new(), fork.blocks);
        for (n, mut chunk) in fork.chunks {
            for place in chunk.places() {
                self.disk.free_after(sequence, extent(place));
                blocks = blocks.saturating_sub(1);
            }
            let (cached, dirty, promises) = forget_pages(&mut chunk, &(0..u32::MAX));
            self.cached -= cached + chunk.cost;
            self.dirty_blocks -= u64::from(dirty);
            self.disk.unreserve(u64::from(promises));
            self.dirty_chunks.remove(&(id, n));
            freed.insert(n);
        }
        if let Some(file) = self.files.get_mut(&fork.key.file) {
            let name = (fork.key.cell, fork.key.fork.clone());
            if file.forks.get(&name) == Some(&id) {
                file.forks.remove(&name);
                self.touches.gone(&fork.key);
            }
            file.kept.remove(&id);
            let keeper = fork.kept.and_then(|n| file.checkpoints.get_mut(&n));
            if let Some(keeper) = keeper.filter(|c| c.forks.get(&name) == Some(&id)) {
                keeper.forks.remove(&name);
            }
        }
        self.idle.remove(&id);
        self.tails.remove(&id);
        if let Some(parent) = fork.parent.and_then(|p| self.forks.get_mut(&p)) {
            parent.children = parent.children.saturating_sub(1);
        }
        self.evictions += 1;
        self.changes.forks.remove(&id);
        self.changes.dead.push(Dead {
            id,
            key: fork.key,
            freed,
            counted: false,
            blocks,
            recorded: false,
            next: 0,
        });
    }

    /// Deletes a file for ever.
    pub(crate) fn delete(&mut self, file: FileId, sequence: u64) {
        let entry = self.files.entry(file).or_default();
        entry.deleted = true;
        self.changes.files.insert(file);
        let living = std::mem::take(&mut entry.forks).into_values();
        let mut gone: BTreeSet<ForkId> = living.collect();
        for fork in gone.iter().filter_map(|id| self.forks.get(id)) {
            self.touches.gone(&fork.key);
        }
        gone.append(&mut entry.kept);
        let checkpoints = std::mem::take(&mut entry.checkpoints).into_keys();
        let checkpoints = checkpoints.map(|number| (file, number));
        self.changes.checkpoints.extend(checkpoints);
        for id in gone {
            self.remove(id, sequence);
        }
    }
}
