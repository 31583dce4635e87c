//! A read: lengths first, then the valid bytes of the pieces as one stream; disk and wire overlap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::try_join_all;
use futures_util::stream::FuturesOrdered;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use weft_layout::{CellIndex, CellOffset, Cutter, OFFSET_MAX};
use weft_net::{Gone, Parcel, Reply, Served};
use weft_proto::io::{CellRun, ReadReply, ReadRequest};
use weft_proto::{Failure, Kind};
use weft_store::{ForkKey, READ_ATTEMPTS, ReadSlice, StoreError};

use super::plan::{BATCH_BYTES, Batch, Batches, Range};
use super::walk::{self, Callers};
use super::{IoService, Job};
use crate::failure;
use crate::metrics::Stage;

/// Batches of one job between disk and wire: one being sent, one being read.
const DEPTH: usize = 2;
/// Jobs up to this size wait for no budget: they are never stuck behind a large one.
const SMALL_JOB: u64 = 64 << 10;

enum Ended {
    Failed(Failure),
    Gone,
}

impl From<Gone> for Ended {
    fn from(_: Gone) -> Self {
        Ended::Gone
    }
}

struct Fetched {
    payload: Parcel,
    disk: Duration,
    _room: Option<OwnedSemaphorePermit>,
}

impl IoService {
    pub(super) async fn read(&self, call: Served) {
        let started = Instant::now();
        let budget = self.budget(&call.peer);
        let request = call.request::<ReadRequest>();
        let mut reply = call.reply;
        let result = match request {
            Ok(request) => self.stream(&request, budget, &mut reply).await,
            Err(e) => Err(Ended::Failed(failure::of_frame(&e))),
        };
        self.metrics
            .stage(Kind::Read, Stage::Total, started.elapsed());
        if let Err(Ended::Failed(failure)) = result {
            tracing::debug!(client = call.peer.client, call = call.id, message = %failure.message, "read failed");
            reply.fail(&failure);
        }
    }

    async fn stream(
        &self,
        request: &ReadRequest,
        budget: Arc<Semaphore>,
        reply: &mut Reply,
    ) -> Result<(), Ended> {
        let job = self.job(&request.access).map_err(Ended::Failed)?;
        let callers = Callers::of([reply.caller()]);
        let lengths = self.lengths(&job, &callers).await;
        let lengths = lengths.map_err(Ended::Failed)?;
        let doubted = self.check_ends(&job, &lengths, &callers).await;
        let doubted = doubted.map_err(Ended::Failed)?;
        let pieces = job.valid_pieces(&lengths).map_err(Ended::Failed)?;
        let bytes = walk::bytes_of(pieces.clone(), lookup(&lengths), &callers).await?;
        let head = ReadReply {
            lengths: runs(&lengths),
            bytes,
            doubted,
        };
        let small = bytes <= SMALL_JOB;
        let budget = (!small).then_some(&budget);
        let mut batches = Batches::new(pieces, lookup(&lengths));
        let mut next = async || {
            let next = walk::until(&callers, |steps| batches.next(steps));
            next.await?.ok_or(Ended::Gone)
        };
        if bytes == 0 {
            reply.head(&head, Parcel::default(), true).await?;
            return Ok(());
        }
        let first = next().await?;
        if first.bytes == bytes {
            // Nothing to overlap.
            let all = self.fetch(&job, first, budget).await;
            let all = all.map_err(|e| Ended::Failed(failure::of_store(&e)))?;
            self.metrics.stage(Kind::Read, Stage::Disk, all.disk);
            reply.head(&head, all.payload, true).await?;
            return Ok(());
        }
        let mut left = bytes - first.bytes;
        let mut under_way = FuturesOrdered::from_iter([self.fetch(&job, first, budget)]);
        let (mut sent, mut disk) = (0, Duration::ZERO);
        while sent < bytes {
            // What follows the last bytes is not gone over.
            while left > 0 && under_way.len() < DEPTH {
                let batch = next().await?;
                left -= batch.bytes;
                under_way.push_back(self.fetch(&job, batch, budget));
            }
            let Some(batch) = under_way.next().await else {
                break;
            };
            let batch = batch.map_err(|e| Ended::Failed(failure::of_store(&e)))?;
            disk += batch.disk;
            let begun = sent > 0;
            sent += batch.payload.bytes();
            let last = sent == bytes;
            if begun {
                reply.data(batch.payload, last).await?;
            } else {
                reply.head(&head, batch.payload, last).await?;
            }
        }
        self.metrics.stage(Kind::Read, Stage::Disk, disk);
        Ok(())
    }

    /// Reads one batch, its ranges side by side.
    async fn fetch(
        &self,
        job: &Job,
        batch: Batch,
        budget: Option<&Arc<Semaphore>>,
    ) -> Result<Fetched, StoreError> {
        let room = match budget {
            // The semaphore is never closed; without a permit the bound would only be softer.
            Some(budget) => budget
                .clone()
                .acquire_many_owned(batch.span.max(BATCH_BYTES) as u32)
                .await
                .ok(),
            None => None,
        };
        let started = Instant::now();
        let ranges = batch.ranges();
        let mut tries = 0;
        let payload = loop {
            tries += 1;
            let read = if let [only] = &ranges[..] {
                vec![self.read_range(job, only).await?]
            } else {
                try_join_all(ranges.iter().map(|range| self.read_range(job, range))).await?
            };
            let (payload, copied) = batch.pack(&ranges, &read);
            self.metrics.copied(copied);
            // After packing: so what was packed is what was stored.
            if (self.store).verify_used(read.iter().flatten(), tries >= READ_ATTEMPTS)? {
                break payload;
            }
        };
        Ok(Fetched {
            payload,
            disk: started.elapsed(),
            _room: room,
        })
    }

    /// Reads a range of a cell of the job's fork; the caller has the store verify it after use.
    pub(super) async fn read_range(
        &self,
        job: &Job,
        range: &Range,
    ) -> Result<Vec<ReadSlice>, StoreError> {
        let key = job.key(range.cell);
        let (at, length) = (CellOffset(range.start), range.end - range.start);
        let checkpoint = (job.checkpoint != 0).then_some(job.checkpoint);
        self.store.read_slices(&key, checkpoint, at, length).await
    }

    /// The lengths of the cells that the job touches here; cells without bytes are left out.
    async fn lengths(
        &self,
        job: &Job,
        callers: &Callers,
    ) -> Result<BTreeMap<CellIndex, u64>, Failure> {
        let mut seen = BTreeSet::new();
        walk::touched(job, &mut seen, callers).await?;
        self.lengths_of(job, seen).await
    }

    /// The lengths of these cells of the job's fork; cells without bytes are left out.
    pub(super) async fn lengths_of(
        &self,
        job: &Job,
        seen: BTreeSet<CellIndex>,
    ) -> Result<BTreeMap<CellIndex, u64>, Failure> {
        let mut lengths = BTreeMap::new();
        if job.checkpoint != 0 {
            let forks = self.store.checkpoint_forks(job.file, job.checkpoint);
            let forks = forks.map_err(|e| failure::of_store(&e))?;
            let wanted = forks.into_iter().filter(|(key, status)| {
                key.fork == job.fork && seen.contains(&key.cell) && status.length > 0
            });
            return Ok(wanted.map(|(key, s)| (key.cell, s.length)).collect());
        }
        for cell in seen {
            let status = self.store.status(&job.key(cell)).await;
            if let Some(status) = status.map_err(|e| failure::of_store(&e))?
                && status.length > 0
            {
                lengths.insert(cell, status.length);
            }
        }
        Ok(lengths)
    }

    /// Refuses bytes beyond the ends of cells whose ends are in doubt: they would read as zeros,
    /// and nothing says that they are. Whether there are such cells.
    pub(super) async fn check_ends(
        &self,
        job: &Job,
        lengths: &BTreeMap<CellIndex, u64>,
        callers: &Callers,
    ) -> Result<bool, Failure> {
        if !self.store.has_doubt() {
            return Ok(false);
        }
        let kept = (job.checkpoint != 0).then_some(job.checkpoint);
        let check = |cell: CellIndex, bytes| self.store.check_proven(&job.key(cell), kept, bytes);
        let end_is_doubted = |cell| check(cell, OFFSET_MAX - 1..OFFSET_MAX).is_err();
        // Else nothing is found, and a request without an end would be gone over for nothing.
        if !job.map.grid().cells_on(job.slot).any(end_is_doubted) {
            return Ok(false);
        }
        let mut cutter = Cutter::whole(job.pieces()?);
        let look = |steps: &mut u32| {
            while cutter.look(steps)? {
                let Some(stretch) = cutter.next(u64::MAX) else {
                    break;
                };
                let length = lengths.get(&stretch.cell).copied().unwrap_or(0);
                let beyond = length.max(stretch.offset.0)..stretch.end();
                if let Err(error) = check(stretch.cell, beyond) {
                    return Some(Err(error));
                }
            }
            Some(Ok(true))
        };
        let looked = walk::until(callers, look).await;
        let checked = looked.map_err(walk::nobody_waits)?;
        checked.map_err(|e| failure::of_store(&e))
    }
}

impl Job {
    pub(super) fn key(&self, cell: CellIndex) -> ForkKey {
        ForkKey {
            file: self.file,
            cell,
            fork: self.fork.clone(),
        }
    }

    pub(super) fn pieces(&self) -> Result<weft_layout::Pieces, Failure> {
        self.map
            .pieces(&self.request, self.slot)
            .map_err(|e| failure::of_map(&e))
    }

    /// The same, but for what begins beyond the ends of all cells, as far as that is passed over in
    /// no time.
    pub(super) fn valid_pieces(
        &self,
        lengths: &BTreeMap<CellIndex, u64>,
    ) -> Result<weft_layout::Pieces, Failure> {
        let ends = lengths.iter().map(|(cell, l)| self.map.extent(*cell, *l));
        Ok(self.pieces()?.below(ends.max().unwrap_or(0)))
    }
}

/// Looks lengths up; neighbours mostly lie in one cell.
fn lookup(lengths: &BTreeMap<CellIndex, u64>) -> impl FnMut(CellIndex) -> u64 + '_ {
    let mut last = None;
    move |cell| match last {
        Some((known, length)) if known == cell => length,
        _ => {
            let length = lengths.get(&cell).copied().unwrap_or(0);
            last = Some((cell, length));
            length
        }
    }
}

/// Run-length form of the lengths: equal cells at equal distances are one run.
pub(super) fn runs(lengths: &BTreeMap<CellIndex, u64>) -> Vec<CellRun> {
    let mut runs: Vec<CellRun> = Vec::new();
    for (cell, length) in lengths {
        let fits = runs
            .last_mut()
            .filter(|run| run.length == *length)
            .and_then(|run| {
                let last = run.first + run.step * (run.count - 1);
                let step = cell.0 - last;
                (run.count == 1 || run.step == step).then_some((run, step))
            });
        match fits {
            Some((run, step)) => {
                run.step = step;
                run.count += 1;
            }
            None => runs.push(CellRun {
                first: cell.0,
                step: 1,
                count: 1,
                length: *length,
            }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_cells_at_equal_distances_are_one_run() {
        let lengths = [(0, 8), (4, 8), (8, 8), (12, 5), (13, 8)]
            .map(|(c, l)| (CellIndex(c), l))
            .into();
        let run = |first, step, count, length| CellRun {
            first,
            step,
            count,
            length,
        };
        assert_eq!(
            runs(&lengths),
            [run(0, 4, 3, 8), run(12, 1, 1, 5), run(13, 1, 1, 8)]
        );
    }
}
