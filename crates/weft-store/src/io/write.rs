//! Writing: batches of pieces, each the direct way or through log and dirty pages.
//!
//! A batch takes effect at one moment, under the state's lock, as one frame of the log; before it
//! the direct parts are on the disk and everything the small parts lie on is in memory.

use std::sync::Arc;

use weft_sum::Sums;

use super::covered::{Covered, all_of};
use super::direct::direct_blocks;
use super::plan::{ITEM_SOFT, Plan};
use super::proof::Proof;
use super::put::Fragments;
use crate::counters::Counters;
use crate::engine::{Inner, Store, whole};
use crate::error::StoreError;
use crate::forks::by_chunk;
use crate::key::{ForkKey, Run, Scattered, Timestamp, Write};
use crate::limits::{DIRECT_MIN, FULL_SLOTS};
use crate::log::{DATA_COST, OpenFrame, cost_of_run};
use crate::pages::{Chunk, Wanted, bit};
use crate::paging::{Missing, WriteFailed};
use crate::pool::BLOCK;
use crate::record::{BODY_SOFT, ForkId, ItemRecord, chunk_is_legal, new_body, rows};
use crate::space::Extent;
use crate::state::{Load, State, check_fork};

impl Store {
    /// Writes a batch of pieces, in order, making forks that do not exist.
    ///
    /// # Durability
    /// On `Ok` it survives kill −9; [`Store::sync`] makes it survive power loss. A batch whose
    /// small pieces have less than 16 MiB is kept or lost as a whole.
    /// # Errors
    /// [`StoreError::Stale`], [`StoreError::ChunkMismatch`], [`StoreError::NoSpace`],
    /// [`StoreError::PastLimit`] and [`StoreError::BadChunkSize`] leave everything as it was.
    pub async fn write(&self, writes: Vec<Write>, modified: Timestamp) -> Result<(), StoreError> {
        let writes = writes.into_iter().map(Scattered::from).collect();
        self.write_scattered(writes, modified).await
    }

    /// As [`Store::write`], of many pieces each.
    ///
    /// Cost: a few nanoseconds for each piece of a run, the rest for each block that they touch.
    pub async fn write_scattered(
        &self,
        writes: Vec<Scattered>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        self.write_given(writes, None, modified).await
    }

    /// As [`Store::write_scattered`], of one buffer that all of the writes are from and that had
    /// these sums where it came from: what is stored is what had them. Blocks of which the sum is
    /// known, and that stay where they were received, are not summed again.
    ///
    /// # Errors
    /// [`StoreError::Memory`] when it is not.
    pub async fn write_summed(
        &self,
        writes: Vec<Scattered>,
        sums: impl Into<Sums>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        self.write_given(writes, Some(sums.into()), modified).await
    }

    async fn write_given(
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
            return whole(async move { inner.write_batch(writes, sums, modified).await }).await;
        }
        inner.write_batch(writes, sums, modified).await
    }

    /// Makes a fork without bytes; one that exists with this chunk size is left as it is.
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
    /// Refuses a batch that could not take effect, before anything is spent on it.
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
        let mut plans: Vec<Plan> = writes
            .iter()
            .map(|w| Plan::of(w, self.bounds.rules.direct))
            .collect();
        let load = Load::of(plans.iter().flat_map(|plan| &plan.small));
        let _admitted = self.admit_load(&load).await?;
        let (taken, proof) = loop {
            let (mut taken, mut proof) = (Vec::new(), Proof::of(sums.clone()));
            let written = self.write_direct(&writes, &mut plans, &mut taken, &mut proof);
            let Err(failed) = written.await else {
                break (taken, proof);
            };
            let error = self.give_back(taken, failed.error);
            if !failed.again {
                return Err(error);
            }
        };
        match self.commit(&writes, plans, proof, modified).await {
            Ok(sequence) => self.append(sequence),
            // They are in the map already; nobody allocates any more.
            Err(error) if error.closes() => Err(error),
            Err(error) => Err(self.give_back(taken, error)),
        }
    }

    /// Writes what goes the direct way to free blocks, which are added to `taken`.
    async fn write_direct(
        &self,
        writes: &[Scattered],
        plans: &mut [Plan],
        taken: &mut Vec<Extent>,
        proof: &mut Proof,
    ) -> Result<(), WriteFailed> {
        let for_good = |error| WriteFailed {
            error,
            again: false,
        };
        for (w, plan) in writes.iter().zip(&mut *plans) {
            for direct in &mut plan.direct {
                let (offset, length) = (direct.offset, direct.length);
                let blocks = direct_blocks(w.chunk, offset, length);
                let extents = self.take_blocks(&w.key, blocks).await.map_err(for_good)?;
                taken.extend_from_slice(&extents);
                self.lock()
                    .evict(self.bounds.cache.saturating_sub(blocks * BLOCK as u64));
                let data = &w.data[direct.at..direct.at + length as usize];
                let known = |from: usize| proof.block(direct.at + from);
                direct.prepared = self.prepare(w.chunk, offset, data, extents, known);
                proof.take(w.chunk, offset, direct.at, &direct.prepared);
            }
        }
        if proof.has_blocks() {
            let checked = proof.check(writes, false);
            checked.map_err(|error| for_good(self.memory_fault(error)))?;
        }
        let direct = plans.iter().flat_map(|plan| &plan.direct);
        self.write_prepared(direct.flat_map(|d| &d.prepared)).await
    }

    /// Frees blocks that nothing refers to and no operation touches any more.
    fn give_back(&self, taken: Vec<Extent>, error: StoreError) -> StoreError {
        let mut state = self.lock();
        for extent in taken {
            state.space_mut().free(extent);
        }
        error
    }

    /// Waits until the batch can take effect, and lets it.
    async fn commit(
        &self,
        writes: &[Scattered],
        plans: Vec<Plan>,
        mut proof: Proof,
        modified: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut again = false;
        // Blocks that cannot be read, and need not be.
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
                    let sequence =
                        self.take_effect(&mut state, writes, plans, &emptied, &mut proof, modified);
                    // After the copies were made and summed: so they are copies of what had the
                    // sum. The frame is not in the kernel yet, and does not get there if they are
                    // not.
                    if small && let Err(error) = proof.check(writes, true) {
                        self.signals.room.notify_waiters();
                        return Err(state.fail_memory(self.memory_fault(error)));
                    }
                    return Ok(sequence);
                }
                (missing, needed)
            };
            let blocks = missing.blocks.clone();
            if let Err(error) = self.load(Missing { again, ..missing }).await {
                let before = covered.len();
                covered.extend(all_of(&self.lock(), writes, &plans, &blocks, &error));
                if covered.len() == before {
                    return Err(error);
                }
            }
            again = true;
            if needed > self.lock().space().available() {
                self.make_space(needed).await?;
            }
        }
    }

    fn take_effect(
        &self,
        state: &mut State,
        writes: &[Scattered],
        plans: Vec<Plan>,
        emptied: &[Wanted],
        proof: &mut Proof,
        modified: Timestamp,
    ) -> u64 {
        let (mut bytes, mut copied, mut pieces) = (0, 0, 0);
        let sequence = state.log_with(modified.0, |state, frame| {
            for block in emptied {
                state.make_room(block, frame);
            }
            for (w, plan) in writes.iter().zip(plans) {
                let id = state.find_or_create(&w.key, w.chunk, modified.0, frame.items());
                let mut small = plan.small.as_slice();
                let mut passed = 0;
                for direct in plan.direct {
                    let (now, later) = small.split_at(direct.after - passed);
                    (small, passed) = (later, direct.after);
                    self.put_small(state, id, w, now, proof, frame);
                    let end = direct.offset + direct.length;
                    self.install_prepared(state, id, end, direct.prepared, frame.items());
                }
                self.put_small(state, id, w, small, proof, frame);
                if plan.bytes > 0 {
                    let length = state.forks()[id].length().max(plan.end);
                    state.touch(id, length, modified.0);
                    state.doubts().prove_runs(id, &w.runs);
                }
                bytes += plan.bytes;
                copied += plan.small.iter().map(Run::bytes).sum::<u64>();
                pieces += w.runs.iter().map(|run| run.count).sum::<u64>();
            }
        });
        Counters::add(&self.counters.writes, pieces);
        Counters::add(&self.counters.write_bytes, bytes);
        Counters::add(&self.counters.copied_bytes, copied);
        state.evict(self.bounds.cache);
        let rules = self.bounds.rules;
        let full = rules.write_behind && state.dirty().full_slots() >= FULL_SLOTS;
        let kick = full || self.has_much_dirty(state);
        if kick || self.log_is_long(state) {
            self.signals.work.notify_one();
        }
        sequence
    }

    /// Puts small runs into the log's frame and into dirty pages; begins another frame when one has
    /// grown large.
    fn put_small(
        &self,
        state: &mut State,
        id: ForkId,
        w: &Scattered,
        runs: &[Run],
        proof: &mut Proof,
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
                let sum = proof.of_all(&w.data, &row);
                frame.lend(&w.data, row, sum);
            }
            self.put_runs(state, id, w.chunk, now, &w.data, proof);
            if frame.bytes() > BODY_SOFT {
                state.next_frame(frame);
            }
        }
    }
}

/// What a batch still lacks: entries and blocks in memory, and blocks that it will promise.
fn survey(
    state: &State,
    writes: &[Scattered],
    plans: &[Plan],
) -> Result<(Missing, u64), StoreError> {
    let mut missing = Missing::default();
    let mut needed = 0;
    for (w, plan) in writes.iter().zip(plans) {
        check_fork(state, &w.key, w.chunk)?;
        let id = state.find(&w.key);
        if let Some(id) = id {
            if state.forks().must_settle(id, plan.end) {
                missing.tails.insert(id);
            }
            for direct in &plan.direct {
                for range in by_chunk(w.chunk, direct.offset, direct.length) {
                    missing.own_entry(state, id, range.chunk);
                }
            }
        }
        needed += survey_small(state, id, w.chunk, &plan.small, &mut missing);
    }
    Ok((missing, needed))
}

/// What small runs lack; returns how many blocks they will promise.
fn survey_small(
    state: &State,
    id: Option<ForkId>,
    size: u32,
    runs: &[Run],
    missing: &mut Missing,
) -> u64 {
    let mut needed = 0;
    // Runs of small pieces in one block count it once.
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
                let lacking = missing.own_entry(state, id, at.chunk);
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
            missing.blocks.push(Wanted {
                id,
                chunk: at.chunk,
                block: at.block,
                place,
            });
        }
    }
    needed
}
