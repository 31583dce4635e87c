//! Chunks that are named by the hash of their contents: `docs/design/0017-addressed-chunks.md`.
//!
//! A chunk is a fork of a reserved file that no namespace has; the hash is the fork's name. One
//! frame of the log makes it with its bytes, and it is removed like any fork, so everything that
//! holds of forks holds of it: checksums, recovery, scrub, check, space.

use std::ops::Bound;

use bytes::Bytes;
use weft_layout::{CellIndex, CellOffset};

use super::list::ListPage;
use crate::engine::Store;
use crate::error::StoreError;
use crate::key::{ADDRESSED, CHUNK_MAX, CHUNK_MIN, ChunkName, Timestamp, Write};
use crate::pool::BLOCK;

impl Store {
    /// Stores a chunk of 1 byte to 16 MiB under its name. False if it was there already: nothing is
    /// written then, and a stored chunk is never overwritten.
    ///
    /// Cost: one hash over the bytes, and a write of them.
    /// # Durability
    /// As [`Store::write`]: a crash leaves all of the chunk or nothing of it.
    /// # Errors
    /// [`StoreError::WrongName`] if the bytes have another hash, and those of [`Store::write`].
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
        let _lane = self.0.turns().lane(name.as_bytes()[0]).await;
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

    /// The bytes of a chunk, which share the cache's memory; `None` if there is none of this name.
    ///
    /// # Errors
    /// Those of [`Store::read`]: bytes other than those stored are never returned.
    pub async fn get_chunk(&self, name: &ChunkName) -> Result<Option<Vec<Bytes>>, StoreError> {
        let key = name.key();
        loop {
            let Some(status) = self.status(&key).await? else {
                return Ok(None);
            };
            let bytes = self.read(&key, CellOffset(0), status.length).await?;
            // Less: it was removed between the two calls, and may be there again.
            if bytes.iter().map(|piece| piece.len() as u64).sum::<u64>() == status.length {
                return Ok(Some(bytes));
            }
        }
    }

    /// Whether there is a chunk of this name. Cost: a look-up in memory.
    pub fn has_chunk(&self, name: &ChunkName) -> bool {
        self.0.lock().find(&name.key()).is_some()
    }

    /// Removes a chunk; a missing one is no error. The caller knows that no file refers to it any
    /// more. The space is freed in the background.
    ///
    /// # Durability
    /// As [`Store::write`].
    pub async fn remove_chunk(&self, name: &ChunkName) -> Result<(), StoreError> {
        let _lane = self.0.turns().lane(name.as_bytes()[0]).await;
        self.remove_fork(&name.key()).await
    }

    /// Names and lengths of chunks after `after`, in the order of names, and whether there are
    /// more.
    ///
    /// Cost: the state's lock for `most` look-ups.
    pub fn list_chunks(
        &self,
        after: Option<&ChunkName>,
        most: usize,
    ) -> ListPage<(ChunkName, u64)> {
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
}
