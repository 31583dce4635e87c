//! A worker of a sort: its phases, each ended by a barrier.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use weft_client::Volume;
use weft_crew::Leader;

use super::job::{Run, Sequence, SortJob, SortReport};
use super::mesh::{Mesh, Phase, descending};
use super::opened::{HandedFile, OpenedFile, OpenedView};
use super::window;
use crate::apps::record::{RecordDigest, RecordOrder};
use crate::apps::stream::{Space, read_into, write_from};
use crate::args::Global;
use crate::limits::SORT_REQUESTS_MAX;

/// Runs the phases of the job that the leader sends.
pub(crate) async fn run(global: &Global) -> Result<()> {
    let (leader, job) = Leader::job::<SortJob>().await?;
    let volume = match job.source {
        HandedFile::Weft(_) => Some(crate::remote::connect::volume(global).await?),
        HandedFile::Posix(_) => None,
    };
    let worker = Worker::new(leader, volume.as_ref(), job)?;
    for phase in worker.mesh.phases() {
        let began = Instant::now();
        let before = requests(volume.as_ref());
        let mut report = worker.phase(phase).await?;
        report.read = worker.read.swap(0, Ordering::Relaxed);
        report.written = worker.written.swap(0, Ordering::Relaxed);
        report.requests = requests(volume.as_ref()) - before;
        report.seconds = began.elapsed().as_secs_f64();
        worker.leader.barrier(&report).await?;
    }
    Ok(())
}

struct Worker {
    leader: Leader,
    number: u32,
    mesh: Mesh,
    order: RecordOrder,
    source: Sequence,
    scratch: Option<OpenedFile>,
    output: Sequence,
    read: AtomicU64,
    written: AtomicU64,
}

/// How the records of a cell are sorted.
#[derive(Clone, Copy)]
enum Method {
    Sort,
    Merge,
}

impl Worker {
    fn new(leader: Leader, volume: Option<&Volume>, job: SortJob) -> Result<Worker> {
        Ok(Worker {
            leader,
            number: job.worker,
            order: job.order,
            source: Sequence::open(volume, &job.source, job.source_order)?,
            scratch: job
                .scratch
                .map(|s| OpenedFile::new(volume, &s))
                .transpose()?,
            output: Sequence::open(volume, &job.output, job.output_order)?,
            mesh: job.mesh,
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
        })
    }

    async fn phase(&self, phase: Phase) -> Result<SortReport> {
        let mut report = SortReport::default();
        match (phase, &self.scratch) {
            (Phase::Load, _) => self.source.file.forget()?,
            (Phase::Verify, _) => self.output.file.forget()?,
            (Phase::Rows(_) | Phase::Cells(_), scratch) => {
                scratch.as_ref().map_or(Ok(()), OpenedFile::forget)?;
            }
        }
        match phase {
            Phase::Load => report.digest = self.load().await?,
            Phase::Rows(round) => self.rows(round).await?,
            Phase::Cells(round) => self.cells(round).await?,
            Phase::Verify => (report.digest, report.disorder) = self.verify().await?,
        }
        Ok(report)
    }

    /// Loads records of the file into the worker's cells and sorts each.
    async fn load(&self) -> Result<RecordDigest> {
        let mut digest = RecordDigest::default();
        let mut buffer = Vec::new();
        for cell in self.mesh.cells_of(self.number) {
            let own = self.mesh.records_of(cell);
            let real = ((own.end - own.start) * self.mesh.record) as usize;
            // Holes of the file are zeros; after its end comes padding, which sorts last.
            buffer.clear();
            buffer.resize(real, 0);
            buffer.resize(self.mesh.cell_bytes() as usize, 0xFF);
            let mut rest = &mut buffer[..real];
            for run in self
                .source
                .runs(own.start * self.mesh.record, own.end * self.mesh.record)?
            {
                let (now, later) = rest.split_at_mut(run.length as usize);
                read_into(&*run.view, run.at, now, self.pieces(), |n| self.has_read(n)).await?;
                rest = later;
            }
            if !rest.is_empty() {
                bail!(
                    "the file to sort was truncated by {} bytes: sort it again",
                    rest.len()
                );
            }
            let count = move |order: RecordOrder, records: &[u8]| order.digest(&records[..real]);
            let of_cell;
            (buffer, of_cell) = self
                .emit(cell, Phase::Load, 0, buffer, Method::Sort, count)
                .await?;
            digest.add(of_cell);
        }
        Ok(digest)
    }

    /// Sorts the worker's rows of every group.
    async fn rows(&self, round: u32) -> Result<()> {
        let scratch = self.scratch()?;
        let block = self.mesh.block_bytes(round) as usize;
        let views = (0..self.mesh.groups(round))
            .map(|group| scratch.rows(&self.mesh, round, group, self.number))
            .collect::<Result<Vec<_>, _>>()?;
        let views = &views;
        stream::iter(self.mesh.row_requests(round, self.number))
            .map(|(group, at, length)| async move {
                let view = &views[group as usize];
                let mut rows = vec![0; length as usize];
                all_there(view.read_at(at, &mut rows).await?, length)?;
                self.has_read(length);
                let (order, down) = (self.order, descending(0, group));
                let rows = tokio::task::spawn_blocking(move || {
                    for block in rows.chunks_exact_mut(block) {
                        window::sort_rows(order, block, 1 << round, down);
                    }
                    rows
                })
                .await?;
                view.write_all(at, rows.into()).await?;
                self.has_written(length);
                Ok::<(), anyhow::Error>(())
            })
            .buffer_unordered(SORT_REQUESTS_MAX)
            .try_collect()
            .await
    }

    /// Merges each of the worker's cells, which now hold bitonic sequences.
    async fn cells(&self, round: u32) -> Result<()> {
        let mut buffer = Vec::new();
        for cell in self.mesh.cells_of(self.number) {
            buffer.resize(self.mesh.cell_bytes() as usize, 0);
            let view = self.cell(cell)?;
            let moved =
                read_into(&view, 0, &mut buffer, self.pieces(), |n| self.has_read(n)).await?;
            all_there(moved, self.mesh.cell_bytes())?;
            let phase = Phase::Cells(round);
            (buffer, ()) = self
                .emit(cell, phase, round, buffer, Method::Merge, |_, _| ())
                .await?;
        }
        Ok(())
    }

    /// Sorts a cell's records and writes them to the mesh, or to the result in the final phase.
    ///
    /// `look` sees the records first, on the sorting thread. Returns the buffer for reuse.
    async fn emit<T: Send + 'static>(
        &self,
        cell: u32,
        phase: Phase,
        round: u32,
        buffer: Vec<u8>,
        method: Method,
        look: impl FnOnce(RecordOrder, &[u8]) -> T + Send + 'static,
    ) -> Result<(Vec<u8>, T)> {
        let finally = self.mesh.is_final(phase);
        let down = descending(round, cell);
        let mut targets = if finally {
            let own = self.mesh.records_of(cell);
            let record = self.mesh.record;
            self.output.runs(own.start * record, own.end * record)?
        } else {
            let view = Arc::new(self.cell(cell)?);
            let length = self.mesh.cell_bytes();
            vec![Run {
                view,
                at: 0,
                length,
            }]
        };
        let Some(target) = targets.pop() else {
            // This cell is only padding, which is not part of the result.
            let seen = look(self.order, &buffer);
            return Ok((buffer, seen));
        };
        if !targets.is_empty() {
            bail!("internal error: cell {cell} of the mesh maps to several cells of the result");
        }
        let (order, piece) = (self.order, self.mesh.request as usize);
        let produce = move |emit: &mut dyn FnMut(Vec<u8>) -> bool| {
            let seen = look(order, &buffer);
            let mut left = target.length as usize;
            // Padding sorts last, so what does not fit is padding.
            let fit = |mut records: Vec<u8>| {
                records.truncate(left);
                left -= records.len();
                !records.is_empty() && emit(records) && left > 0
            };
            match method {
                Method::Sort => window::sort(order, &buffer, down, piece, fit),
                Method::Merge => window::merge(order, &buffer, down, piece, fit),
            }
            (buffer, seen)
        };
        let progress = |n| self.has_written(n);
        let done = write_from(target.view, target.at, SORT_REQUESTS_MAX, progress, produce).await?;
        if done.0 != target.length {
            bail!(
                "internal error: wrote {} of {} bytes of cell {cell}",
                done.0,
                target.length
            );
        }
        Ok(done.1)
    }

    /// Reads the worker's share of the result back. Returns its digest, and the first record out of
    /// order.
    async fn verify(&self) -> Result<(RecordDigest, Option<u64>)> {
        let mut digest = RecordDigest::default();
        let record = self.mesh.record;
        let piece = self.mesh.request;
        let mut disorder = None;
        for cell in self.mesh.cells_of(self.number) {
            let own = self.mesh.records_of(cell);
            let pieces = (own.start..own.end)
                .step_by((piece / record) as usize)
                .map(|first| {
                    let last = (first + piece / record).min(own.end);
                    async move { Ok::<_, anyhow::Error>((first, self.result(first, last).await?)) }
                });
            let mut pieces = std::pin::pin!(stream::iter(pieces).buffered(SORT_REQUESTS_MAX));
            // The last record of the previous cell, to check the order across cells.
            let mut before = match own.start.checked_sub(1) {
                Some(last) if !own.is_empty() => Some(self.result(last, own.start).await?),
                _ => None,
            };
            while let Some((first, records)) = pieces.try_next().await? {
                let (order, previous) = (self.order, before.take());
                let checked = tokio::task::spawn_blocking(move || {
                    let last = records[records.len() - order.size()..].to_vec();
                    let wrong = out_of_order(order, previous.as_deref(), &records);
                    (order.digest(&records), wrong, last)
                });
                let (of_piece, wrong, last) = checked.await?;
                digest.add(of_piece);
                disorder = disorder.or(wrong.map(|i| first + i));
                before = Some(last);
            }
        }
        Ok((digest, disorder))
    }

    /// Records `first..last` of the result.
    async fn result(&self, first: u64, last: u64) -> Result<Vec<u8>> {
        let record = self.mesh.record;
        let mut records = vec![0; ((last - first) * record) as usize];
        let mut rest = &mut records[..];
        for run in self.output.runs(first * record, last * record)? {
            let (now, later) = rest.split_at_mut(run.length as usize);
            all_there(run.view.read_at(run.at, now).await?, run.length)?;
            self.has_read(run.length);
            rest = later;
        }
        Ok(records)
    }

    /// A cell of the mesh.
    fn cell(&self, cell: u32) -> Result<OpenedView> {
        let start = u64::from(cell) * self.mesh.cell_bytes();
        self.scratch()?.cell(start, cell)
    }

    fn scratch(&self) -> Result<&OpenedFile> {
        match &self.scratch {
            Some(file) => Ok(file),
            None => bail!(
                "internal error: a mesh of {} cells without a file",
                self.mesh.cells
            ),
        }
    }

    fn pieces(&self) -> (usize, usize) {
        (self.mesh.request as usize, SORT_REQUESTS_MAX)
    }

    fn has_read(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
        self.leader.progress(bytes);
    }

    fn has_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
        self.leader.progress(bytes);
    }
}

/// Requests sent so far; none on a path.
fn requests(volume: Option<&Volume>) -> u64 {
    let Some(volume) = volume else { return 0 };
    volume.counters().calls.iter().map(|(_, n)| n).sum()
}

fn all_there(moved: u64, wanted: u64) -> Result<()> {
    if moved != wanted {
        bail!("cannot read back the scratch file: {moved} of {wanted} bytes exist");
    }
    Ok(())
}

/// The first record that is smaller than its predecessor.
fn out_of_order(order: RecordOrder, before: Option<&[u8]>, records: &[u8]) -> Option<u64> {
    let mut previous = before;
    for (record, i) in records.chunks_exact(order.size()).zip(0..) {
        if previous.is_some_and(|p| order.compare(p, record).is_gt()) {
            return Some(i);
        }
        previous = Some(record);
    }
    None
}
