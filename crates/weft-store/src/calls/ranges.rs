//! Ranges: cleared, listed, prefetched, released.

use std::ops::Range;

use weft_layout::CellOffset;

use crate::addressed::{AddressedFork, ReadPlace};
use crate::engine::{Store, detached};
use crate::error::StoreError;
use crate::io::DataRuns;
use crate::key::{ForkKey, Timestamp};

impl Store {
    /// Makes ranges of forks zeros; blocks of 4 KiB that lie wholly in a range become holes. No
    /// length changes. Bytes beyond a fork's length are zeros already, as are those of a missing
    /// fork. Repeating is safe.
    ///
    /// Cost: O(chunks with data in the ranges); the at most two blocks at the ends of a range are
    /// read if they are not cached.
    /// # Durability
    /// As [`Store::write`]. A range takes effect at one moment if it touches at most 4,096 chunks
    /// that have data; a longer one, and several ranges, take effect in steps.
    /// # Errors
    /// [`StoreError::Stale`], [`StoreError::PastLimit`], and [`StoreError::NoSpace`] if there are
    /// no free blocks even for the ends: the ranges before the one that failed are cleared then.
    pub async fn clear(
        &self,
        ranges: &[(ForkKey, Range<u64>)],
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let mut plain = Vec::new();
        for (key, range) in ranges {
            if self.addressed(key, None)?.is_none() {
                plain.push((key.clone(), range.clone()));
                continue;
            }
            self.clear_plain(&std::mem::take(&mut plain), modified)
                .await?;
            let (store, key, range) = (self.clone(), key.clone(), range.clone());
            detached(async move { store.clear_addressed(&key, range, modified).await }).await?;
        }
        self.clear_plain(&plain, modified).await
    }

    /// The ranges that hold data at or after `from`, of a live fork or of one of this
    /// checkpoint, in blocks of 4 KiB up to the fork's length; none if there is no such fork. Zeros
    /// that were written count as data.
    ///
    /// Cost: checks at most `limit` chunks (at least one), whatever the holes between them, and
    /// stops after the chunk with which there are `limit` ranges. Progress is certain:
    /// [`DataRuns::next`] is beyond `from`.
    pub async fn data_runs(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
        from: CellOffset,
        limit: usize,
    ) -> Result<DataRuns, StoreError> {
        match self.addressed(key, checkpoint)? {
            None => self.plain_runs(key, checkpoint, from, limit).await,
            Some(fork) => {
                self.addressed_runs(key, checkpoint, fork, from, limit)
                    .await
            }
        }
    }

    /// Loads a range of a fork into the cache, up to half of the cache; returns the bytes that were
    /// read from the disks. Vesta's explicit prefetch.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub async fn prefetch(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
        offset: CellOffset,
        length: u64,
    ) -> Result<u64, StoreError> {
        let Some(fork) = self.addressed(key, checkpoint)? else {
            return self.prefetch_plain(key, checkpoint, offset, length).await;
        };
        let most = length.min(self.0.bounds().cache / 2);
        let place = place(key, checkpoint, fork, offset, most);
        self.prefetch_addressed(&place).await
    }

    /// Writes dirty pages of a range of a fork to the disks, and makes its pages the first to be
    /// evicted. Vesta's explicit flush; the bytes are as durable as before.
    pub async fn release(
        &self,
        key: &ForkKey,
        offset: CellOffset,
        length: u64,
    ) -> Result<(), StoreError> {
        let Some(fork) = self.addressed(key, None)? else {
            return self.release_plain(key, offset, length).await;
        };
        self.release_addressed(&place(key, None, fork, offset, length))
            .await
    }
}

fn place(
    key: &ForkKey,
    checkpoint: Option<u64>,
    fork: AddressedFork,
    offset: CellOffset,
    length: u64,
) -> ReadPlace<'_> {
    ReadPlace {
        key,
        checkpoint,
        chunk: fork.chunk,
        range: offset.0..offset.0.saturating_add(length).min(fork.length),
    }
}
