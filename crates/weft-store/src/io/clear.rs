//! Making bytes of a fork zeros without writing any: whole blocks become holes and their space
//! comes back, what is left of a block at either end is zeroed.
//!
//! As a cut does it, one `Clear` item of the log says all of it, and replaying it over an index
//! from its own future is harmless: every later item says again what lies there. Rejected: a `Data`
//! item of zeros for the ends and a `Map` item that takes places away, because a range would then
//! be two or three items that a crash must not part.

use std::ops::Range;

use crate::engine::{Inner, Store};
use crate::error::StoreError;
use crate::forks::{edges, numbers, up_to, whole_blocks, within};
use crate::key::{ForkKey, Timestamp};
use crate::log::{DATA_COST, MAP_COST};
use crate::pages::Wanted;
use crate::paging::Missing;
use crate::pool::BLOCK;
use crate::record::{ForkId, ItemRecord, end_is_legal, new_body};
use crate::state::State;

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
    /// Makes ranges of forks zeros, and of the blocks of 4 KiB that lie in them wholly holes; no
    /// length changes. What lies beyond a fork's length is zeros already; so is a fork that does
    /// not exist. Repeating is safe.
    ///
    /// Cost: O(chunks with data in the ranges); the at most two blocks at the ends of a range are
    /// read if they are not cached.
    /// # Durability
    /// As [`Store::write`]. A range takes effect at one moment when it touches at most 4,096 chunks
    /// that have data; a longer one, and several ranges, one part after the other.
    /// # Errors
    /// [`StoreError::Stale`], [`StoreError::PastLimit`], and [`StoreError::NoSpace`] when not even
    /// the blocks at the ends find room: the ranges before the one that failed are cleared then.
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
                match state.find(key).map(|id| (id, state.forks()[id].chunk())) {
                    Some((id, size)) if size != 0 => (id, size),
                    _ => return Ok((state.sequence(), range.end)),
                }
            };
            let (evictions, loaded) = self.load_view(id, range.start / u64::from(size), most)?;
            let (missing, needed) = {
                let mut state = self.lock();
                state.check_writable()?;
                state.check_alive(key.file)?;
                if state.cache().evictions() != evictions {
                    // Others evict what was just loaded: less of it may stay.
                    most = (most / 2).max(1);
                    continue;
                }
                let end = range.end.min(loaded.saturating_mul(u64::from(size)));
                let length = state.forks()[id].length();
                let part = Part {
                    id,
                    size,
                    range: range.start..up_to(end, length, size),
                };
                if range.start >= length {
                    return Ok((state.sequence(), range.end));
                }
                let (missing, needed) = survey(&state, &part);
                if missing.is_empty() && state.space().can_promise(needed) {
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
        let chunks = state.forks()[id]
            .chunks()
            .range(numbers(part.size, &part.range));
        let numbers: Vec<u64> = chunks.map(|(n, _)| *n).collect();
        state.charge_replay(DATA_COST + numbers.len() as u64 * MAP_COST);
        for n in numbers {
            let touched = within(part.size, &part.range, n);
            state.empty(id, n, whole_blocks(&touched, part.size), sequence);
            for edge in edges(&touched, part.size) {
                let block = edge.start / BLOCK as u32;
                if state.forks()[id].chunks()[&n].valid_page(block).is_some() {
                    let at = n * u64::from(part.size) + u64::from(edge.start);
                    self.put(state, id, part.size, at, &ZEROS[..edge.len()]);
                }
            }
        }
        let length = state.forks()[id].length();
        state.touch(id, length, modified.0);
        state.log(&body)
    }
}

/// The blocks at the ends that hold data and are not in memory, and how many of all those at the
/// ends need a promise of a place.
fn survey(state: &State, part: &Part) -> (Missing, u64) {
    let (mut missing, mut needed) = (Missing::default(), 0);
    let all = numbers(part.size, &part.range);
    if state.forks()[part.id].parent().is_some() {
        for n in state.forks().view_chunks(part.id, all.clone(), usize::MAX) {
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
        let Some(chunk) = state.forks()[part.id].chunks().get(&n) else {
            continue;
        };
        for edge in edges(&within(part.size, &part.range, n), part.size) {
            let block = edge.start / BLOCK as u32;
            needed += u64::from(chunk.needs_promise(block));
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
