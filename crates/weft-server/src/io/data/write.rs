//! A write: the stream is distributed over the pieces as it arrives. The window reopens when the
//! store has the bytes.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;
use weft_layout::{CellIndex, Endless, Splitter};
use weft_net::Served;
use weft_proto::io::{WriteReply, WriteRequest};
use weft_proto::session::Role;
use weft_proto::{Failure, Kind};
use weft_store::{Run, Scattered, StoreError};

use crate::failure;
use crate::io::IoService;
use crate::io::job::Job;
use crate::io::job::walk::{self, Callers};
use crate::limits::{BRIEF_WRITE_BYTES, WALK_STEPS, WRITE_DEPTH};
use crate::metrics::Stage;

/// Distributes a stream over pieces.
struct Scatterer {
    splitter: Splitter<Endless>,
    chunk: u32,
    /// The request may touch bytes twice, so writes stay in stream order; otherwise the disk's
    /// order is better.
    ordered: bool,
}

impl Scatterer {
    /// The writes for the next bytes of the stream: one for each cell, or in stream order.
    async fn scatter(
        &mut self,
        job: &Job,
        data: &Bytes,
        callers: &Callers,
    ) -> Result<Vec<Scattered>, Failure> {
        let mut runs: Vec<(CellIndex, Run)> = Vec::new();
        let (mut at, mut steps) = (0, WALK_STEPS);
        while at < data.len() {
            if self.splitter.look(&mut steps).is_none() {
                self.is_done(callers).await?;
                steps = WALK_STEPS;
            }
            let Some(strided) = self.splitter.next((data.len() - at) as u64) else {
                return Err(failure::invalid(format!(
                    "the payload is {} bytes longer than the request's pieces",
                    data.len() - at
                )));
            };
            let run = Run {
                offset: strided.offset,
                at,
                length: strided.length,
                count: strided.count,
                stride: strided.stride,
            };
            at += strided.bytes() as usize;
            let last = runs.last_mut().filter(|(cell, _)| *cell == strided.cell);
            if !last.is_some_and(|(_, last)| last.join(&run)) {
                runs.push((strided.cell, run));
            }
        }
        let place = |r: &(CellIndex, Run)| (r.0, r.1.offset);
        if !self.ordered && !runs.is_sorted_by_key(place) {
            runs.sort_unstable_by_key(place);
        }
        let cells = runs.chunk_by(|a, b| a.0 == b.0);
        Ok(cells
            .map(|runs| Scattered {
                key: job.key(runs[0].0),
                chunk: self.chunk,
                runs: runs.iter().map(|(_, run)| *run).collect(),
                data: data.clone(),
            })
            .collect())
    }

    /// Whether all pieces are filled.
    async fn is_done(&mut self, callers: &Callers) -> Result<bool, Failure> {
        let more = walk::until(callers, |steps| self.splitter.look(steps)).await;
        Ok(!more.map_err(walk::abandoned)?)
    }
}

/// A frame that the store has accepted or refused.
struct StoredFrame {
    result: Result<(), StoreError>,
    took: Duration,
    bytes: usize,
}

/// Reopens the window by the frame; returns how long the store took.
fn acknowledge(stored: StoredFrame, call: &mut Served) -> Result<Duration, Failure> {
    stored.result.map_err(|e| failure::of_store(&e))?;
    call.payload.release_chunk(stored.bytes);
    Ok(stored.took)
}

impl IoService {
    pub(in crate::io) async fn write(&self, mut call: Served) {
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
        // The metadata service writes a small file whole, and has charged it already.
        let by_service = call.peer.role == Role::MetaService;
        let job = if by_service {
            self.job_of_any(&request.access)?.writable()?
        } else {
            self.job(&request.access)?.writable()?
        };
        if request.bytes > BRIEF_WRITE_BYTES {
            call.reply.long().await;
        }
        let _gate = self.gates.enter(job.file).await;
        if !by_service {
            self.may_grow(std::slice::from_ref(&job)).await?;
        }
        let mut scatterer = Scatterer {
            splitter: Splitter::whole(job.pieces()?),
            chunk: request.chunk,
            ordered: request.ordered,
        };
        let now = self.now();
        let callers = Callers::of([call.reply.caller()]);
        // In stream order later bytes win, so no frame may overtake another.
        let depth = if request.ordered { 1 } else { WRITE_DEPTH };
        let mut in_flight = FuturesUnordered::new();
        let (mut bytes, mut disk) = (0, Duration::ZERO);
        loop {
            let arrived = tokio::select! {
                biased;
                Some(stored) = in_flight.next() => {
                    disk += acknowledge(stored, call)?;
                    continue;
                }
                arrived = call.payload.next_chunk(), if in_flight.len() < depth => arrived,
            };
            let Some(chunk) = arrived else { break };
            let (data, sums) = (chunk.bytes, chunk.sums);
            let len = data.len();
            bytes += len as u64;
            let writes = {
                let mut scattering = pin!(scatterer.scatter(&job, &data, &callers));
                loop {
                    // The window may be closed until frames in flight are stored, so they go on
                    // however long the walk takes.
                    tokio::select! {
                        biased;
                        Some(stored) = in_flight.next() => disk += acknowledge(stored, call)?,
                        writes = &mut scattering => break writes?,
                    }
                }
            };
            let store = &self.store;
            in_flight.push(async move {
                let started = Instant::now();
                StoredFrame {
                    result: store.write_summed(writes, sums, now).await,
                    took: started.elapsed(),
                    bytes: len,
                }
            });
        }
        while let Some(stored) = in_flight.next().await {
            disk += acknowledge(stored, call)?;
        }
        if bytes != request.bytes || !scatterer.is_done(&callers).await? {
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
