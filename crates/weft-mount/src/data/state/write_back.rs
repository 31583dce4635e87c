//! Dirty bytes: how old they are, when they are due, and how many batches are in flight.
//!
//! Invariant: the mount's budget is charged exactly what [`Extents::charge`] says.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use weft_client::File;

use crate::data::budget::DirtyBudget;
use crate::data::extents::{Batch, Extents};
use crate::limits::{BATCHES_IN_FLIGHT_MAX, RUNS_PER_BATCH_MAX, TICKS_PER_FLUSH};

pub(super) struct WriteBack {
    extents: Extents,
    budget: Arc<DirtyBudget>,
    /// The attachment that wrote last; batches go through it.
    via: Option<File>,
    /// Counts ticks and flushes: the age of dirty bytes.
    epoch: u64,
    /// Bytes of earlier epochs are due.
    due: u64,
    /// Batches in flight.
    in_flight: usize,
    /// A change that needs the file at rest is in progress: no batch is sent.
    held: bool,
}

impl Drop for WriteBack {
    fn drop(&mut self) {
        self.budget.change(self.extents.charge(), 0);
    }
}

impl WriteBack {
    pub(super) fn new(budget: Arc<DirtyBudget>) -> WriteBack {
        WriteBack {
            extents: Extents::default(),
            budget,
            via: None,
            epoch: 1,
            due: 0,
            in_flight: 0,
            held: false,
        }
    }

    fn charged<T>(&mut self, change: impl FnOnce(&mut Extents) -> T) -> T {
        let before = self.extents.charge();
        let result = change(&mut self.extents);
        self.budget.change(before, self.extents.charge());
        result
    }

    pub(super) fn write(&mut self, offset: u64, data: Bytes, via: &File) {
        let epoch = self.epoch;
        self.charged(|extents| extents.write(offset, data, epoch));
        self.via = Some(via.clone());
    }

    /// The attachment that wrote last.
    pub(super) fn via(&self) -> Option<&File> {
        self.via.as_ref()
    }

    /// One past the last byte that is not at the servers yet; 0 without any.
    pub(super) fn end(&self) -> u64 {
        self.extents.end()
    }

    /// Dirty bytes, those in flight not counted.
    pub(super) fn dirty_bytes(&self) -> usize {
        self.extents.dirty_bytes()
    }

    /// Whether everything is at the servers.
    pub(super) fn is_clean(&self) -> bool {
        self.extents.oldest().is_none()
    }

    /// Whether everything that was written before this epoch has left the cache.
    pub(super) fn is_flushed_to(&self, epoch: u64) -> bool {
        self.extents.oldest().is_none_or(|oldest| oldest >= epoch)
    }

    /// Whether dirty bytes are due.
    pub(super) fn is_due(&self) -> bool {
        self.extents
            .oldest()
            .is_some_and(|oldest| oldest < self.due)
    }

    /// What lies over the servers' bytes of a range.
    pub(super) fn overlay(&self, range: Range<u64>) -> Vec<(u64, Bytes)> {
        self.extents.overlay(range)
    }

    /// Everything written until now is due; returns the epoch of what is written from now on.
    pub(super) fn make_all_due(&mut self) -> u64 {
        self.epoch += 1;
        self.due = self.due.max(self.epoch);
        self.epoch
    }

    /// Dirty bytes age by a tick.
    pub(super) fn tick(&mut self) {
        self.epoch += 1;
        let due = self.epoch.saturating_sub(u64::from(TICKS_PER_FLUSH));
        self.due = self.due.max(due);
    }

    pub(super) fn hold(&mut self) {
        self.held = true;
    }

    pub(super) fn release(&mut self) {
        self.held = false;
    }

    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    pub(super) fn may_send(&self) -> bool {
        !self.held && self.in_flight < BATCHES_IN_FLIGHT_MAX
    }

    /// Whether no batch is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// A transfer is sent.
    pub(super) fn begin_transfer(&mut self) {
        self.in_flight += 1;
    }

    /// A transfer has arrived or was abandoned.
    pub(super) fn end_transfer(&mut self, batch: &Batch) {
        self.charged(|extents| extents.arrived(batch));
        self.in_flight -= 1;
    }

    /// Takes the next batch that is whole or due.
    pub(super) fn take_due(&mut self) -> Option<Batch> {
        let due = self.due;
        self.charged(|extents| extents.take(due, RUNS_PER_BATCH_MAX))
    }

    /// Takes everything dirty.
    pub(super) fn take_all(&mut self) -> Option<Batch> {
        self.charged(Extents::take_all)
    }

    /// Drops dirty bytes from `size` on.
    pub(super) fn truncate(&mut self, size: u64) {
        self.charged(|extents| extents.truncate(size));
    }
}
