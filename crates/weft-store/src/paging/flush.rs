//! Write-behind: dirty pages go to free places in full runs, then into the map.
//!
//! A round marks the blocks it takes as *flushing*. A write that comes meanwhile marks them
//! *redirtied*; a cut or a direct write takes the mark away. When the round ends it maps the blocks
//! that still carry its mark; redirtied ones stay dirty, because the frames after the round began
//! (`as_of`) are not in what it wrote.

use std::ops::{Bound, Range, RangeInclusive};

use super::operations::Operations;
use crate::cache::{bit, push_block, slot_of};
use crate::counters::Counters;
use crate::engine::{Inner, whole};
use crate::error::StoreError;
use crate::pool::{BLOCK, BUFFER_BLOCKS_MAX};
use crate::record::{ForkId, ItemRecord, Place, RunsRecord, checksum, new_body};
use crate::space::Extent;
use crate::state::State;

/// Blocks of one round: 16 MiB.
const ROUND_BLOCKS: u64 = 4096;

/// A block on its way to the disk.
struct Flight {
    id: ForkId,
    chunk: u64,
    block: u32,
    place: Place,
    crc: u32,
}

/// One round's blocks and where it stopped.
struct Round {
    flush: u64,
    as_of: u64,
    flights: Vec<Flight>,
    operations: Operations,
    next: Option<(ForkId, u64)>,
    which: Which,
    runs: u64,
    /// A block whose bytes changed in memory.
    rotten: Option<(ForkId, u64, u32)>,
}

/// The chunks of all forks.
const EVERY: RangeInclusive<(ForkId, u64)> = (ForkId(0), 0)..=(ForkId(u64::MAX), u64::MAX);

/// Which dirty pages a round takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// Those of slots that are dirty as a whole: they will hardly change again.
    Full,
}

impl Inner {
    /// Flushes until at most `keep` bytes are dirty; with 0, every page that was dirty at the call. A round that has begun ends
    /// also where the caller gives up: it has taken what was promised to its blocks.
    pub(crate) async fn flush(&self, keep: u64) -> Result<(), StoreError> {
        let me = self.me();
        whole(async move {
            let _one = me.flush_lock.lock().await;
            me.mend_promises().await?;
            me.flush_some(&EVERY, Which::All, keep).await
        })
        .await
    }

    /// Flushes slots that are dirty as a whole.
    pub(crate) async fn flush_full(&self) -> Result<(), StoreError> {
        let me = self.me();
        whole(async move {
            let _one = me.flush_lock.lock().await;
            me.flush_some(&EVERY, Which::Full, 0).await
        })
        .await
    }

    /// Flushes the chunks that a range of a fork touches.
    pub(crate) async fn flush_fork(
        &self,
        id: ForkId,
        range: &Range<u64>,
    ) -> Result<(), StoreError> {
        let size = self.lock().forks.get(&id).map_or(0, |f| u64::from(f.chunk));
        if size == 0 || range.is_empty() {
            return Ok(());
        }
        let chunks = (id, range.start / size)..=(id, (range.end - 1) / size);
        let me = self.me();
        whole(async move {
            let _one = me.flush_lock.lock().await;
            me.flush_some(&chunks, Which::All, 0).await
        })
        .await
    }

    async fn flush_some(
        &self,
        chunks: &RangeInclusive<(ForkId, u64)>,
        which: Which,
        keep: u64,
    ) -> Result<(), StoreError> {
        let mut from = Bound::Included(*chunks.start());
        loop {
            let dirty = self.lock().dirty_blocks;
            let most = match dirty.saturating_sub(keep / BLOCK as u64) {
                _ if keep == 0 => ROUND_BLOCKS,
                0 => return Ok(()),
                excess => excess.min(ROUND_BLOCKS),
            };
            let Some(mut round) = self.begin_round(from, chunks, which, most)? else {
                return Ok(());
            };
            let operations = std::mem::take(&mut round.operations);
            if let Err(failed) = self.write_operations(operations).await {
                self.abandon_round(round);
                if failed.again {
                    self.mend_promises().await?;
                    continue;
                }
                return Err(self.fail("flush dirty pages", failed.error.to_string()));
            }
            let next = round.next;
            let sequence = self.end_round(round);
            self.append(sequence)?;
            self.signals.room.notify_waiters();
            match next {
                Some(next) => from = Bound::Excluded(next),
                None => return Ok(()),
            }
        }
    }

    /// Takes dirty blocks until there are `most`, whole chunks of them.
    fn begin_round(
        &self,
        from: Bound<(ForkId, u64)>,
        chunks: &RangeInclusive<(ForkId, u64)>,
        which: Which,
        most: u64,
    ) -> Result<Option<Round>, StoreError> {
        let mut state = self.lock();
        if let Some(error) = state.failure() {
            return Err(error.clone());
        }
        let state = &mut *state;
        state.flushes += 1;
        let mut round = Round {
            flush: state.flushes,
            as_of: state.sequence(),
            flights: Vec::new(),
            operations: Operations::default(),
            next: None,
            which,
            runs: 0,
            rotten: None,
        };
        let mut at = from;
        while (round.flights.len() as u64) < most {
            let mut dirty = state.dirty_chunks.range((at, Bound::Unbounded));
            let next = dirty.next().filter(|next| *next <= chunks.end());
            let Some(&(id, n)) = next else {
                round.next = None;
                break;
            };
            take_off(state, id, n, &mut round);
            round.next = Some((id, n));
            at = Bound::Excluded((id, n));
        }
        if let Some((id, n, block)) = round.rotten {
            // The log has the right bytes as long as nothing of this is mapped.
            let error = StoreError::memory(&state.forks[&id].key, n, block, true);
            self.signals.room.notify_waiters();
            return Err(state.fail_memory(self.memory_fault(error)));
        }
        Counters::add(&self.counters.placed_runs, round.runs);
        let placed = round.flights.len() as u64;
        Counters::add(&self.counters.placed_blocks, placed);
        Ok((!round.flights.is_empty()).then_some(round))
    }

    /// A disk that failed took free blocks with it that dirty pages were promised: others grow.
    async fn mend_promises(&self) -> Result<(), StoreError> {
        let reserved = {
            let state = self.lock();
            (!state.disk.keeps_promises()).then(|| state.disk.reserved())
        };
        if let Some(reserved) = reserved
            && let Ok(_growing) = self.grow_lock.try_lock()
        {
            self.grow(reserved, self.bounds.growth).await?;
        }
        Ok(())
    }

    /// A disk failed: everything stays dirty and goes elsewhere with the next round.
    fn abandon_round(&self, round: Round) {
        let mut state = self.lock();
        for f in round.flights {
            let fork = state.forks.get_mut(&f.id);
            let chunk = fork.and_then(|fork| fork.chunks.get_mut(&f.chunk));
            let page = chunk.and_then(|c| c.page_mut(slot_of(f.block)));
            let mine = page.filter(|p| p.flush == round.flush && p.flushing & bit(f.block) != 0);
            if let Some(page) = mine {
                let promised = page.redirtied & bit(f.block) != 0;
                page.flushing &= !bit(f.block);
                page.redirtied &= !bit(f.block);
                state.disk.reserve(u64::from(!promised));
            }
            state.disk.free(Extent {
                start: f.place.0,
                blocks: 1,
            });
        }
    }

    /// Maps what the round wrote; returns the frame's sequence.
    fn end_round(&self, round: Round) -> u64 {
        let mut state = self.lock();
        let state = &mut *state;
        let sequence = state.next_sequence();
        let mut body = new_body(0);
        let mut runs: Option<((ForkId, u64), RunsRecord)> = None;
        let mut finish = |state: &mut State, runs: Option<((ForkId, u64), RunsRecord)>| {
            let Some(((id, chunk), runs)) = runs else {
                return;
            };
            state.mark_changed(id, chunk);
            state.count_entry(id, chunk);
            let clean = state
                .forks
                .get(&id)
                .and_then(|f| f.chunks.get(&chunk))
                .is_none_or(|c| !c.is_dirty());
            if clean {
                state.dirty_chunks.remove(&(id, chunk));
            }
            ItemRecord::Map {
                id,
                chunk,
                as_of: round.as_of,
                end: 0,
                runs,
            }
            .encode(&mut body);
        };
        for f in round.flights {
            if !land(state, &f, round.flush, round.as_of, sequence) {
                state.disk.free(Extent {
                    start: f.place.0,
                    blocks: 1,
                });
                continue;
            }
            if runs.as_ref().is_some_and(|(at, _)| *at != (f.id, f.chunk)) {
                finish(state, runs.take());
            }
            let record = &mut runs
                .get_or_insert_with(|| ((f.id, f.chunk), RunsRecord::default()))
                .1;
            push_block(record, f.block, f.place, f.crc, false);
        }
        finish(state, runs);
        state.log(&body)
    }
}

/// How many runs extents begin, given where the one before ended.
pub(crate) fn runs_of(extents: &[Extent], goal: u64) -> u64 {
    let first = extents.first().map_or(goal, |e| e.start);
    extents.len() as u64 - u64::from(first == goal)
}

/// Gives a chunk's dirty blocks places and marks them.
fn take_off(state: &mut State, id: ForkId, n: u64, round: &mut Round) {
    let Some(fork) = state.forks.get_mut(&id) else {
        return;
    };
    let wish = fork.wish(id);
    let Some(chunk) = fork.chunks.get_mut(&n) else {
        return;
    };
    let count: u64 = chunk
        .pages
        .iter()
        .flatten()
        .filter(|p| round.which == Which::All || p.dirty == u16::MAX)
        .map(|p| u64::from(p.dirty.count_ones()))
        .sum();
    if count == 0 {
        return;
    }
    let Some(extents) = state.disk.take_reserved(count, wish) else {
        return;
    };
    round.runs += runs_of(&extents, wish.goal);
    let mut places = extents
        .iter()
        .flat_map(|e| (e.start..e.start + e.blocks).map(Place));
    for (slot, page) in (0_u32..).zip(&mut chunk.pages) {
        let page = page.as_mut().filter(|p| p.dirty != 0);
        let Some(page) = page.filter(|p| round.which == Which::All || p.dirty == u16::MAX) else {
            continue;
        };
        page.flushing = page.dirty;
        page.redirtied = 0;
        page.flush = round.flush;
        for block in (slot * 16..slot * 16 + 16).filter(|b| page.dirty & bit(*b) != 0) {
            let place = places.next().expect("as many places as dirty blocks");
            let at = page.at(block % 16);
            let crc = page.sums[block as usize % BUFFER_BLOCKS_MAX];
            if crc != checksum(&page.buffer()[at..at + BLOCK]) {
                round.rotten.get_or_insert((id, n, block));
            }
            round.operations.add(page, block, std::iter::once(place));
            round.flights.push(Flight {
                id,
                chunk: n,
                block,
                place,
                crc,
            });
        }
    }
    if let Some(last) = extents.last() {
        fork.goal = last.start + last.blocks;
    }
}

/// Maps one written block, if nothing took its place meanwhile.
fn land(state: &mut State, f: &Flight, flush: u64, as_of: u64, sequence: u64) -> bool {
    let page = |state: &mut State| -> Option<(bool, bool)> {
        let chunk = state.forks.get_mut(&f.id)?.chunks.get_mut(&f.chunk)?;
        let page = chunk.page_mut(slot_of(f.block))?;
        let mine = page.flush == flush && page.flushing & bit(f.block) != 0;
        Some((mine, page.redirtied & bit(f.block) != 0))
    };
    let Some((true, redirtied)) = page(state) else {
        return false;
    };
    state.place_block(f.id, f.chunk, f.block, f.place, f.crc, sequence);
    let fork = state
        .forks
        .get_mut(&f.id)
        .expect("the page was found under this lock");
    let page = fork
        .chunks
        .get_mut(&f.chunk)
        .and_then(|c| c.page_mut(slot_of(f.block)));
    let page = page.expect("the page was found under this lock");
    if redirtied {
        page.flushing &= !bit(f.block);
        page.redirtied &= !bit(f.block);
        page.oldest = page.oldest.max(as_of + 1);
    } else {
        page.clean(bit(f.block));
        state.dirty_blocks -= 1;
    }
    true
}
