//! A write: the stream is distributed over the pieces as it arrives. The window reopens when the
//! store has the bytes.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;
use weft_net::Served;
use weft_proto::io::{WriteReply, WriteRequest};
use weft_proto::session::Role;
use weft_proto::{Failure, Kind};
use weft_store::{StoreError, Timestamp};

use super::scatter::Scatterer;
use crate::failure;
use crate::io::IoService;
use crate::io::job::Job;
use crate::io::job::walk::Callers;
use crate::io::sharers::Change;
use crate::limits::{BRIEF_WRITE_BYTES, WRITE_DEPTH};
use crate::metrics::Stage;

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
            Ok(request) => match request.claim.clone() {
                None => self.receive(&request, &mut call).await,
                Some(claim) => Box::pin(self.receive_in_order(&request, claim, &mut call)).await,
            },
            Err(e) => Err(failure::of_frame(&e)),
        };
        self.metrics
            .stage(Kind::Write, Stage::Total, started.elapsed());
        match result {
            Ok(reply) => call.reply.done_at(&reply, &self.stamp()),
            Err(failure) => {
                tracing::debug!(client = call.peer.client, call = call.id, message = %failure.message, "write failed");
                call.reply.fail(&failure);
            }
        }
    }

    async fn receive(
        &self,
        request: &WriteRequest,
        call: &mut Served,
    ) -> Result<WriteReply, Failure> {
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
        self.forced.check(job.file, &call.peer)?;
        if !by_service {
            self.may_grow(std::slice::from_ref(&job)).await?;
        }
        let received = self.receive_frames(&job, request, call).await;
        self.tell_sharers(job.file, Change::Job(&job)).await;
        received?;
        if request.sync {
            self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        }
        Ok(WriteReply {
            bytes: request.bytes,
            granted: false,
        })
    }

    /// Writes the frames of a write as they arrive.
    async fn receive_frames(
        &self,
        job: &Job,
        request: &WriteRequest,
        call: &mut Served,
    ) -> Result<(), Failure> {
        let mut scatterer = Scatterer::new(job, request.chunk, request.ordered)?;
        let modified = match request.written {
            0 => self.now(),
            written => Timestamp(written),
        };
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
                let mut scattering = pin!(scatterer.scatter(job, &data, &callers));
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
                    result: store.write_summed(writes, sums, modified).await,
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
        self.metrics.stage(Kind::Write, Stage::Disk, disk);
        Ok(())
    }
}
