//! The second step of a write: prepared batches take effect at one moment, under the state's lock,
//! as one frame of the log. Before that, the blocks that small pieces cover partly are loaded.

use super::buffered::Fragments;
use super::checksum::{BatchChecksum, Effect};
use super::covered::{Covered, covered_blocks};
use super::plan::ITEM_SOFT;
use super::prepared::PreparedBatch;
use crate::counters::Counters;
use crate::engine::Inner;
use crate::error::StoreError;
use crate::forks::by_chunk;
use weft_layout::ChunkCode;

use crate::key::{ForkKey, Run, Scattered, Timestamp};
use crate::limits::FULL_SLOTS;
use crate::log::{DATA_COST, OpenFrame, cost_of_run};
use crate::pages::{Chunk, WantedBlock, bit};
use crate::paging::{Attempt, Missing};
use crate::pool::BLOCK;
use crate::record::{BODY_SOFT, ForkId, ItemRecord, rows};
use crate::state::{StoreState, check_fork};

/// An addressed fork that grows with a batch.
pub(crate) struct GrownFork {
    pub(crate) key: ForkKey,
    pub(crate) chunk: ChunkCode,
    /// The least length that it has afterwards.
    pub(crate) length: u64,
}

impl Inner {
    /// Loads what the batches need in memory, and lets them take effect. Must be polled to its end.
    pub(super) async fn commit(
        &self,
        mut batches: Vec<PreparedBatch>,
        grown: &[GrownFork],
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let mut attempt = Attempt::First;
        // Unreadable blocks that need not be read.
        let mut covered = Covered::new();
        loop {
            let (missing, needed) = {
                let mut state = self.lock();
                state.check_writable()?;
                let (mut missing, needed) = survey(&state, &batches, grown)?;
                let wanted = std::mem::take(&mut missing.blocks).into_iter();
                let (emptied, wanted): (Vec<_>, Vec<_>) =
                    wanted.partition(|block| covered.contains(block));
                missing.blocks = wanted;
                if missing.is_empty() && needed <= state.space().available() {
                    let change = Change {
                        batches: &mut batches,
                        grown,
                        emptied: &emptied,
                        modified,
                    };
                    let sequence = self.take_effect(&mut state, change);
                    // After the copies were made and summed, so that they are checked. If they are
                    // wrong, the frame, which is not in the kernel yet, does not get there.
                    if let Err(error) = batches.iter().try_for_each(check_copies) {
                        self.wake_waiting_calls();
                        return Err(state.fail(self.memory_fault(error)));
                    }
                    drop(state);
                    return self.append(sequence);
                }
                (missing, needed)
            };
            let blocks = missing.blocks.clone();
            if let Err(error) = self.load(Missing { attempt, ..missing }).await {
                let before = covered.len();
                for batch in &batches {
                    let (writes, plans) = (&batch.writes, &batch.plans);
                    covered.extend(covered_blocks(&self.lock(), writes, plans, &blocks, &error));
                }
                if covered.len() == before {
                    return Err(error);
                }
            }
            attempt = Attempt::Retry;
            if needed > self.lock().space().available() {
                self.make_space(needed).await?;
            }
        }
    }

    fn take_effect(&self, state: &mut StoreState, change: Change<'_>) -> u64 {
        let Change {
            batches,
            grown,
            emptied,
            modified,
        } = change;
        let (mut bytes, mut copied, mut pieces) = (0, 0, 0);
        let sequence = state.log_with(modified.0, |state, frame| {
            for block in emptied {
                state.clear_for_frame(block, frame);
            }
            for batch in batches {
                let checksum = &mut batch.checksum;
                for (w, plan) in batch.writes.iter().zip(&mut batch.plans) {
                    let id = state.find_or_create(&w.key, w.chunk, modified.0, frame.items());
                    let mut small = plan.small.as_slice();
                    let mut passed = 0;
                    for direct in plan.direct.drain(..) {
                        let (now, later) = small.split_at(direct.after - passed);
                        (small, passed) = (later, direct.after);
                        self.write_small(state, id, w, now, checksum, frame);
                        let end = direct.offset + direct.length;
                        self.install_prepared(state, id, end, direct.prepared, frame.items());
                    }
                    self.write_small(state, id, w, small, checksum, frame);
                    if plan.bytes > 0 {
                        let length = state.forks()[id].length().max(plan.end);
                        state.touch(id, length, modified.0);
                        state.doubts_mut().prove_runs(id, &w.runs);
                    }
                    bytes += plan.bytes;
                    copied += plan.small.iter().map(Run::bytes).sum::<u64>();
                    pieces += w.runs.iter().map(|run| run.count).sum::<u64>();
                }
                batch.installed();
            }
            for fork in grown {
                let id = state.find_or_create(&fork.key, fork.chunk, modified.0, frame.items());
                if fork.length > 0 {
                    let length = state.forks()[id].length().max(fork.length);
                    ItemRecord::Truncate { id, length }.encode(frame.items());
                    state.touch(id, length, modified.0);
                }
            }
        });
        Counters::add(&self.counters().writes, pieces);
        Counters::add(&self.counters().write_bytes, bytes);
        Counters::add(&self.counters().copied_bytes, copied);
        state.evict(self.bounds().cache);
        let rules = self.bounds().rules;
        let full = rules.write_behind && state.dirty().full_slots() >= FULL_SLOTS;
        let must_flush = full || self.has_much_dirty(state);
        if must_flush || self.log_is_long(state) {
            self.wake_background();
        }
        sequence
    }

    /// Writes small runs to the log's frame and to dirty pages; begins another frame when one has
    /// grown large.
    fn write_small(
        &self,
        state: &mut StoreState,
        id: ForkId,
        w: &Scattered,
        runs: &[Run],
        checksum: &mut BatchChecksum,
        frame: &mut OpenFrame,
    ) {
        let mut rest = runs;
        while !rest.is_empty() {
            let mut sum = 0;
            let fits = rest.iter().take_while(|run| {
                sum += run.bytes();
                sum <= ITEM_SOFT
            });
            let count = fits.count().max(1);
            let (now, later) = rest.split_at(count);
            rest = later;
            match now {
                [run] if run.count == 1 => {
                    state.charge_replay(DATA_COST + run.length / BLOCK as u64);
                    let length = run.length as usize;
                    ItemRecord::encode_data_head(frame.items(), id, run.offset.0, length);
                }
                runs => {
                    state.charge_replay(runs.iter().map(cost_of_run).sum::<u64>());
                    ItemRecord::encode_pieces_head(frame.items(), id, runs);
                }
            }
            for row in rows(now) {
                let sum = checksum.of_whole(&w.data, &row);
                frame.append_shared(&w.data, row, sum);
            }
            self.buffer_runs(state, id, w.chunk, now, &w.data, checksum);
            if frame.bytes() > BODY_SOFT {
                state.next_frame(frame);
            }
        }
    }
}

/// What takes effect at one moment.
struct Change<'a> {
    batches: &'a mut [PreparedBatch],
    grown: &'a [GrownFork],
    /// Unreadable blocks that the batches overwrite.
    emptied: &'a [WantedBlock],
    modified: Timestamp,
}

/// Checks the copies that batches with small pieces made in memory.
fn check_copies(batch: &PreparedBatch) -> Result<(), StoreError> {
    if batch.small().next().is_none() {
        return Ok(());
    }
    batch.checksum.check(&batch.writes, Effect::InMemory)
}

/// What batches still need: entries and blocks in memory, and how many blocks they will reserve.
fn survey(
    state: &StoreState,
    batches: &[PreparedBatch],
    grown: &[GrownFork],
) -> Result<(Missing, u64), StoreError> {
    let mut missing = Missing::default();
    let mut needed = 0;
    for fork in grown {
        check_fork(state, &fork.key, fork.chunk)?;
        let id = state.find(&fork.key);
        let unfinished = |id: &ForkId| state.forks().must_finish_truncation(*id, fork.length);
        missing.truncations.extend(id.filter(unfinished));
    }
    let writes = batches.iter().flat_map(|b| b.writes.iter().zip(&b.plans));
    for (w, plan) in writes {
        check_fork(state, &w.key, w.chunk)?;
        let id = state.find(&w.key);
        if let Some(id) = id {
            if state.forks().must_finish_truncation(id, plan.end) {
                missing.truncations.insert(id);
            }
            for direct in &plan.direct {
                for range in by_chunk(w.chunk, direct.offset, direct.length) {
                    missing.private_entry(state, id, range.chunk);
                }
            }
        }
        needed += survey_small(state, id, w.chunk, &plan.small, &mut missing);
    }
    Ok((missing, needed))
}

/// Notes what small runs need in memory; returns how many blocks they will reserve.
fn survey_small(
    state: &StoreState,
    id: Option<ForkId>,
    size: u32,
    runs: &[Run],
    missing: &mut Missing,
) -> u64 {
    let mut needed = 0;
    // Consecutive pieces in one block count it once.
    let mut seen = None;
    let mut known: Option<(u64, Option<&Chunk>)> = None;
    for fragment in Fragments::new(size, runs) {
        let at = fragment.place;
        if seen.replace(at) == Some(at) {
            continue;
        }
        let Some(id) = id else {
            needed += 1;
            continue;
        };
        let chunk = match known {
            Some((n, chunk)) if n == at.chunk => chunk,
            _ => {
                let lacking = missing.private_entry(state, id, at.chunk);
                let chunk = (!lacking).then(|| &state.forks()[id].chunks()[&at.chunk]);
                known = Some((at.chunk, chunk));
                chunk
            }
        };
        let Some(chunk) = chunk else { continue };
        let page = chunk.valid_page(at.block);
        if page.is_none_or(|p| p.promised() & bit(at.block) == 0) {
            needed += 1;
        }
        if page.is_none()
            && !fragment.whole()
            && let Some((place, _)) = chunk.place(at.block)
        {
            missing.blocks.push(WantedBlock {
                id,
                chunk: at.chunk,
                block: at.block,
                place,
            });
        }
    }
    needed
}
