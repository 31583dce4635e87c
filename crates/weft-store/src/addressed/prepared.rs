//! Batches that are prepared: their chunks are stored, and no recipe names them yet.

use std::collections::BTreeMap;

use super::patch::ForkPatch;
use super::recipe::Entry;
use crate::engine::{HeldChunks, Store};
use crate::error::StoreError;
use crate::io::{AcceptedBatch, DiskWait, PreparedBatch};

/// A batch of writes that is not visible yet; the disk may still be writing it.
///
/// Dropping it frees its blocks, or leaves its chunks to the cleaner.
pub struct PreparedWrite {
    pub(super) plain: Option<AcceptedBatch>,
    pub(super) forks: Vec<PreparedFork>,
    /// Its chunks.
    pub(super) held: HeldChunks,
}

impl PreparedWrite {
    pub(crate) fn plain(batch: AcceptedBatch, store: &Store) -> PreparedWrite {
        PreparedWrite {
            plain: Some(batch),
            forks: Vec::new(),
            held: store.0.chunk_holds().none(),
        }
    }

    /// What the commit waits for; a caller may wait for it before, without the batch.
    pub fn disk(&self) -> Option<DiskWait> {
        self.plain.as_ref()?.disk()
    }

    /// Whether it touches no addressed fork.
    pub(crate) fn is_plain(&self) -> bool {
        self.forks.is_empty()
    }

    /// The writes to plain forks, when the disk has them, and the chunks that are held.
    pub(crate) async fn written(self) -> Result<(Option<PreparedBatch>, HeldChunks), StoreError> {
        let plain = match self.plain {
            Some(batch) => Some(batch.written().await?),
            None => None,
        };
        Ok((plain, self.held))
    }
}

/// What a batch writes into one addressed fork.
pub(super) struct PreparedFork {
    pub(super) patch: ForkPatch,
    pub(super) made: BTreeMap<u64, MadeChunk>,
}

/// A chunk as a batch makes it.
#[derive(Clone, Copy)]
pub(super) struct MadeChunk {
    pub(super) base: Base,
    pub(super) entry: Entry,
}

/// What a chunk was made from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// The batch alone: it covers the chunk.
    Nothing,
    /// The contents that the recipe named, and the batch.
    Entry(Entry),
    /// It is not made yet: it will be from what the recipe names then.
    Unread,
}
