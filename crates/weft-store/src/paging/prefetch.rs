//! Prefetching, by prediction or on request, and releasing pages.

use std::ops::Range;

use weft_layout::CellOffset;

use super::load::Missing;
use crate::cache::PrefetchBounds;
use crate::engine::{Inner, Store};
use crate::error::StoreError;
use crate::forks::by_chunk;
use crate::key::ForkKey;
use crate::limits::{FETCH_SLOTS, PREFETCH_BYTES_MAX, PREFETCH_STEP};
use crate::pages::{SLOT, WantedBlock, slot_of};
use crate::pool::BLOCK;
use crate::record::ForkId;
use crate::state::StoreState;

impl Inner {
    /// Takes note of a read and prefetches what is likely to be read next.
    pub(crate) fn prefetch_after(&self, state: &mut StoreState, id: ForkId, bytes: Range<u64>) {
        if bytes.is_empty() || !self.bounds().rules.prefetch {
            return;
        }
        let Some(fork) = state.forks().get(id) else {
            return;
        };
        let length = fork.length();
        let slots = bytes.start / SLOT..(bytes.end - 1) / SLOT + 1;
        let cache = self.bounds().cache;
        let in_flight = self.prefetches().slots() as u64;
        let left = (PREFETCH_BYTES_MAX.min(cache / 8) / SLOT).saturating_sub(in_flight);
        // All sequential reads share a quarter of the cache, but each gets at least one fetch.
        let bounds_for = |sequences: u64| PrefetchBounds {
            most: (cache / 4 / SLOT / sequences.max(1)).max(FETCH_SLOTS),
            in_flight_left: left,
            end: length.div_ceil(SLOT),
        };
        let Some(fetch) = state.predict(id, slots, bounds_for) else {
            return;
        };
        let mut start = fetch.start;
        while start < fetch.end {
            let end = fetch.end.min((start / FETCH_SLOTS + 1) * FETCH_SLOTS);
            self.spawn_prefetch(id, start * SLOT..length.min(end * SLOT));
            start = end;
        }
    }

    fn spawn_prefetch(&self, id: ForkId, range: Range<u64>) {
        let slots = (range.end - range.start).div_ceil(SLOT) as usize;
        let (store, prefetch) = (self.to_arc(), self.prefetches().begin(slots));
        tokio::spawn(async move {
            let _prefetch = prefetch;
            // A read that needs the bytes gets the error.
            if let Err(error) = store.fetch(id, range).await {
                tracing::debug!(%error, "prefetching failed");
            }
        });
    }

    /// Loads a range of a fork into the cache; returns the bytes that were read from the disks.
    pub(crate) async fn fetch(&self, id: ForkId, range: Range<u64>) -> Result<u64, StoreError> {
        // Entries first, then blocks; another round if the map changed meanwhile.
        for _ in 0..4 {
            let missing = self.find_missing(id, &range);
            if missing.is_empty() {
                return Ok(0);
            }
            if missing.entries.is_empty() {
                let blocks = missing.blocks.len() as u64;
                self.prefetch_blocks(&missing.blocks).await?;
                return Ok(blocks * BLOCK as u64);
            }
            self.load(Missing {
                blocks: Vec::new(),
                ..missing
            })
            .await?;
        }
        Ok(0)
    }

    /// Entries and blocks of a range that are not in memory.
    fn find_missing(&self, id: ForkId, range: &Range<u64>) -> Missing {
        let state = self.lock();
        let mut missing = Missing::default();
        let Some(fork) = state.forks().get(id).filter(|f| f.chunk() != 0) else {
            return missing;
        };
        let end = range.end.min(fork.length());
        let length = end.saturating_sub(range.start);
        for piece in by_chunk(fork.chunk(), range.start, length) {
            let owner = match state.forks().shown(id, piece.chunk) {
                Ok(owner) => owner,
                Err(unknown) => {
                    missing.entries.insert((unknown, piece.chunk));
                    continue;
                }
            };
            let chunk = &state.forks()[owner].chunks()[&piece.chunk];
            let block = BLOCK as u32;
            for b in piece.bytes.start / block..piece.bytes.end.div_ceil(block) {
                if let Some((place, _)) = chunk.place(b)
                    && chunk.valid_page(b).is_none()
                {
                    missing.blocks.push(WantedBlock {
                        id: owner,
                        chunk: piece.chunk,
                        block: b,
                        place,
                    });
                }
            }
        }
        missing
    }

    /// Makes a range's pages the first to be evicted.
    fn mark_evictable(&self, id: ForkId, range: &Range<u64>) {
        let mut state = self.lock();
        let state = &mut *state;
        let Some(fork) = state.forks().get(id).filter(|f| f.chunk() != 0) else {
            return;
        };
        let (size, end) = (fork.chunk(), range.end.min(fork.length()));
        let length = end.saturating_sub(range.start);
        for piece in by_chunk(size, range.start, length) {
            let slots = slot_of(piece.bytes.start / BLOCK as u32)
                ..=slot_of((piece.bytes.end - 1) / BLOCK as u32);
            state.spend_pages(id, piece.chunk, slots);
        }
    }
}

impl Store {
    /// [`Store::prefetch`] of a plain fork.
    pub(crate) async fn prefetch_plain(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
        offset: CellOffset,
        length: u64,
    ) -> Result<u64, StoreError> {
        let id = {
            let state = self.0.lock();
            state.check_alive(key.file)?;
            state.find_in(key, checkpoint)?
        };
        let Some(id) = id else { return Ok(0) };
        let end = offset
            .0
            .saturating_add(length.min(self.0.bounds().cache / 2));
        let (mut at, mut bytes) = (offset.0, 0);
        while at < end
            && self
                .0
                .lock()
                .forks()
                .get(id)
                .is_some_and(|f| at < f.length())
        {
            let next = end.min(at + PREFETCH_STEP);
            bytes += self.0.fetch(id, at..next).await?;
            at = next;
        }
        Ok(bytes)
    }

    /// [`Store::release`] of a plain fork.
    pub(crate) async fn release_plain(
        &self,
        key: &ForkKey,
        offset: CellOffset,
        length: u64,
    ) -> Result<(), StoreError> {
        let Some(id) = ({
            let state = self.0.lock();
            state.check_alive(key.file)?;
            state.find(key)
        }) else {
            return Ok(());
        };
        let range = offset.0..offset.0.saturating_add(length);
        self.0.flush_fork(id, &range).await?;
        self.0.mark_evictable(id, &range);
        Ok(())
    }
}
