//! The state of a store in memory, under one lock: the components of the modules below, and the
//! rules that involve several of them.
//!
//! Owns the forks with their chunks and pages, the allocator, the cache, and the head of the log.
//! Every change of them happens here, together with the log frame that records it, in the order of
//! the frames' sequences. Other modules read through `forks()`, `space()`, `cache()`, and change by
//! the methods of this module: the fields are private, and no other module can borrow forks, chunks
//! or pages mutably. The lock is held for microseconds, never while waiting for a disk. Rejected: a
//! lock per fork or chunk, because a batch touches several and the log needs one order anyway.
//!
//! Invariants that no single component can keep:
//! 1. A block in an entry is not free; a block that an entry loses becomes free after the next
//!    sync.
//! 2. Each dirty block that is not being flushed has a promise of the allocator.
//! 3. Every difference from the index is among the changes, and a frame of the log records it.

mod chunks;
mod forks;
mod frames;
mod health;
mod load;

use std::collections::HashSet;

use weft_layout::FileId;

use crate::cache::{Dirty, Residency};
use crate::config::CacheRules;
use crate::doubt::{Doubts, LossyChunks, TouchedForks};
use crate::forks::Forks;
use crate::index::Changes;
use crate::log::LogHead;
use crate::record::StoreRecord;
use crate::space::Allocator;

pub(crate) use chunks::{
    BlockChange, FlushRound, FlushScope, IndexEntry, ReadChunk, count_runs, extent,
};
pub(crate) use forks::check_fork;
pub(crate) use load::CallLoad;

/// The state of a store in memory.
#[derive(Debug, Default)]
pub(crate) struct StoreState {
    forks: Forks,
    space: Allocator,
    cache: Residency,
    dirty: Dirty,
    changes: Changes,
    head: LogHead,
    /// The load that large calls in flight will add.
    admitted: CallLoad,
    health: health::Health,
    doubts: Doubts,
    touches: TouchedForks,
    lossy: LossyChunks,
    /// Files that may have coded blocks.
    coded_files: HashSet<FileId>,
}

impl StoreState {
    /// The empty state of a store whose cache has these rules.
    pub(crate) fn new(rules: CacheRules) -> Self {
        Self {
            cache: Residency::new(rules),
            ..Self::default()
        }
    }

    /// The files and forks.
    pub(crate) fn forks(&self) -> &Forks {
        &self.forks
    }

    /// The files and forks, for a test that breaks an invariant.
    #[cfg(test)]
    pub(crate) fn forks_mut(&mut self) -> &mut Forks {
        &mut self.forks
    }

    /// The free blocks.
    pub(crate) fn space(&self) -> &Allocator {
        &self.space
    }

    /// The free blocks, to take, free or promise.
    pub(crate) fn space_mut(&mut self) -> &mut Allocator {
        &mut self.space
    }

    /// Clears the allocator: an opening counts free blocks after it has replayed the log.
    pub(crate) fn forget_space(&mut self) {
        self.space = Allocator::default();
    }

    /// The dirty chunks.
    pub(crate) fn dirty(&self) -> &Dirty {
        &self.dirty
    }

    /// Whether at least `least` slots are dirty as a whole; if so, they count as flushed.
    pub(crate) fn take_full_slots(&mut self, least: u64) -> bool {
        self.dirty.take_full_slots(least)
    }

    /// The pages and entries in memory, and their order of eviction.
    pub(crate) fn cache(&self) -> &Residency {
        &self.cache
    }

    /// The cache, to be told that entries can be evicted again.
    pub(crate) fn cache_mut(&mut self) -> &mut Residency {
        &mut self.cache
    }

    /// The differences from the index.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The differences from the index, to be taken.
    pub(crate) fn changes_mut(&mut self) -> &mut Changes {
        &mut self.changes
    }

    /// The doubt.
    pub(crate) fn doubts(&self) -> &Doubts {
        &self.doubts
    }

    /// The doubt, to be changed.
    pub(crate) fn doubts_mut(&mut self) -> &mut Doubts {
        &mut self.doubts
    }

    /// The forks that the last frames touched.
    pub(crate) fn touches(&mut self) -> &mut TouchedForks {
        &mut self.touches
    }

    /// Chunks whose entries may have lost blocks.
    pub(crate) fn lossy_mut(&mut self) -> &mut LossyChunks {
        &mut self.lossy
    }

    /// Notes that a file has coded blocks.
    pub(crate) fn note_coded(&mut self, file: FileId) {
        self.coded_files.insert(file);
    }

    /// Whether a file may have coded blocks.
    pub(crate) fn may_have_coded(&self, file: FileId) -> bool {
        self.coded_files.contains(&file)
    }

    /// As [`StoreState::lossy_mut`], to be looked at.
    pub(crate) fn lossy_chunks(&self) -> &LossyChunks {
        &self.lossy
    }

    /// The load that large calls in flight will add.
    pub(crate) fn admitted(&self) -> &CallLoad {
        &self.admitted
    }

    /// A large call begins.
    pub(crate) fn admit(&mut self, load: &CallLoad) {
        self.admitted = self.admitted.with(load, |all, mine| all + mine);
    }

    /// A large call has ended.
    pub(crate) fn discharge(&mut self, load: &CallLoad) {
        self.admitted = self.admitted.with(load, |all, mine| all - mine);
    }

    /// Whether the log has changes that the index lacks.
    pub(crate) fn differs_from_index(&self) -> bool {
        !self.changes.is_empty() || !self.dirty.chunks().is_empty()
    }

    /// The record of the store, for an index that has everything up to frame `applied`.
    pub(crate) fn record(&self, applied: u64, several: bool) -> StoreRecord {
        StoreRecord {
            next_fork: self.forks.next_id().0,
            applied,
            several,
        }
    }
}
