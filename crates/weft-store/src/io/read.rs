//! Reads: slices of verified pages, and zeros for holes.

use bytes::Bytes;
use weft_layout::{CellOffset, OFFSET_MAX};

use super::read_slice::ReadSlice;
use crate::counters::Counters;
use crate::engine::{Inner, Store};
use crate::error::StoreError;
use crate::forks::{ChunkRange, by_chunk};
use crate::key::ForkKey;
use crate::pages::{WantedBlock, slot_of};
use crate::paging::{Attempt, Missing};
use crate::pool::BLOCK;
use crate::record::{ForkId, end_is_legal};
use crate::state::{ReadChunk, StoreState};

/// The zeros that holes are read as.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// How often bytes are read that change in memory.
pub const READ_ATTEMPTS: u32 = 3;

/// What a fork has in a range.
pub(crate) enum PlainRead {
    NoFork,
    Bytes(Vec<ReadSlice>),
    /// The fork is addressed: the size of its chunks, and its length.
    Addressed {
        chunk: u32,
        end: u64,
    },
}

/// Bytes of one slot's page, or a hole.
enum FoundBytes {
    Cached(ReadSlice),
    Hole(u64),
}

impl Store {
    /// [`Store::read_slices`] of a plain fork.
    pub(crate) async fn read_plain(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
        offset: CellOffset,
        length: u64,
    ) -> Result<PlainRead, StoreError> {
        let inner = &self.0;
        Counters::add(&inner.counters().reads, 1);
        if !end_is_legal(offset.0, 0) {
            return Err(StoreError::PastLimit {
                offset: offset.0,
                length,
            });
        }
        let length = length.min(OFFSET_MAX - offset.0);
        let mut attempt = Attempt::First;
        loop {
            let missing = {
                let mut state = inner.lock();
                state.check_alive(key.file)?;
                let found = state.find_in(key, checkpoint)?;
                state.check_proven(key, (found, checkpoint), offset.0..offset.0 + length)?;
                let Some(id) = found else {
                    return Ok(PlainRead::NoFork);
                };
                let fork = &state.forks()[id];
                if fork.is_addressed() {
                    let (chunk, end) = (fork.chunk(), fork.length());
                    return Ok(PlainRead::Addressed { chunk, end });
                }
                match inner.gather(&mut state, id, offset.0, length, attempt) {
                    Ok(found) => {
                        let sequence = state.sequence();
                        drop(state);
                        inner.append_before_reply(sequence)?;
                        return Ok(PlainRead::Bytes(inner.slices_of(found)));
                    }
                    Err(missing) => missing,
                }
            };
            let missing = Missing { attempt, ..missing };
            attempt = Attempt::Retry;
            inner.load(missing).await?;
        }
    }
}

impl Inner {
    /// The bytes of a range, or what is missing in memory. The first attempt counts hits and misses
    /// and may prefetch.
    fn gather(
        &self,
        state: &mut StoreState,
        id: ForkId,
        offset: u64,
        length: u64,
        attempt: Attempt,
    ) -> Result<Vec<FoundBytes>, Missing> {
        let (size, end) = (state.forks()[id].chunk(), state.forks()[id].length());
        let length = length.min(end.saturating_sub(offset));
        if size == 0 {
            return Ok(if length > 0 {
                vec![FoundBytes::Hole(length)]
            } else {
                Vec::new()
            });
        }
        let mut missing = Missing::default();
        let mut found = Vec::new();
        let (mut hits, mut prefetched) = (0, 0);
        for range in by_chunk(size, offset, length) {
            let owner = match state.forks().shown(id, range.chunk) {
                Ok(owner) => owner,
                Err(unknown) => {
                    missing.entries.insert((unknown, range.chunk));
                    continue;
                }
            };
            let chunk = state.chunk_to_read(owner, range.chunk);
            let mut chunk = chunk.expect("its entry is not missing");
            hits += gather_chunk(
                &range,
                &mut chunk,
                &mut found,
                &mut missing,
                &mut prefetched,
            );
        }
        Counters::add(&self.counters().prefetched_used, prefetched);
        if attempt == Attempt::First {
            self.prefetch_after(state, id, offset..offset + length);
            Counters::add(&self.counters().cache_hits, hits);
            Counters::add(&self.counters().cache_misses, missing.blocks.len() as u64);
        }
        if missing.is_empty() {
            return Ok(found);
        }
        for bytes in found {
            if let FoundBytes::Cached(slice) = bytes {
                slice.return_unused(state);
            }
        }
        Err(missing)
    }

    fn slices_of(&self, found: Vec<FoundBytes>) -> Vec<ReadSlice> {
        let mut out = Vec::with_capacity(found.len());
        let mut bytes = 0;
        for piece in found {
            match piece {
                FoundBytes::Cached(slice) => {
                    bytes += slice.len() as u64;
                    out.push(slice);
                }
                FoundBytes::Hole(length) => {
                    bytes += length;
                    out.extend(zeros(length));
                }
            }
        }
        Counters::add(&self.counters().read_bytes, bytes);
        out
    }
}

/// So many zeros.
pub(crate) fn zeros(mut length: u64) -> impl Iterator<Item = ReadSlice> {
    std::iter::from_fn(move || {
        let some = length.min(ZEROS.len() as u64);
        length -= some;
        (some > 0).then(|| Bytes::from_static(&ZEROS[..some as usize]).into())
    })
}

/// Collects the bytes that a chunk has of a range; returns how many blocks were cached.
fn gather_chunk(
    range: &ChunkRange,
    chunk: &mut ReadChunk<'_>,
    found: &mut Vec<FoundBytes>,
    missing: &mut Missing,
    prefetched: &mut u64,
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
            chunk.mark_used(slot_of(block));
            if missing.is_empty() {
                *prefetched += chunk.note_read(block, last, stop - at);
                let slice = ReadSlice::of(chunk, at..stop);
                found.push(FoundBytes::Cached(slice.expect("the page is valid")));
            }
        } else if let Some((place, _)) = chunk.place(block) {
            missing.blocks.push(WantedBlock {
                id: chunk.place_in_fork().0,
                chunk: range.chunk,
                block,
                place,
            });
        } else {
            match found.last_mut() {
                Some(FoundBytes::Hole(length)) => *length += u64::from(stop - at),
                _ => found.push(FoundBytes::Hole(u64::from(stop - at))),
            }
        }
        at = stop;
    }
    hits
}
