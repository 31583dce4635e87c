//! Writes: batches of pieces, each written directly or through the log and dirty pages.
//!
//! A batch takes effect at one moment, under the state's lock, as one frame of the log. Before
//! that, its direct pieces are on the disk, and the blocks that small pieces cover partly are in
//! memory.

use std::sync::Arc;

use weft_sum::Sums;

use super::buffered::Fragments;
use super::checksum::{BatchChecksum, Effect};
use super::covered::{Covered, covered_blocks};
use super::direct::direct_blocks;
use super::plan::{ITEM_SOFT, WritePlan};
use crate::counters::Counters;
use crate::engine::{Inner, Store, detached};
use crate::error::StoreError;
use crate::forks::by_chunk;
use crate::key::{ForkKey, Run, Scattered, Timestamp, Write};
use crate::limits::{DIRECT_MIN, FULL_SLOTS};
use crate::log::{DATA_COST, OpenFrame, cost_of_run};
use crate::pages::{Chunk, WantedBlock, bit};
use crate::paging::{Attempt, Missing, WriteFailed};
use crate::pool::BLOCK;
use crate::record::{BODY_SOFT, ForkId, ItemRecord, chunk_is_legal, new_body, rows};
use crate::space::Extent;
use crate::state::{CallLoad, StoreState, check_fork};

impl Store {
    /// Writes a batch of pieces, in order; makes forks that do not exist.
    ///
    /// # Durability
    /// On `Ok` it survives kill −9; [`Store::sync`] makes it survive power loss. A crash keeps or
    /// loses a batch as a whole if its small pieces have less than 16 MiB.
    /// # Errors
    /// [`StoreError::Stale`], [`StoreError::ChunkMismatch`], [`StoreError::NoSpace`],
    /// [`StoreError::PastLimit`] and [`StoreError::BadChunkSize`] leave everything as it was.
    pub async fn write(&self, writes: Vec<Write>, modified: Timestamp) -> Result<(), StoreError> {
        let writes = writes.into_iter().map(Scattered::from).collect();
        self.write_scattered(writes, modified).await
    }

    /// As [`Store::write`], with many pieces in each write.
    ///
    /// Cost: a few nanoseconds for each piece of a run, the rest for each block that they touch.
    pub async fn write_scattered(
        &self,
        writes: Vec<Scattered>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        self.write_checked(writes, None, modified).await
    }

    /// As [`Store::write_scattered`], of one buffer that holds the data of all writes and of which
    /// the sender computed these sums. Blocks with a known sum that stay in the memory where they
    /// were received are not summed again.
    ///
    /// # Errors
    /// [`StoreError::Memory`] if the stored bytes do not have these sums.
    pub async fn write_summed(
        &self,
        writes: Vec<Scattered>,
        sums: impl Into<Sums>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        self.write_checked(writes, Some(sums.into()), modified)
            .await
    }

    async fn write_checked(
        &self,
        writes: Vec<Scattered>,
        sums: Option<Sums>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let mut direct = false;
        for w in &writes {
            if !chunk_is_legal(w.chunk) {
                return Err(StoreError::BadChunkSize { given: w.chunk });
            }
            for run in &w.runs {
                assert!(
                    run.length > 0 && run.count > 0 && run.stride > 0,
                    "runs are not empty"
                );
                direct |= run.length >= DIRECT_MIN;
                if !run.is_legal() {
                    return Err(StoreError::PastLimit {
                        offset: run.offset.0,
                        length: run.length,
                    });
                }
            }
        }
        let inner = Arc::clone(&self.0);
        inner.check_batch(&writes)?;
        if direct {
            return detached(async move { inner.write_batch(writes, sums, modified).await }).await;
        }
        inner.write_batch(writes, sums, modified).await
    }

    /// Makes an empty fork; one that exists with this chunk size is left as it is.
    pub async fn create_fork(
        &self,
        key: &ForkKey,
        chunk: u32,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        if !chunk_is_legal(chunk) {
            return Err(StoreError::BadChunkSize { given: chunk });
        }
        self.0.admit().await?;
        let sequence = {
            let mut state = self.0.lock();
            state.check_writable()?;
            check_fork(&state, key, chunk)?;
            let mut body = new_body(modified.0);
            let before = body.len();
            state.find_or_create(key, chunk, modified.0, &mut body);
            if body.len() > before {
                state.log(&body)
            } else {
                state.sequence()
            }
        };
        self.0.append(sequence)
    }
}

impl Inner {
    /// Refuses a batch that could not take effect, before any work is done for it.
    fn check_batch(&self, writes: &[Scattered]) -> Result<(), StoreError> {
        let state = self.lock();
        state.check_writable()?;
        let mut last: Option<&Scattered> = None;
        for w in writes {
            if last.is_some_and(|l| l.key == w.key && l.chunk == w.chunk) {
                continue;
            }
            check_fork(&state, &w.key, w.chunk)?;
            let other = writes
                .iter()
                .take_while(|o| !std::ptr::eq(*o, w))
                .find(|o| o.key == w.key && o.chunk != w.chunk);
            if let Some(other) = other.filter(|_| last.is_some()) {
                return Err(StoreError::ChunkMismatch {
                    file: w.key.file,
                    fixed: other.chunk,
                    given: w.chunk,
                });
            }
            last = Some(w);
        }
        Ok(())
    }

    pub(crate) async fn write_batch(
        &self,
        writes: Vec<Scattered>,
        sums: Option<Sums>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let mut plans: Vec<WritePlan> = writes
            .iter()
            .map(|w| WritePlan::of(w, self.bounds().rules.direct))
            .collect();
        let load = CallLoad::of(plans.iter().flat_map(|plan| &plan.small));
        let _admitted = self.admit_load(&load).await?;
        let (taken, checksum) = loop {
            let (mut taken, mut checksum) = (Vec::new(), BatchChecksum::of(sums.clone()));
            let written = self.write_direct(&writes, &mut plans, &mut taken, &mut checksum);
            let Err(failed) = written.await else {
                break (taken, checksum);
            };
            let error = self.free_taken(taken, failed.error);
            if !failed.can_retry {
                return Err(error);
            }
        };
        match self.commit(&writes, plans, checksum, modified).await {
            Ok(sequence) => self.append(sequence),
            // The blocks are in the map already, and a closed store allocates no more.
            Err(error) if error.closes() => Err(error),
            Err(error) => Err(self.free_taken(taken, error)),
        }
    }

    /// Writes the direct pieces to free blocks, which are added to `taken`.
    async fn write_direct(
        &self,
        writes: &[Scattered],
        plans: &mut [WritePlan],
        taken: &mut Vec<Extent>,
        checksum: &mut BatchChecksum,
    ) -> Result<(), WriteFailed> {
        let fatal = |error| WriteFailed {
            error,
            can_retry: false,
        };
        for (w, plan) in writes.iter().zip(&mut *plans) {
            for direct in &mut plan.direct {
                let (offset, length) = (direct.offset, direct.length);
                let blocks = direct_blocks(w.chunk, offset, length);
                let extents = self.take_blocks(&w.key, blocks).await.map_err(fatal)?;
                taken.extend_from_slice(&extents);
                self.lock()
                    .evict(self.bounds().cache.saturating_sub(blocks * BLOCK as u64));
                let data = &w.data[direct.at..direct.at + length as usize];
                let known = |from: usize| checksum.block(direct.at + from);
                direct.prepared = self.prepare_blocks(w.chunk, offset, data, extents, known);
                checksum.add_prepared(w.chunk, offset, direct.at, &direct.prepared);
            }
        }
        if checksum.has_blocks() {
            let checked = checksum.check(writes, Effect::None);
            checked.map_err(|error| fatal(self.memory_fault(error)))?;
        }
        let direct = plans.iter().flat_map(|plan| &plan.direct);
        self.write_prepared(direct.flat_map(|d| &d.prepared)).await
    }

    /// Frees blocks that nothing refers to and no operation touches any more; returns `error`.
    fn free_taken(&self, taken: Vec<Extent>, error: StoreError) -> StoreError {
        let mut state = self.lock();
        for extent in taken {
            state.space_mut().free(extent);
        }
        error
    }

    /// Loads what the batch needs in memory, and lets it take effect.
    async fn commit(
        &self,
        writes: &[Scattered],
        plans: Vec<WritePlan>,
        mut checksum: BatchChecksum,
        modified: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut attempt = Attempt::First;
        // Unreadable blocks that need not be read.
        let mut covered = Covered::new();
        loop {
            let (missing, needed) = {
                let mut state = self.lock();
                state.check_writable()?;
                let (mut missing, needed) = survey(&state, writes, &plans)?;
                let wanted = std::mem::take(&mut missing.blocks).into_iter();
                let (emptied, wanted): (Vec<_>, Vec<_>) =
                    wanted.partition(|block| covered.contains(block));
                missing.blocks = wanted;
                if missing.is_empty() && needed <= state.space().available() {
                    let small = plans.iter().any(|plan| !plan.small.is_empty());
                    let sequence = self.take_effect(
                        &mut state,
                        writes,
                        plans,
                        &emptied,
                        &mut checksum,
                        modified,
                    );
                    // After the copies were made and summed, so that they are checked. If they are
                    // wrong, the frame, which is not in the kernel yet, does not get there.
                    if small && let Err(error) = checksum.check(writes, Effect::InMemory) {
                        self.wake_waiting_calls();
                        return Err(state.fail(self.memory_fault(error)));
                    }
                    return Ok(sequence);
                }
                (missing, needed)
            };
            let blocks = missing.blocks.clone();
            if let Err(error) = self.load(Missing { attempt, ..missing }).await {
                let before = covered.len();
                covered.extend(covered_blocks(
                    &self.lock(),
                    writes,
                    &plans,
                    &blocks,
                    &error,
                ));
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

    fn take_effect(
        &self,
        state: &mut StoreState,
        writes: &[Scattered],
        plans: Vec<WritePlan>,
        emptied: &[WantedBlock],
        checksum: &mut BatchChecksum,
        modified: Timestamp,
    ) -> u64 {
        let (mut bytes, mut copied, mut pieces) = (0, 0, 0);
        let sequence = state.log_with(modified.0, |state, frame| {
            for block in emptied {
                state.clear_for_frame(block, frame);
            }
            for (w, plan) in writes.iter().zip(plans) {
                let id = state.find_or_create(&w.key, w.chunk, modified.0, frame.items());
                let mut small = plan.small.as_slice();
                let mut passed = 0;
                for direct in plan.direct {
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

/// What a batch still needs: entries and blocks in memory, and how many blocks it will reserve.
fn survey(
    state: &StoreState,
    writes: &[Scattered],
    plans: &[WritePlan],
) -> Result<(Missing, u64), StoreError> {
    let mut missing = Missing::default();
    let mut needed = 0;
    for (w, plan) in writes.iter().zip(plans) {
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
