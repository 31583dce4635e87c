//! Making bytes of a fork zeros without writing any: whole blocks become holes and their space comes back, what is left of a
//! block at either end is zeroed.
//!
//! As a cut does it, one `Clear` item of the log says all of it, and replaying it over an index from its own future is
//! harmless: every later item says again what lies there. Rejected: a `Data` item of zeros for the ends and a `Map` item
//! that takes places away, because a range would then be two or three items that a crash must not part.

use std::ops::Range;

use crate::chunk::{Chunk, bit};
use crate::direct::whole_blocks;
use crate::error::StoreError;
use crate::key::{ForkKey, Timestamp};
use crate::load::{Missing, Wanted};
use crate::pool::BLOCK;
use crate::read::{ChunkRange, by_chunk};
use crate::record::{ForkId, ItemRecord, end_is_legal, new_body};
use crate::replay::{DATA_COST, MAP_COST};
use crate::state::State;
use crate::store::{Inner, Store};

static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Chunks that take effect at one moment.
const CHUNKS_MAX: usize = 4096;

/// What one moment clears: a range of a fork that has a chunk size, cut at the fork's length.
struct Part {
    id: ForkId,
    size: u32,
    range: Range<u64>,
}

impl Store {
    /// Makes ranges of forks zeros, and of the blocks of 4 KiB that lie in them wholly holes; no length changes. What lies beyond a
    /// fork's length is zeros already; so is a fork that does not exist. Repeating is safe.
    ///
    /// Cost: O(chunks with data in the ranges); the at most two blocks at the ends of a range are read if they are not cached.
    /// # Durability
    /// As [`Store::write`]. A range takes effect at one moment when it touches at most 4,096 chunks that have data;
    /// a longer one, and several ranges, one part after the other.
    /// # Errors
    /// [`StoreError::Stale`], [`StoreError::PastLimit`], and [`StoreError::NoSpace`] when not even the blocks at the ends find
    /// room: the ranges before the one that failed are cleared then.
    pub async fn clear(
        &self,
        ranges: &[(ForkKey, Range<u64>)],
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        for (_, range) in ranges {
            let length = range.end.saturating_sub(range.start);
            if !end_is_legal(range.start, length) {
                return Err(StoreError::PastLimit {
                    offset: range.start,
                    length,
                });
            }
        }
        let inner = &self.0;
        let mut sequence = 0;
        for (key, range) in ranges {
            inner.admit_cut().await?;
            let mut from = range.start;
            while from < range.end {
                let (made, reached) = inner.clear_part(key, from..range.end, modified).await?;
                (sequence, from) = (made, reached);
            }
        }
        inner.append(sequence)
    }
}

impl Inner {
    /// Clears the front of a range; returns the frame's sequence and how far it came.
    async fn clear_part(
        &self,
        key: &ForkKey,
        range: Range<u64>,
        modified: Timestamp,
    ) -> Result<(u64, u64), StoreError> {
        let (mut most, mut again) = (CHUNKS_MAX, false);
        // Not again below: that could evict what was just loaded, for ever.
        self.lock().evict(self.bounds.cache);
        loop {
            let (id, size) = {
                let state = self.lock();
                state.check_writable()?;
                state.check_alive(key.file)?;
                match state.find(key).map(|id| (id, state.forks[&id].chunk)) {
                    Some((id, size)) if size != 0 => (id, size),
                    _ => return Ok((state.sequence, range.end)),
                }
            };
            let (evictions, loaded) = self.load_view(id, range.start / u64::from(size), most)?;
            let (missing, needed) = {
                let mut state = self.lock();
                state.check_writable()?;
                state.check_alive(key.file)?;
                if state.evictions != evictions {
                    // Others evict what was just loaded: less of it may stay.
                    most = (most / 2).max(1);
                    continue;
                }
                let end = range.end.min(loaded.saturating_mul(u64::from(size)));
                let length = state.forks[&id].length;
                let part = Part {
                    id,
                    size,
                    range: range.start..up_to(end, length, size),
                };
                if range.start >= length {
                    return Ok((state.sequence, range.end));
                }
                let (missing, needed) = survey(&state, &part);
                if missing.is_empty() && state.disk.can_promise(needed) {
                    let sequence = self.take_clear(&mut state, &part, modified);
                    return Ok((sequence, if end < length { end } else { range.end }));
                }
                (missing, needed)
            };
            self.load(Missing { again, ..missing }).await?;
            again = true;
            self.make_space_for_cut(needed).await?;
        }
    }

    fn take_clear(&self, state: &mut State, part: &Part, modified: Timestamp) -> u64 {
        let (sequence, id) = (state.next_sequence(), part.id);
        let mut body = new_body(modified.0);
        ItemRecord::Clear {
            id,
            offset: part.range.start,
            length: part.range.end - part.range.start,
        }
        .encode(&mut body);
        let chunks = state.forks[&id]
            .chunks
            .range(numbers(part.size, &part.range));
        let numbers: Vec<u64> = chunks.map(|(n, _)| *n).collect();
        state.logged += DATA_COST + numbers.len() as u64 * MAP_COST;
        for n in numbers {
            let touched = within(part.size, &part.range, n);
            state.empty(id, n, whole_blocks(&touched, part.size), sequence);
            for edge in edges(&touched, part.size) {
                let block = edge.start / BLOCK as u32;
                if state.forks[&id].chunks[&n].valid_page(block).is_some() {
                    let at = n * u64::from(part.size) + u64::from(edge.start);
                    self.put(state, id, part.size, at, &ZEROS[..edge.len()]);
                }
            }
        }
        let length = state.forks[&id].length;
        state.touch(id, length, modified.0);
        state.log(&body)
    }
}

/// Where a clearing that is to go to `end` ends in a fork of this length: what lies beyond the length is zeros, so its last
/// block is cleared wholly.
fn up_to(end: u64, length: u64, size: u32) -> u64 {
    if end < length {
        return end;
    }
    let first = length / u64::from(size) * u64::from(size);
    let block_end = (length - first).next_multiple_of(BLOCK as u64);
    (first + block_end.min(u64::from(size))).min(weft_layout::OFFSET_MAX)
}

/// Numbers of the chunks that a range touches.
pub(crate) fn numbers(size: u32, range: &Range<u64>) -> Range<u64> {
    range.start / u64::from(size)..range.end.div_ceil(u64::from(size))
}

/// The part of a range that lies in chunk `n`, which it touches.
pub(crate) fn within(size: u32, range: &Range<u64>, n: u64) -> ChunkRange {
    let origin = n * u64::from(size);
    let start = range.start.max(origin);
    let end = range.end.min(origin + u64::from(size));
    let mut touched = by_chunk(size, start, end - start);
    touched.next().expect("the range touches the chunk")
}

/// The bytes of a chunk's range that make up no whole block: each part in one block.
pub(crate) fn edges(range: &ChunkRange, size: u32) -> impl Iterator<Item = Range<u32>> {
    let (whole, block) = (whole_blocks(range, size), BLOCK as u32);
    let bytes = range.bytes.clone();
    let (head, tail) = if whole.is_empty() {
        // Inside one block, or on both sides of a border between two.
        let border = bytes.end.min((bytes.start / block + 1) * block);
        (bytes.start..border, border..bytes.end)
    } else {
        let end = (whole.end * block).min(bytes.end);
        (bytes.start..whole.start * block, end..bytes.end)
    };
    [head, tail].into_iter().filter(|part| !part.is_empty())
}

/// The blocks at the ends that hold data and are not in memory, and how many of all those at the ends need a promise of a place.
fn survey(state: &State, part: &Part) -> (Missing, u64) {
    let (mut missing, mut needed) = (Missing::default(), 0);
    let all = numbers(part.size, &part.range);
    if state.forks[&part.id].parent.is_some() {
        for n in state.view_chunks(part.id, all.clone(), usize::MAX) {
            missing.own_entry(state, part.id, n);
        }
        if !missing.is_empty() {
            return (missing, 0);
        }
    }
    let mut ends = vec![all.start];
    if all.end - 1 > all.start {
        ends.push(all.end - 1);
    }
    for n in ends {
        let Some(chunk) = state.forks[&part.id].chunks.get(&n) else {
            continue;
        };
        for edge in edges(&within(part.size, &part.range, n), part.size) {
            let block = edge.start / BLOCK as u32;
            needed += u64::from(needs_promise(chunk, block));
            if chunk.valid_page(block).is_none()
                && let Some((place, _)) = chunk.place(block)
            {
                missing.blocks.push(Wanted {
                    id: part.id,
                    chunk: n,
                    block,
                    place,
                });
            }
        }
    }
    (missing, needed)
}

/// Whether zeroing a part of this block dirties it anew.
pub(crate) fn needs_promise(chunk: &Chunk, block: u32) -> bool {
    match chunk.valid_page(block) {
        Some(page) => page.promised() & bit(block) == 0,
        None => chunk.place(block).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a clearing makes of a range of chunk 0: its whole blocks, and the parts of others.
    fn cut(size: u32, range: Range<u64>) -> (Range<u32>, Vec<(u32, u32)>) {
        let touched = within(size, &range, 0);
        let parts = edges(&touched, size).map(|e| (e.start, e.end));
        (whole_blocks(&touched, size), parts.collect())
    }

    #[test]
    fn a_range_is_whole_blocks_and_what_is_left_at_its_ends() {
        assert_eq!(cut(65536, 0..65536), (0..16, vec![]));
        assert_eq!(cut(65536, 10..20), (1..1, vec![(10, 20)]));
        let two = vec![(4000, 4096), (4096, 5000)];
        assert_eq!(cut(65536, 4000..5000), (1..1, two));
        let apart = vec![(4000, 4096), (8192, 9000)];
        assert_eq!(cut(65536, 4000..9000), (1..2, apart));
        assert_eq!(cut(65536, 4096..8192), (1..2, vec![]));
        // The last block of an odd chunk is whole at the chunk's end.
        assert_eq!(cut(5000, 10..5000), (1..2, vec![(10, 4096)]));
        let both = vec![(10, 4096), (4096, 4999)];
        assert_eq!(cut(5000, 10..4999), (1..1, both));
    }

    #[test]
    fn at_the_end_of_a_fork_its_last_block_is_cleared_wholly() {
        assert_eq!(up_to(100, 1000, 65536), 100);
        assert_eq!(up_to(1000, 1000, 65536), 4096);
        assert_eq!(up_to(u64::MAX / 2, 70_000, 65536), 65536 + 8192);
        assert_eq!(up_to(9999, 4999, 5000), 5000);
        assert_eq!(up_to(9999, 8192, 65536), 8192);
    }
}
