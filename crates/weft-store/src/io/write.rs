//! Writes: batches of pieces, each written directly or through the log and dirty pages.
//!
//! A batch is prepared (`prepared.rs`) and then takes effect at one moment (`effect.rs`).

use std::sync::Arc;

use weft_sum::Sums;

use super::effect::GrownFork;
use super::plan::WritePlan;
use super::prepared::{AcceptedBatch, PreparedBatch};
use crate::engine::{Inner, Store, detached};
use crate::error::StoreError;
use crate::key::{ForkKey, Scattered, Timestamp, Write};
use crate::limits::DIRECT_MIN;
use crate::record::{chunk_is_legal, new_body};
use crate::state::{CallLoad, check_fork};

impl Store {
    /// [`Store::write_summed`] to plain forks.
    pub(crate) async fn write_plain(
        &self,
        writes: Vec<Scattered>,
        sums: Option<Sums>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let direct = check_runs(&writes)?;
        let inner = Arc::clone(&self.0);
        inner.check_batch(&writes)?;
        if direct {
            return detached(async move { inner.write_batch(writes, sums, modified).await }).await;
        }
        inner.write_batch(writes, sums, modified).await
    }

    /// [`Store::prepare`] for plain forks.
    pub(crate) async fn prepare_plain(
        &self,
        writes: Vec<Scattered>,
        sums: Option<Sums>,
    ) -> Result<AcceptedBatch, StoreError> {
        let direct = check_runs(&writes)?;
        let inner = Arc::clone(&self.0);
        inner.check_batch(&writes)?;
        let plans = inner.plans(&writes);
        if direct {
            return inner.begin_prepare(writes, plans, sums).await;
        }
        let batch = inner.prepare(writes, plans, sums, None).await?;
        Ok(AcceptedBatch::Written(batch))
    }

    /// Lets prepared batches, and then some small writes to plain forks, take effect at one moment;
    /// makes addressed forks at least as long as given.
    pub(crate) async fn commit_plain(
        &self,
        mut batches: Vec<PreparedBatch>,
        then: Vec<Write>,
        grown: &[GrownFork],
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let then: Vec<Scattered> = then.into_iter().map(Scattered::from).collect();
        check_runs(&then)?;
        let inner = &self.0;
        if !then.is_empty() {
            let plans = inner.plans(&then);
            batches.push(inner.prepare(then, plans, None, None).await?);
        }
        let load = CallLoad::of(batches.iter().flat_map(PreparedBatch::small));
        let _admitted = inner.admit_load(&load).await?;
        inner.commit(batches, grown, modified).await
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

    fn plans(&self, writes: &[Scattered]) -> Vec<WritePlan> {
        let direct = self.bounds().rules.direct;
        writes.iter().map(|w| WritePlan::of(w, direct)).collect()
    }

    pub(crate) async fn write_batch(
        &self,
        writes: Vec<Scattered>,
        sums: Option<Sums>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let plans = self.plans(&writes);
        let load = CallLoad::of(plans.iter().flat_map(|plan| &plan.small));
        let _admitted = self.admit_load(&load).await?;
        let prepared = self.prepare(writes, plans, sums, None).await?;
        self.commit(vec![prepared], &[], modified).await
    }
}

/// Refuses runs that no fork can have. Returns whether any of them is large.
pub(crate) fn check_runs(writes: &[Scattered]) -> Result<bool, StoreError> {
    let mut direct = false;
    for w in writes {
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
    Ok(direct)
}
