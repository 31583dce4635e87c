//! Reads that another replica helps with where this one has damaged bytes.

use std::ops::Range;

use bytes::Bytes;
use weft_layout::CellOffset;
use weft_store::{ForkKey, ReadSlice, Store, StoreError};

use super::mend::{Mending, may_be_elsewhere, mend};
use super::restore::{read_of_checkpoint, read_restored, read_slices_restored};
use super::store::ReplicatedStore;

impl ReplicatedStore {
    /// As [`Store::read`]. What cannot be read here is read from another replica, and mended.
    pub(in crate::io) async fn read(
        &self,
        key: &ForkKey,
        offset: CellOffset,
        length: u64,
    ) -> Result<Vec<Bytes>, StoreError> {
        let (store, replicas): (&Store, _) = (self, self.all_replicas());
        match read_restored(store, replicas, key, offset, length).await {
            Err(error) if self.mends(&error, key, offset, length).await => {
                read_restored(store, replicas, key, offset, length).await
            }
            done => done,
        }
    }

    /// As [`Store::read_slices`]. What cannot be read of the live fork is read from another
    /// replica, and mended.
    pub(in crate::io) async fn read_slices(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
        offset: CellOffset,
        length: u64,
    ) -> Result<Vec<ReadSlice>, StoreError> {
        let (store, replicas): (&Store, _) = (self, self.all_replicas());
        if checkpoint.is_some() {
            let read = store.read_slices(key, checkpoint, offset, length).await;
            let Err(error @ StoreError::Coded { .. }) = read else {
                return read;
            };
            let found = read_of_checkpoint(store, replicas, (key, checkpoint), offset, length);
            return found.await.map_or(Err(error), Ok);
        }
        match read_slices_restored(store, replicas, key, offset, length).await {
            Err(error) if self.mends(&error, key, offset, length).await => {
                read_slices_restored(store, replicas, key, offset, length).await
            }
            done => done,
        }
    }

    async fn mends(&self, error: &StoreError, key: &ForkKey, at: CellOffset, length: u64) -> bool {
        let range = at.0..at.0.saturating_add(length);
        may_be_elsewhere(error) && self.mend(key, range, Mending::Unreadable).await
    }

    /// Mends what cannot be read of a range of a live fork; false if something is left.
    pub(in crate::io) async fn mend(&self, key: &ForkKey, range: Range<u64>, how: Mending) -> bool {
        let Some(replicas) = self.replicas().cloned() else {
            return false;
        };
        let (store, key) = (Store::clone(self), key.clone());
        // It goes on if the caller is dropped.
        let mended = tokio::spawn(async move { mend(&store, &replicas, &key, range, how).await });
        mended.await.unwrap_or(false)
    }
}
