//! Chunks that are named by what they hold: `docs/design/0017-addressed-chunks.md`.
//!
//! A chunk is a fork of a file that no namespace has, named with the hash. It comes with its bytes
//! in one frame of the log and goes as a fork goes, so everything that holds of forks holds of it:
//! checksums, recovery, scrub, check, space.

use std::ops::Bound;

use bytes::Bytes;
use weft_layout::{CellIndex, CellOffset};

use super::list::Page;
use crate::engine::Store;
use crate::error::StoreError;
use crate::key::{ADDRESSED, CHUNK_MAX, CHUNK_MIN, ChunkName, Timestamp, Write};
use crate::limits::LANES;
use crate::pool::BLOCK;

impl Store {
    /// Keeps 1 byte to 16 MiB under their name; false: they were there already, and nothing was
    /// written. A chunk that is there is never overwritten.
    ///
    /// Cost: one hash over the bytes, and a write of them.
    /// # Durability
    /// As [`Store::write`]: all of the chunk or nothing of it.
    /// # Errors
    /// [`StoreError::WrongName`] when the bytes have another name, and those of [`Store::write`].
    pub async fn put_chunk(
        &self,
        name: &ChunkName,
        data: Bytes,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let given = u32::try_from(data.len()).unwrap_or(u32::MAX);
        if !(1..=CHUNK_MAX).contains(&given) {
            return Err(StoreError::BadChunkSize { given });
        }
        let found = ChunkName::of(&data);
        if found != *name {
            return Err(StoreError::WrongName {
                given: *name,
                found,
            });
        }
        let _alone = self.lane(name).await;
        if self.has_chunk(name) {
            return Ok(false);
        }
        let write = Write {
            key: name.key(),
            chunk: given.next_multiple_of(BLOCK as u32).max(CHUNK_MIN),
            offset: CellOffset(0),
            data,
        };
        self.write(vec![write], now).await?;
        Ok(true)
    }

    /// The bytes of a chunk, which share the cache's memory; `None`: there is none of this name.
    ///
    /// # Errors
    /// Those of [`Store::read`]: bytes that are not what was kept are never returned.
    pub async fn get_chunk(&self, name: &ChunkName) -> Result<Option<Vec<Bytes>>, StoreError> {
        let key = name.key();
        loop {
            let Some(status) = self.status(&key).await? else {
                return Ok(None);
            };
            let bytes = self.read(&key, CellOffset(0), status.length).await?;
            // Less: it was removed between the two, and may be there again.
            if bytes.iter().map(|part| part.len() as u64).sum::<u64>() == status.length {
                return Ok(Some(bytes));
            }
        }
    }

    /// Whether there is a chunk of this name. Cost: a look-up in memory.
    pub fn has_chunk(&self, name: &ChunkName) -> bool {
        self.0.lock().find(&name.key()).is_some()
    }

    /// Removes a chunk; one that is not there is no error. The caller knows that nobody names it
    /// any more. The space comes back in the background.
    ///
    /// # Durability
    /// As [`Store::write`].
    pub async fn remove_chunk(&self, name: &ChunkName) -> Result<(), StoreError> {
        let _alone = self.lane(name).await;
        self.remove_fork(&name.key()).await
    }

    /// Chunks and their bytes in the order of their names, behind `after`, and whether there are
    /// more.
    ///
    /// Cost: the state's lock for `most` look-ups.
    pub fn list_chunks(&self, after: Option<&ChunkName>, most: usize) -> Page<(ChunkName, u64)> {
        let state = self.0.lock();
        let Some(file) = state.forks().file(ADDRESSED) else {
            return (Vec::new(), false);
        };
        let from = after.map_or(Bound::Unbounded, |name| {
            Bound::Excluded((CellIndex(0), name.key().fork))
        });
        let mut forks = file.forks().range((from, Bound::Unbounded));
        let mut found = Vec::new();
        for ((_, fork), id) in forks.by_ref().take(most) {
            if let Some(name) = ChunkName::of_fork(fork) {
                found.push((name, state.forks()[*id].length()));
            }
        }
        (found, forks.next().is_some())
    }

    /// Keeps two calls about one name apart.
    async fn lane(&self, name: &ChunkName) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.lanes[name.as_bytes()[0] as usize % LANES]
            .lock()
            .await
    }
}
