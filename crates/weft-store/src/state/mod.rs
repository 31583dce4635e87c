//! Everything a store knows in memory, under one lock: the parts of the rooms below, and the rules
//! that touch several of them.
//!
//! One owner: every change of forks, maps, pages and free blocks happens here, together with the
//! log frame that records it, in the order of the frames' sequences. The lock is held for
//! microseconds, never while waiting for a disk. Rejected: a lock per fork or chunk, because a
//! batch touches several and the log needs one order anyway.
//!
//! Invariants, each kept by the rules here because no single part can keep it:
//! 1. A block of an entry is not free, and a block that an entry loses is free after the next sync.
//! 2. Each dirty block that is not being flushed has a promise of the allocator.
//! 3. What differs from the index is among the changes, and a frame of the log says it.

mod applying;
mod blocks;
mod doubts;
mod flushing;
mod frames;
mod health;
mod lineage;
mod load;
mod lost;
mod names;
mod opening;
mod pages;
mod reading;
mod touched;
mod truncation;

use crate::cache::{Dirty, Residency};
use crate::config::CacheRules;
use crate::doubt::{Doubts, LossyChunks, Touches};
use crate::forks::Forks;
use crate::index::Changes;
use crate::log::LogHead;
use crate::record::StoreRecord;
use crate::space::Allocator;

pub(crate) use applying::IndexEntry;
pub(crate) use blocks::extent;
pub(crate) use flushing::{FlushRound, FlushScope, count_runs};
pub(crate) use load::CallLoad;
pub(crate) use names::check_fork;
pub(crate) use pages::BlockChange;
pub(crate) use reading::ReadChunk;

/// Everything a store knows in memory.
#[derive(Debug, Default)]
pub(crate) struct StoreState {
    forks: Forks,
    space: Allocator,
    cache: Residency,
    dirty: Dirty,
    changes: Changes,
    head: LogHead,
    /// What large calls in flight will add.
    admitted: CallLoad,
    health: health::Health,
    doubts: Doubts,
    touches: Touches,
    lossy: LossyChunks,
}

impl StoreState {
    /// The state of a store whose cache has these rules, and of which nothing is known yet.
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

    /// The free blocks, to be taken, freed or promised.
    pub(crate) fn space_mut(&mut self) -> &mut Allocator {
        &mut self.space
    }

    /// Forgets which blocks are free: an opening counts them after it has replayed the log.
    pub(crate) fn forget_space(&mut self) {
        self.space = Allocator::default();
    }

    /// What is dirty.
    pub(crate) fn dirty(&self) -> &Dirty {
        &self.dirty
    }

    /// Whether at least so many slots are dirty as a whole; they count as flushed then.
    pub(crate) fn take_full_slots(&mut self, least: u64) -> bool {
        self.dirty.take_full_slots(least)
    }

    /// What is in memory, and in which order it goes.
    pub(crate) fn cache(&self) -> &Residency {
        &self.cache
    }

    /// What is in memory, to be noted as read.
    pub(crate) fn cache_mut(&mut self) -> &mut Residency {
        &mut self.cache
    }

    /// What differs from the index.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// What differs from the index, to be taken.
    pub(crate) fn changes_mut(&mut self) -> &mut Changes {
        &mut self.changes
    }

    /// What is in doubt.
    pub(crate) fn doubts(&self) -> &Doubts {
        &self.doubts
    }

    /// What is in doubt, to be changed.
    pub(crate) fn doubts_mut(&mut self) -> &mut Doubts {
        &mut self.doubts
    }

    /// Which forks the last frames touched.
    pub(crate) fn touches(&mut self) -> &mut Touches {
        &mut self.touches
    }

    /// Chunks whose entries may say that blocks are lost.
    pub(crate) fn lossy_mut(&mut self) -> &mut LossyChunks {
        &mut self.lossy
    }

    /// As [`StoreState::lossy_mut`], to be looked at.
    pub(crate) fn lossy_chunks(&self) -> &LossyChunks {
        &self.lossy
    }

    /// What large calls in flight will add.
    pub(crate) fn admitted(&self) -> &CallLoad {
        &self.admitted
    }

    /// A large call begins that will add so much.
    pub(crate) fn admit(&mut self, load: &CallLoad) {
        self.admitted = self.admitted.with(load, |all, mine| all + mine);
    }

    /// A large call has ended.
    pub(crate) fn discharge(&mut self, load: &CallLoad) {
        self.admitted = self.admitted.with(load, |all, mine| all - mine);
    }

    /// Whether only the log has something.
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
