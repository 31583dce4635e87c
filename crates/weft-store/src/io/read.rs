//! Reading: slices of verified pages, zeros for holes.

use bytes::Bytes;
use weft_layout::{CellOffset, OFFSET_MAX};

use super::part::Part;
use crate::cache::Residency;
use crate::counters::Counters;
use crate::engine::{Inner, Store};
use crate::error::StoreError;
use crate::forks::{ChunkRange, by_chunk};
use crate::key::ForkKey;
use crate::pages::{Chunk, Page, Wanted, bit, slot_of};
use crate::paging::Missing;
use crate::pool::BLOCK;
use crate::record::{ForkId, end_is_legal};
use crate::state::State;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// How often bytes that changed in memory are read again.
pub const READ_TRIES: u32 = 3;

/// Bytes of one slot's buffer, or a hole, on their way to the caller.
enum Found {
    Cached(Part),
    Hole(u64),
}

impl Store {
    /// The bytes of a fork from `offset` on: at most `length`, fewer where the fork ends, none
    /// beyond its end or where there is no such fork. Holes read as zeros.
    ///
    /// Cost: no copy; cached blocks are shared with the caller, who holds their memory until the
    /// slices are dropped. The caller bounds `length` (4 MiB is meant).
    pub async fn read(
        &self,
        key: &ForkKey,
        offset: CellOffset,
        length: u64,
    ) -> Result<Vec<Bytes>, StoreError> {
        self.read_of(key, None, offset, length).await
    }

    /// Reads a living fork, or one of a checkpoint.
    pub(crate) async fn read_of(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
        offset: CellOffset,
        length: u64,
    ) -> Result<Vec<Bytes>, StoreError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let parts = self.read_parts(key, checkpoint, offset, length).await?;
            if self.verify(&parts, tries >= READ_TRIES)? {
                return Ok(parts.into_iter().map(|part| part.bytes().clone()).collect());
            }
        }
    }

    /// As [`Store::read`], of a living fork or one of a checkpoint. Whoever uses the bytes calls
    /// [`Store::verify`] afterwards: until then nothing says that the cache's memory still holds
    /// what was stored.
    pub async fn read_parts(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
        offset: CellOffset,
        length: u64,
    ) -> Result<Vec<Part>, StoreError> {
        let inner = &self.0;
        Counters::add(&inner.counters.reads, 1);
        if !end_is_legal(offset.0, 0) {
            return Err(StoreError::PastLimit {
                offset: offset.0,
                length,
            });
        }
        let length = length.min(OFFSET_MAX - offset.0);
        let mut first = true;
        loop {
            let missing = {
                let mut state = inner.lock();
                state.check_alive(key.file)?;
                let found = state.find_in(key, checkpoint)?;
                state.check_proven(key, (found, checkpoint), offset.0..offset.0 + length)?;
                let Some(id) = found else {
                    return Ok(Vec::new());
                };
                match inner.gather(&mut state, id, offset.0, length, first) {
                    Ok(found) => {
                        let sequence = state.sequence();
                        drop(state);
                        inner.seen(sequence)?;
                        return Ok(inner.hand_out(found));
                    }
                    Err(missing) => missing,
                }
            };
            let missing = Missing {
                again: !first,
                ..missing
            };
            first = false;
            inner.load(missing).await?;
        }
    }
}

impl Inner {
    fn gather(
        &self,
        state: &mut State,
        id: ForkId,
        offset: u64,
        length: u64,
        count: bool,
    ) -> Result<Vec<Found>, Missing> {
        let (size, end) = (state.forks()[id].chunk(), state.forks()[id].length());
        let length = length.min(end.saturating_sub(offset));
        if size == 0 {
            return Ok(if length > 0 {
                vec![Found::Hole(length)]
            } else {
                Vec::new()
            });
        }
        let mut missing = Missing::default();
        let mut found = Vec::new();
        let (mut hits, mut foreseen) = (0, 0);
        let held = state.cache().held_below();
        for range in by_chunk(size, offset, length) {
            let owner = match state.forks().shown(id, range.chunk) {
                Ok(owner) => owner,
                Err(unknown) => {
                    missing.entries.insert((unknown, range.chunk));
                    continue;
                }
            };
            let (chunk, cache) = state
                .chunk_to_read(owner, range.chunk)
                .expect("its entry is not missing");
            let (queue, ahead) = ((held, cache), &mut foreseen);
            hits += gather_chunk(owner, &range, chunk, &mut found, &mut missing, queue, ahead);
        }
        Counters::add(&self.counters.prefetched_used, foreseen);
        if count {
            self.foresee(state, id, offset..offset + length);
            Counters::add(&self.counters.cache_hits, hits);
            Counters::add(&self.counters.cache_misses, missing.blocks.len() as u64);
        }
        if missing.is_empty() {
            return Ok(found);
        }
        for part in found {
            if let Found::Cached(part) = part {
                part.give_back(state);
            }
        }
        Err(missing)
    }

    fn hand_out(&self, found: Vec<Found>) -> Vec<Part> {
        let mut out = Vec::with_capacity(found.len());
        let mut bytes = 0;
        for part in found {
            match part {
                Found::Cached(part) => {
                    bytes += part.len() as u64;
                    out.push(part);
                }
                Found::Hole(mut length) => {
                    bytes += length;
                    while length > 0 {
                        let part = length.min(ZEROS.len() as u64);
                        out.push(Bytes::from_static(&ZEROS[..part as usize]).into());
                        length -= part;
                    }
                }
            }
        }
        Counters::add(&self.counters.read_bytes, bytes);
        out
    }
}

/// Blocks of a slot that were fetched ahead and are read now for the first time.
fn take_foreseen(page: &mut Page, first: u32, last: u32) -> u64 {
    let mask = (first..=last).fold(0, |mask, block| mask | bit(block));
    let count = (page.fetched & mask).count_ones();
    page.fetched &= !mask;
    u64::from(count)
}

/// Collects what a chunk has of a range; returns how many blocks were cached.
fn gather_chunk(
    id: ForkId,
    range: &ChunkRange,
    chunk: &mut Chunk,
    found: &mut Vec<Found>,
    missing: &mut Missing,
    (held, cache): (u32, &mut Residency),
    foreseen: &mut u64,
) -> u64 {
    let mut at = range.bytes.start;
    let mut hits = 0;
    while at < range.bytes.end {
        let block = at / BLOCK as u32;
        let mut stop = range.bytes.end.min((block + 1) * BLOCK as u32);
        if chunk.valid_page(block).is_some() {
            let mut last = block;
            hits += 1;
            while stop < range.bytes.end
                && slot_of(last + 1) == slot_of(block)
                && chunk.valid_page(last + 1).is_some()
            {
                last += 1;
                hits += 1;
                stop = range.bytes.end.min((last + 1) * BLOCK as u32);
            }
            let page = chunk.page_mut(slot_of(block)).expect("the page is valid");
            page.used = true;
            if missing.is_empty() {
                *foreseen += take_foreseen(page, block, last);
                if page.touch(stop - at, held) {
                    cache.spend(id, range.chunk, slot_of(block));
                }
                let part = Part::of(id, range.chunk, chunk, at..stop);
                found.push(Found::Cached(part.expect("the page is valid")));
            }
        } else if let Some((place, _)) = chunk.place(block) {
            missing.blocks.push(Wanted {
                id,
                chunk: range.chunk,
                block,
                place,
            });
        } else {
            match found.last_mut() {
                Some(Found::Hole(length)) => *length += u64::from(stop - at),
                _ => found.push(Found::Hole(u64::from(stop - at))),
            }
        }
        at = stop;
    }
    hits
}
