//! A write: the stream is dealt out to the pieces as it arrives; credit goes back when the store
//! has it.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;
use weft_layout::{CellIndex, Cutter, Endless};
use weft_net::Served;
use weft_proto::io::{WriteReply, WriteRequest};
use weft_proto::session::Role;
use weft_proto::{Failure, Kind};
use weft_store::{Run, Scattered, StoreError};

use super::walk::{self, Callers};
use super::{IoService, Job};
use crate::failure;
use crate::metrics::Stage;

/// Frames of one job that may be on their way into the store at once.
const DEPTH: usize = 4;
/// Bytes of a job that is served beside others of its connection, in one task.
const BRIEF: u64 = 64 << 10;

/// Deals a stream out to pieces.
struct Dealer {
    cutter: Cutter<Endless>,
    chunk: u32,
    /// Bytes may be touched twice, so what comes first goes first; else the disk's order is better.
    ordered: bool,
}

impl Dealer {
    /// The writes that these bytes, which follow those dealt before, amount to: one for each cell,
    /// or in order.
    async fn deal(
        &mut self,
        job: &Job,
        data: &Bytes,
        callers: &Callers,
    ) -> Result<Vec<Scattered>, Failure> {
        let mut dealt: Vec<(CellIndex, Run)> = Vec::new();
        let (mut at, mut steps) = (0, walk::STEPS);
        while at < data.len() {
            if self.cutter.look(&mut steps).is_none() {
                self.is_done(callers).await?;
                steps = walk::STEPS;
            }
            let Some(stretch) = self.cutter.next((data.len() - at) as u64) else {
                return Err(failure::invalid(format!(
                    "the payload is {} bytes longer than the request's pieces",
                    data.len() - at
                )));
            };
            let run = Run {
                offset: stretch.offset,
                at,
                length: stretch.length,
                count: stretch.count,
                stride: stretch.stride,
            };
            at += stretch.bytes() as usize;
            let last = dealt.last_mut().filter(|(cell, _)| *cell == stretch.cell);
            if !last.is_some_and(|(_, last)| last.join(&run)) {
                dealt.push((stretch.cell, run));
            }
        }
        let place = |d: &(CellIndex, Run)| (d.0, d.1.offset);
        if !self.ordered && !dealt.is_sorted_by_key(place) {
            dealt.sort_unstable_by_key(place);
        }
        let cells = dealt.chunk_by(|a, b| a.0 == b.0);
        Ok(cells
            .map(|runs| Scattered {
                key: job.key(runs[0].0),
                chunk: self.chunk,
                runs: runs.iter().map(|(_, run)| *run).collect(),
                data: data.clone(),
            })
            .collect())
    }
}

/// A frame that the store has taken, or refused.
struct Stored {
    result: Result<(), StoreError>,
    took: Duration,
    bytes: usize,
}

/// Gives the window back; how long the store took.
fn landed(stored: Stored, call: &mut Served) -> Result<Duration, Failure> {
    stored.result.map_err(|e| failure::of_store(&e))?;
    call.payload.release_chunk(stored.bytes);
    Ok(stored.took)
}

impl Dealer {
    /// Whether no piece is left.
    async fn is_done(&mut self, callers: &Callers) -> Result<bool, Failure> {
        let more = walk::until(callers, |steps| self.cutter.look(steps)).await;
        Ok(!more.map_err(walk::nobody_waits)?)
    }
}

impl IoService {
    pub(super) async fn write(&self, mut call: Served) {
        let started = Instant::now();
        let result = match call.request::<WriteRequest>() {
            Ok(request) => self.receive(&request, &mut call).await,
            Err(e) => Err(failure::of_frame(&e)),
        };
        self.metrics
            .stage(Kind::Write, Stage::Total, started.elapsed());
        match result {
            Ok(bytes) => call.reply.done_at(&WriteReply { bytes }, &self.stamp()),
            Err(failure) => {
                tracing::debug!(client = call.peer.client, call = call.id, message = %failure.message, "write failed");
                call.reply.fail(&failure);
            }
        }
    }

    async fn receive(&self, request: &WriteRequest, call: &mut Served) -> Result<u64, Failure> {
        // What the metadata service brings to the cells is all there is of the file, and charged
        // already.
        let by_service = call.peer.role == Role::MetaService;
        let job = if by_service {
            self.job_of_any(&request.access)?.living()?
        } else {
            self.job(&request.access)?.living()?
        };
        if request.bytes > BRIEF {
            call.reply.long().await;
        }
        let _under_way = self.gates.enter(job.file).await;
        if !by_service {
            self.may_grow(std::slice::from_ref(&job)).await?;
        }
        let mut dealer = Dealer {
            cutter: Cutter::whole(job.pieces()?),
            chunk: request.chunk,
            ordered: request.ordered,
        };
        let now = self.now();
        let callers = Callers::of([call.reply.caller()]);
        // What comes later must stay, so nothing may overtake it.
        let depth = if request.ordered { 1 } else { DEPTH };
        let mut under_way = FuturesUnordered::new();
        let (mut bytes, mut disk) = (0, Duration::ZERO);
        loop {
            let arrived = tokio::select! {
                biased;
                Some(stored) = under_way.next() => {
                    disk += landed(stored, call)?;
                    continue;
                }
                arrived = call.payload.next_chunk(), if under_way.len() < depth => arrived,
            };
            let Some(chunk) = arrived else { break };
            let (data, sums) = (chunk.bytes, chunk.sums);
            let len = data.len();
            bytes += len as u64;
            let writes = {
                let mut dealing = pin!(dealer.deal(&job, &data, &callers));
                loop {
                    // Others may wait behind those under way: they go on, however long the walk is.
                    tokio::select! {
                        biased;
                        Some(stored) = under_way.next() => disk += landed(stored, call)?,
                        dealt = &mut dealing => break dealt?,
                    }
                }
            };
            let store = &self.store;
            under_way.push(async move {
                let started = Instant::now();
                Stored {
                    result: store.write_summed(writes, sums, now).await,
                    took: started.elapsed(),
                    bytes: len,
                }
            });
        }
        while let Some(stored) = under_way.next().await {
            disk += landed(stored, call)?;
        }
        if bytes != request.bytes || !dealer.is_done(&callers).await? {
            return Err(failure::invalid(format!(
                "the payload ended after {bytes} of {} bytes; those were written",
                request.bytes
            )));
        }
        if request.sync {
            self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        }
        self.metrics.stage(Kind::Write, Stage::Disk, disk);
        Ok(bytes)
    }
}
