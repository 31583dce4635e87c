//! One application of the log: the batches that bring its changes into the index.

use std::collections::VecDeque;

use weft_kv::{Batch, OrderedKv};

use super::changes::RemovedFork;
use crate::error::StoreError;
use crate::record::ForkId;

/// Changes in one batch of the index.
const BATCH: usize = 1024;

/// What goes into the index. The log keeps all of it until the index has it.
pub(crate) struct Application {
    batches: IndexBatches,
    chunks: Vec<(ForkId, u64)>,
    removed: Vec<RemovedFork>,
    bound: u64,
    logged: u64,
}

/// Changes of the index, in batches of bounded size.
#[derive(Default)]
pub(crate) struct IndexBatches(VecDeque<Batch>);

impl IndexBatches {
    /// Adds a change behind the others.
    pub(crate) fn push(&mut self, change: (weft_kv::Space, Vec<u8>, Option<Vec<u8>>)) {
        match self.0.back_mut() {
            Some(batch) if batch.changes.len() < BATCH => batch.changes.push(change),
            _ => self.push_alone(change),
        }
    }

    /// Adds a change as a batch of its own.
    pub(crate) fn push_alone(&mut self, change: (weft_kv::Space, Vec<u8>, Option<Vec<u8>>)) {
        self.0.push_back(Batch {
            changes: vec![change],
        });
    }
}

impl Application {
    /// An application of all frames up to `bound`; `logged`: what replaying them would have cost.
    pub(crate) fn new(
        batches: IndexBatches,
        chunks: Vec<(ForkId, u64)>,
        removed: Vec<RemovedFork>,
        bound: u64,
        logged: u64,
    ) -> Self {
        Self {
            batches,
            chunks,
            removed,
            bound,
            logged,
        }
    }

    /// The last frame that is in it.
    pub(crate) fn bound(&self) -> u64 {
        self.bound
    }

    /// The replay cost that had been logged when it began.
    pub(crate) fn logged(&self) -> u64 {
        self.logged
    }

    /// The chunks whose entries it brings.
    pub(crate) fn chunks(&self) -> &[(ForkId, u64)] {
        &self.chunks
    }

    /// The removed forks that it is the first to know of.
    pub(crate) fn into_removed(self) -> Vec<RemovedFork> {
        self.removed
    }

    /// Writes the batches to the index and syncs. What was not written is left: writing a batch
    /// again changes nothing.
    ///
    /// # Errors
    /// What the index refused; the batches written so far are gone from the application.
    pub(crate) fn write(&mut self, index: &dyn OrderedKv) -> Result<(), StoreError> {
        let IndexBatches(batches) = &mut self.batches;
        while let Some(batch) = batches.front() {
            index.write(batch.clone())?;
            batches.pop_front();
        }
        Ok(index.sync()?)
    }
}
