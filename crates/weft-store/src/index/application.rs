//! One application of the log: the batches of its changes for the index.

use std::collections::VecDeque;

use weft_kv::{Batch, OrderedKv};

use super::changes::RemovedFork;
use crate::error::StoreError;
use crate::limits::INDEX_BATCH;
use crate::record::ForkId;

/// Changes on their way to the index. The log retains all of them until the index has them.
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
    /// Adds a change at the end.
    pub(crate) fn push(&mut self, change: (weft_kv::Space, Vec<u8>, Option<Vec<u8>>)) {
        match self.0.back_mut() {
            Some(batch) if batch.changes.len() < INDEX_BATCH => batch.changes.push(change),
            _ => self.push_alone(change),
        }
    }

    /// Adds a change as a separate batch.
    pub(crate) fn push_alone(&mut self, change: (weft_kv::Space, Vec<u8>, Option<Vec<u8>>)) {
        self.0.push_back(Batch {
            changes: vec![change],
        });
    }
}

impl Application {
    /// An application of all frames up to `bound`; `logged`: the cost of replaying them.
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

    /// The last frame in it.
    pub(crate) fn bound(&self) -> u64 {
        self.bound
    }

    /// The replay cost that had been logged when it began.
    pub(crate) fn logged(&self) -> u64 {
        self.logged
    }

    /// The chunks whose entries it contains.
    pub(crate) fn chunks(&self) -> &[(ForkId, u64)] {
        &self.chunks
    }

    /// The removed forks whose records it deletes.
    pub(crate) fn into_removed(self) -> Vec<RemovedFork> {
        self.removed
    }

    /// Writes the batches to the index and syncs. After an error the rest stays for the next call:
    /// writing a batch twice changes nothing.
    ///
    /// # Errors
    /// The error of the index; the batches written so far have left the application.
    pub(crate) fn write(&mut self, index: &dyn OrderedKv) -> Result<(), StoreError> {
        let IndexBatches(batches) = &mut self.batches;
        while let Some(batch) = batches.front() {
            index.write(batch.clone())?;
            batches.pop_front();
        }
        Ok(index.sync()?)
    }
}
