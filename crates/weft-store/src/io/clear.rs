//! Clearing ranges: making bytes of a fork zeros without writing them. Whole blocks become holes
//! and their space is freed; incomplete blocks at either end are zeroed.
//!
//! As for a truncation, one `Clear` item of the log says all of it, and replaying it over an index
//! that already has later changes is harmless: every later item says again what lies there.
//! Rejected: a `Data` item of zeros for the ends and a `Map` item that removes places, because a
//! range would then be two or three items that a crash must not separate.

use std::ops::Range;

use crate::engine::{Inner, Store};
use crate::error::StoreError;
use crate::forks::{edges, numbers, up_to, whole_blocks, within};
use crate::key::{ForkKey, Timestamp};
use crate::limits::CLEAR_CHUNKS;
use crate::log::{DATA_COST, MAP_COST};
use crate::pages::WantedBlock;
use crate::paging::{Attempt, Missing};
use crate::pool::BLOCK;
use crate::record::{ForkId, ItemRecord, end_is_legal, new_body};
use crate::state::StoreState;

static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// What is cleared at one moment: a range below the length of a fork that has a chunk size.
struct ClearStep {
    id: ForkId,
    size: u32,
    range: Range<u64>,
}

impl Store {
    /// [`Store::clear`] of plain forks.
    pub(crate) async fn clear_plain(
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
            inner.admit_freeing().await?;
            let mut from = range.start;
            while from < range.end {
                let (made, reached) = inner.clear_step(key, from..range.end, modified).await?;
                (sequence, from) = (made, reached);
            }
        }
        inner.append(sequence)
    }
}

impl Inner {
    /// Clears the first chunks of a range; returns the frame's sequence and where the next step
    /// begins.
    async fn clear_step(
        &self,
        key: &ForkKey,
        range: Range<u64>,
        modified: Timestamp,
    ) -> Result<(u64, u64), StoreError> {
        let (mut most, mut attempt) = (CLEAR_CHUNKS, Attempt::First);
        // Not in the loop: it could evict what was just loaded, for ever.
        self.lock().evict(self.bounds().cache);
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
                    // Other calls evict what was just loaded: fewer chunks may stay loaded.
                    most = (most / 2).max(1);
                    continue;
                }
                let end = range.end.min(loaded.saturating_mul(u64::from(size)));
                let length = state.forks()[id].length();
                let step = ClearStep {
                    id,
                    size,
                    range: range.start..up_to(end, length, size),
                };
                if range.start >= length {
                    return Ok((state.sequence(), range.end));
                }
                let (missing, needed) = survey(&state, &step);
                if missing.is_empty() && state.space().can_promise(needed) {
                    let sequence = self.apply_clear(&mut state, &step, modified);
                    return Ok((sequence, if end < length { end } else { range.end }));
                }
                (missing, needed)
            };
            self.load(Missing { attempt, ..missing }).await?;
            attempt = Attempt::Retry;
            self.make_space_from_reserve(needed).await?;
        }
    }

    fn apply_clear(&self, state: &mut StoreState, step: &ClearStep, modified: Timestamp) -> u64 {
        let (sequence, id) = (state.next_sequence(), step.id);
        let mut body = new_body(modified.0);
        ItemRecord::Clear {
            id,
            offset: step.range.start,
            length: step.range.end - step.range.start,
        }
        .encode(&mut body);
        let chunks = state.forks()[id]
            .chunks()
            .range(numbers(step.size, &step.range));
        let numbers: Vec<u64> = chunks.map(|(n, _)| *n).collect();
        state.charge_replay(DATA_COST + numbers.len() as u64 * MAP_COST);
        for n in numbers {
            let touched = within(step.size, &step.range, n);
            state.empty(id, n, whole_blocks(&touched, step.size), sequence);
            for edge in edges(&touched, step.size) {
                let block = edge.start / BLOCK as u32;
                if state.forks()[id].chunks()[&n].valid_page(block).is_some() {
                    let at = n * u64::from(step.size) + u64::from(edge.start);
                    self.buffer_bytes(state, id, step.size, at, &ZEROS[..edge.len()]);
                }
            }
        }
        let length = state.forks()[id].length();
        state.touch(id, length, modified.0);
        state.log(&body)
    }
}

/// The blocks at the ends that hold data and are not in memory, and how many blocks at the ends
/// need a reserved place.
fn survey(state: &StoreState, step: &ClearStep) -> (Missing, u64) {
    let (mut missing, mut needed) = (Missing::default(), 0);
    let all = numbers(step.size, &step.range);
    if state.forks()[step.id].parent().is_some() {
        for n in state.forks().view_chunks(step.id, all.clone(), usize::MAX) {
            missing.private_entry(state, step.id, n);
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
        let Some(chunk) = state.forks()[step.id].chunks().get(&n) else {
            continue;
        };
        for edge in edges(&within(step.size, &step.range, n), step.size) {
            let block = edge.start / BLOCK as u32;
            needed += u64::from(chunk.needs_promise(block));
            if chunk.valid_page(block).is_none()
                && let Some((place, _)) = chunk.place(block)
            {
                missing.blocks.push(WantedBlock {
                    id: step.id,
                    chunk: n,
                    block,
                    place,
                });
            }
        }
    }
    (missing, needed)
}
