//! Reads of addressed forks: slices of chunks, and zeros for holes.

use std::ops::Range;

use futures_util::{StreamExt, TryStreamExt, stream};
use weft_layout::CellOffset;

use super::recipe::Entry;
use crate::engine::Store;
use crate::error::StoreError;
use crate::forks::{ChunkRange, by_chunk};
use crate::io::{PlainRead, ReadSlice, zeros};
use crate::key::{ChunkName, ForkKey, chunk_key};
use crate::limits::CHUNKS_READ_AHEAD;

/// Which bytes of which fork are read.
pub(crate) struct ReadPlace<'a> {
    pub(crate) key: &'a ForkKey,
    pub(crate) checkpoint: Option<u64>,
    /// The size of a chunk.
    pub(crate) chunk: u32,
    /// Below the end of the fork.
    pub(crate) range: Range<u64>,
}

impl Store {
    /// [`Store::read_slices`] of an addressed fork.
    pub(crate) async fn read_addressed(
        &self,
        place: &ReadPlace<'_>,
    ) -> Result<Vec<ReadSlice>, StoreError> {
        let length = place.range.end - place.range.start;
        let parts: Vec<ChunkRange> = by_chunk(place.chunk, place.range.start, length).collect();
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
            return Ok(Vec::new());
        };
        let chunks = first.chunk..last.chunk + 1;
        let entries = self.entries(place.key, place.checkpoint, chunks).await?;
        let slices = stream::iter(parts.into_iter().zip(entries))
            .map(|(part, entry)| self.read_part(place, part, entry))
            .buffered(CHUNKS_READ_AHEAD)
            .try_concat();
        slices.await
    }

    async fn read_part(
        &self,
        place: &ReadPlace<'_>,
        part: ChunkRange,
        mut entry: Entry,
    ) -> Result<Vec<ReadSlice>, StoreError> {
        let (at, length) = (
            part.bytes.start,
            u64::from(part.bytes.end - part.bytes.start),
        );
        loop {
            let Some(name) = entry else {
                return Ok(zeros(length).collect());
            };
            let read = self
                .read_plain(&chunk_key(&name), None, CellOffset(at.into()), length)
                .await;
            let read = read.map_err(|e| self.chunk_failed(e, place.key, part.chunk, &name))?;
            if let PlainRead::Bytes(mut slices) = read {
                let found: u64 = slices.iter().map(|slice| slice.len() as u64).sum();
                slices.extend(zeros(length - found));
                return Ok(slices);
            }
            // The recipe may name another chunk since, and the cleaner was here.
            let chunks = part.chunk..part.chunk + 1;
            let now = self.entries(place.key, place.checkpoint, chunks).await?;
            let now = now.first().copied().flatten();
            if now == entry {
                return Err(StoreError::missing_chunk(place.key, part.chunk, &name));
            }
            entry = now;
        }
    }

    /// Loads the chunks of a range into the cache; returns the bytes read from the disks.
    pub(crate) async fn prefetch_addressed(
        &self,
        place: &ReadPlace<'_>,
    ) -> Result<u64, StoreError> {
        let mut bytes = 0;
        for (part, name) in self.named_parts(place).await? {
            let (at, length) = (part.bytes.start, part.bytes.end - part.bytes.start);
            let key = chunk_key(&name);
            bytes += self
                .prefetch_plain(&key, None, CellOffset(at.into()), length.into())
                .await?;
        }
        Ok(bytes)
    }

    /// Makes the pages of a range's chunks the first to be evicted. Other files may name them too.
    pub(crate) async fn release_addressed(&self, place: &ReadPlace<'_>) -> Result<(), StoreError> {
        for (part, name) in self.named_parts(place).await? {
            let (at, length) = (part.bytes.start, part.bytes.end - part.bytes.start);
            self.release_plain(&chunk_key(&name), CellOffset(at.into()), length.into())
                .await?;
        }
        Ok(())
    }

    /// The parts of a range that are not holes.
    async fn named_parts(
        &self,
        place: &ReadPlace<'_>,
    ) -> Result<Vec<(ChunkRange, ChunkName)>, StoreError> {
        let (start, size) = (place.range.start, u64::from(place.chunk));
        let chunks = start / size..place.range.end.div_ceil(size);
        let entries = self.entries(place.key, place.checkpoint, chunks).await?;
        let parts = by_chunk(place.chunk, start, place.range.end.saturating_sub(start));
        let named = parts
            .zip(entries)
            .filter_map(|(part, entry)| Some((part, entry?)));
        Ok(named.collect())
    }
}
