//! Chunks that are named by the hash of their contents.
//!
//! A chunk is a fork of a reserved file that no namespace has; the hash is the fork's name. One
//! frame of the log makes it with its bytes, and it is removed like any fork, so everything that
//! holds of forks holds of it: checksums, recovery, scrub, check, space.

use std::collections::HashSet;
use std::ops::Bound;

use bytes::Bytes;
use weft_layout::{CellIndex, CellOffset};

use crate::counters::Counters;
use crate::engine::Store;
use crate::error::StoreError;
use crate::files::ListPage;
use crate::io::{PlainRead, READ_ATTEMPTS};
use crate::key::{
    ADDRESSED, CHUNK_MAX, CHUNK_MIN, ChunkName, ForkKey, Scattered, Timestamp, Write, chunk_key,
    name_of_chunk,
};
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
        let put = self.put_missing(vec![(*name, data)], now).await?;
        Ok(put > 0)
    }

    /// Puts chunks of 1 byte to 16 MiB that the store does not have, as one batch; returns their
    /// bytes. The caller computed the names.
    pub(super) async fn put_missing(
        &self,
        mut chunks: Vec<(ChunkName, Bytes)>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let counters = self.0.counters();
        let all = chunks.len() as u64;
        let names = chunks.iter().map(|(name, _)| *name);
        let _turn = self.0.turns().chunks(names).await;
        let mut seen = HashSet::new();
        chunks.retain(|(name, _)| seen.insert(*name) && !self.has_sound_chunk(name));
        let bytes = chunks.iter().map(|(_, data)| data.len() as u64).sum();
        Counters::add(&counters.chunks_known, all - chunks.len() as u64);
        Counters::add(&counters.chunks_put, chunks.len() as u64);
        if chunks.is_empty() {
            return Ok(0);
        }
        let names: Vec<ChunkName> = chunks.iter().map(|(name, _)| *name).collect();
        let holds = self.0.chunk_holds();
        for name in names.iter().filter(|name| holds.is_damaged(name)) {
            // It would have to be read where its last block is written in part.
            self.remove_fork(&chunk_key(name)).await?;
        }
        let writes = chunks.into_iter().map(|(name, data)| {
            Scattered::from(Write {
                key: chunk_key(&name),
                chunk: (data.len() as u32)
                    .next_multiple_of(BLOCK as u32)
                    .max(CHUNK_MIN),
                offset: CellOffset(0),
                data,
            })
        });
        self.write_plain(writes.collect(), None, now).await?;
        for name in &names {
            self.0.chunk_holds().note_put(name);
        }
        Ok(bytes)
    }

    /// The bytes of a chunk, which share the cache's memory; `None` if there is none of this name.
    ///
    /// # Errors
    /// Those of [`Store::read`]: bytes other than those stored are never returned.
    pub async fn get_chunk(&self, name: &ChunkName) -> Result<Option<Vec<Bytes>>, StoreError> {
        let key = chunk_key(name);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let PlainRead::Bytes(slices) = self
                .read_plain(&key, None, CellOffset(0), u64::from(CHUNK_MAX))
                .await?
            else {
                return Ok(None);
            };
            if self.verify(&slices, attempts >= READ_ATTEMPTS)? {
                return Ok(Some(slices.iter().map(|s| s.bytes().clone()).collect()));
            }
        }
    }

    /// Whether there is a chunk of this name. Cost: a look-up in memory.
    pub fn has_chunk(&self, name: &ChunkName) -> bool {
        self.0.lock().find(&chunk_key(name)).is_some()
    }

    /// As [`Store::has_chunk`], and no read has found it damaged.
    pub(super) fn has_sound_chunk(&self, name: &ChunkName) -> bool {
        self.has_chunk(name) && !self.0.chunk_holds().is_damaged(name)
    }

    /// The error of reading a chunk as one of the fork that has it. A damaged chunk counts as
    /// missing from now on: the next put of its bytes writes them.
    pub(super) fn chunk_failed(
        &self,
        error: StoreError,
        key: &ForkKey,
        chunk: u64,
        name: &ChunkName,
    ) -> StoreError {
        let error = error.of_chunk(key, chunk, name);
        if matches!(error, StoreError::BadChunk { .. }) {
            self.0.chunk_holds().note_damaged(*name);
        }
        error
    }

    /// The length of a chunk, if there is one of this name. Cost: as [`Store::has_chunk`].
    pub(super) fn chunk_length(&self, name: &ChunkName) -> Option<u64> {
        let state = self.0.lock();
        state
            .find(&chunk_key(name))
            .map(|id| state.forks()[id].length())
    }

    /// Removes a chunk; a missing one is no error. The caller knows that no file refers to it any
    /// more. The space is freed in the background.
    ///
    /// # Durability
    /// As [`Store::write`].
    pub async fn remove_chunk(&self, name: &ChunkName) -> Result<(), StoreError> {
        let _turn = self.0.turns().chunks([*name].into_iter()).await;
        self.remove_fork(&chunk_key(name)).await
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
            Bound::Excluded((CellIndex(0), chunk_key(name).fork))
        });
        let mut forks = file.forks().range((from, Bound::Unbounded));
        let mut found = Vec::new();
        for ((_, fork), id) in forks.by_ref().take(most) {
            if let Some(name) = name_of_chunk(fork) {
                found.push((name, state.forks()[*id].length()));
            }
        }
        (found, forks.next().is_some())
    }
}
