//! Reading ahead of callers, by itself or when told to, and giving pages back.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weft_layout::CellOffset;

use super::load::Missing;
use crate::cache::{FETCH, Reach};
use crate::engine::{Inner, Store};
use crate::error::StoreError;
use crate::forks::by_chunk;
use crate::key::ForkKey;
use crate::pages::{SLOT, Wanted, slot_of};
use crate::pool::BLOCK;
use crate::record::ForkId;
use crate::state::State;

/// Bytes that are fetched at a time, of all forks: what somebody waits for stands behind them.
const UNDER_WAY: u64 = 32 << 20;
/// Bytes that an explicit fetch brings at a time.
const STEP: u64 = 4 << 20;

/// Slots that are being fetched, as long as this lives.
struct Fetching {
    store: Arc<Inner>,
    slots: usize,
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.store.fetching.fetch_sub(self.slots, Relaxed);
    }
}

impl Inner {
    /// Takes note of a read and fetches what it foretells.
    pub(crate) fn foresee(&self, state: &mut State, id: ForkId, bytes: Range<u64>) {
        if bytes.is_empty() || !self.bounds.rules.prefetch {
            return;
        }
        let Some(fork) = state.forks().get(id) else {
            return;
        };
        let length = fork.length();
        let slots = bytes.start / SLOT..(bytes.end - 1) / SLOT + 1;
        let cache = self.bounds.cache;
        let under_way = self.fetching.load(Relaxed) as u64;
        let room = (UNDER_WAY.min(cache / 8) / SLOT).saturating_sub(under_way);
        // All that are swept through have a quarter of the cache together, but each a fetch.
        let reach = |sweeps: u64| Reach {
            most: (cache / 4 / SLOT / sweeps.max(1)).max(FETCH),
            room,
            end: length.div_ceil(SLOT),
        };
        let Some(fetch) = state.foresee(id, slots, reach) else {
            return;
        };
        let mut start = fetch.start;
        while start < fetch.end {
            let end = fetch.end.min((start / FETCH + 1) * FETCH);
            self.fetch_beside(id, start * SLOT..length.min(end * SLOT));
            start = end;
        }
    }

    fn fetch_beside(&self, id: ForkId, range: Range<u64>) {
        let slots = (range.end - range.start).div_ceil(SLOT) as usize;
        self.fetching.fetch_add(slots, Relaxed);
        let fetching = Fetching {
            store: self.me(),
            slots,
        };
        tokio::spawn(async move {
            // What cannot be read now is told to whoever asks for it.
            if let Err(error) = fetching.store.fetch(id, range).await {
                tracing::debug!(%error, "reading ahead failed");
            }
        });
    }

    /// Brings a range of a fork into the cache; the bytes that came from the disks.
    pub(crate) async fn fetch(&self, id: ForkId, range: Range<u64>) -> Result<u64, StoreError> {
        // Entries first, then blocks; a second round when the map changed meanwhile.
        for _ in 0..4 {
            let missing = self.absent(id, &range);
            if missing.is_empty() {
                return Ok(0);
            }
            if missing.entries.is_empty() {
                let blocks = missing.blocks.len() as u64;
                self.load_ahead(&missing.blocks).await?;
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
    fn absent(&self, id: ForkId, range: &Range<u64>) -> Missing {
        let state = self.lock();
        let mut missing = Missing::default();
        let Some(fork) = state.forks().get(id).filter(|f| f.chunk() != 0) else {
            return missing;
        };
        let end = range.end.min(fork.length());
        let length = end.saturating_sub(range.start);
        for part in by_chunk(fork.chunk(), range.start, length) {
            let owner = match state.forks().shown(id, part.chunk) {
                Ok(owner) => owner,
                Err(unknown) => {
                    missing.entries.insert((unknown, part.chunk));
                    continue;
                }
            };
            let chunk = &state.forks()[owner].chunks()[&part.chunk];
            let block = BLOCK as u32;
            for b in part.bytes.start / block..part.bytes.end.div_ceil(block) {
                if let Some((place, _)) = chunk.place(b)
                    && chunk.valid_page(b).is_none()
                {
                    missing.blocks.push(Wanted {
                        id: owner,
                        chunk: part.chunk,
                        block: b,
                        place,
                    });
                }
            }
        }
        missing
    }

    /// The first to go when the cache is full.
    fn let_go(&self, id: ForkId, range: &Range<u64>) {
        let mut state = self.lock();
        let state = &mut *state;
        let Some(fork) = state.forks().get(id).filter(|f| f.chunk() != 0) else {
            return;
        };
        let (size, end) = (fork.chunk(), range.end.min(fork.length()));
        let length = end.saturating_sub(range.start);
        for part in by_chunk(size, range.start, length) {
            let slots = slot_of(part.bytes.start / BLOCK as u32)
                ..=slot_of((part.bytes.end - 1) / BLOCK as u32);
            state.spend_pages(id, part.chunk, slots);
        }
    }
}

impl Store {
    /// Brings a range of a fork into the cache, as far as the cache is large; the bytes that came
    /// from the disks. Vesta's explicit prefetch.
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
        let id = {
            let state = self.0.lock();
            state.check_alive(key.file)?;
            state.find_in(key, checkpoint)?
        };
        let Some(id) = id else { return Ok(0) };
        let end = offset.0.saturating_add(length.min(self.0.bounds.cache / 2));
        let (mut at, mut bytes) = (offset.0, 0);
        while at < end
            && self
                .0
                .lock()
                .forks()
                .get(id)
                .is_some_and(|f| at < f.length())
        {
            let next = end.min(at + STEP);
            bytes += self.0.fetch(id, at..next).await?;
            at = next;
        }
        Ok(bytes)
    }

    /// Writes dirty pages of a range of a fork to their places, and makes its pages the first to go
    /// when the cache is full. Vesta's explicit flush; what was written is as durable as before.
    pub async fn release(
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
        self.0.let_go(id, &range);
        Ok(())
    }
}
