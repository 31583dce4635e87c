//! Writes and clears with a claim. The bytes are prepared as they arrive, and take effect together:
//! in this call if the operation is alone, or with the commit of the operation.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tokio::sync::OwnedSemaphorePermit;
use weft_layout::Splitter;
use weft_net::{Chunk, Served};
use weft_proto::io::{WriteReply, WriteRequest};
use weft_proto::limits::STAGED_MAX;
use weft_proto::order::Claim;
use weft_proto::{Code, Failure};
use weft_store::StoreError;

use super::scatter::Scatterer;
use crate::failure;
use crate::io::IoService;
use crate::io::job::Job;
use crate::io::job::walk::{self, Callers};
use crate::io::order::{Asking, Effect, Extents, ForkExtents, Mode};
use crate::io::replica::Prepared;
use crate::limits::{BRIEF_WRITE_BYTES, WRITE_DEPTH};

impl IoService {
    /// What a job asks for in the order of its file.
    pub(in crate::io) async fn asking(
        &self,
        job: &Job,
        claim: Claim,
        mode: Mode,
        client: u64,
        callers: &Callers,
    ) -> Result<Asking, Failure> {
        let mut extents = ForkExtents::new(job.fork.clone());
        let mut splitter = Splitter::whole(job.pieces()?);
        let add = |steps: &mut u32| {
            while splitter.look(steps)? {
                if let Some(pieces) = splitter.next(u64::MAX) {
                    extents.add(&pieces);
                }
            }
            Some(())
        };
        let walked = walk::until(callers, add).await;
        walked.map_err(walk::abandoned)?;
        Ok(Asking {
            client,
            claim,
            file: job.file,
            mode,
            extents: Extents::Some(extents),
        })
    }

    /// Receives a write with a claim.
    pub(super) async fn receive_in_order(
        &self,
        request: &WriteRequest,
        claim: Claim,
        call: &mut Served,
    ) -> Result<WriteReply, Failure> {
        let job = self.job(&request.access)?.writable()?;
        if request.bytes > STAGED_MAX {
            let what = format!(
                "an operation that is atomic writes at most {STAGED_MAX} bytes on each server; this one has {}",
                request.bytes
            );
            return Err(Failure::new(Code::TooLarge, what));
        }
        let client = call.peer.client;
        let memory = self.clients.staging_memory(client, request.bytes);
        let memory = memory.map(Arc::new).ok_or_else(|| {
            let what =
                "the client has staged as much as it may; it goes on when its operations end";
            Failure::new(Code::Busy, what)
        })?;
        if request.bytes > BRIEF_WRITE_BYTES {
            call.reply.long().await;
        }
        self.may_grow(std::slice::from_ref(&job)).await?;
        let callers = Callers::of([call.reply.caller()]);
        let mode = Mode::Exclusive;
        let asking = self.asking(&job, claim, mode, client, &callers).await?;
        let bytes = request.bytes;
        let first = call.payload.next_chunk().await;
        if let Some(first) = first.as_ref().filter(|_| asking.claim.alone)
            && first.bytes.len() as u64 == bytes
        {
            self.write_alone(&job, request, first, &asking, &callers)
                .await?;
            call.payload.release_chunk(first.bytes.len());
            return Ok(WriteReply {
                bytes,
                granted: true,
            });
        }
        let batches = self.prepare_all(&job, request, first, call, (&callers, &memory));
        let batches = batches.await?;
        if !asking.claim.alone {
            let effect = Effect::Write {
                batches,
                sync: request.sync,
                memory,
            };
            let granted = self.begin(asking, effect).await?;
            return Ok(WriteReply { bytes, granted });
        }
        let granted = self.claim_alone(&asking).await?;
        let committed = self.commit_alone(batches, request.sync, memory).await;
        self.tell_of_claimed(job.file, &asking.extents).await;
        drop(granted);
        committed?;
        Ok(WriteReply {
            bytes,
            granted: true,
        })
    }

    /// Writes what has arrived in one frame, in its turn.
    async fn write_alone(
        &self,
        job: &Job,
        request: &WriteRequest,
        frame: &Chunk,
        asking: &Asking,
        callers: &Callers,
    ) -> Result<(), Failure> {
        let mut scatterer = Scatterer::new(job, request.chunk, request.ordered)?;
        let writes = scatterer.scatter(job, &frame.bytes, callers).await?;
        if !scatterer.is_done(callers).await? {
            return Err(ended_early(request.bytes, request.bytes));
        }
        let granted = self.claim_alone(asking).await?;
        let now = self.now();
        let written = self
            .store
            .write_summed(writes, frame.sums.clone(), now)
            .await;
        self.tell_of_claimed(job.file, &asking.extents).await;
        drop(granted);
        written.map_err(|e| failure::of_store(&e))?;
        if request.sync {
            self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        }
        Ok(())
    }

    async fn commit_alone(
        &self,
        batches: Vec<Prepared>,
        sync: bool,
        memory: Arc<OwnedSemaphorePermit>,
    ) -> Result<(), Failure> {
        let committed = self.store.commit_prepared(batches, Vec::new(), self.now());
        let committed = committed.await;
        committed.map_err(|e| failure::of_store(&e))?;
        drop(memory);
        if sync {
            self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        }
        Ok(())
    }

    /// Prepares the bytes of a write as they arrive, in stream order.
    async fn prepare_all(
        &self,
        job: &Job,
        request: &WriteRequest,
        mut first: Option<Chunk>,
        call: &mut Served,
        (callers, memory): (&Callers, &Arc<OwnedSemaphorePermit>),
    ) -> Result<Vec<Prepared>, Failure> {
        let mut scatterer = Scatterer::new(job, request.chunk, request.ordered)?;
        let mut in_flight = FuturesOrdered::new();
        let (mut batches, mut bytes) = (Vec::new(), 0);
        let keep = |call: &mut Served,
                    (prepared, bytes): (Result<Prepared, StoreError>, usize)|
         -> Result<Prepared, Failure> {
            let prepared = prepared.map_err(|e| failure::of_store(&e))?;
            call.payload.release_chunk(bytes);
            Ok(prepared)
        };
        loop {
            let arrived = if first.is_some() {
                first.take()
            } else {
                tokio::select! {
                    biased;
                    Some(prepared) = in_flight.next() => {
                        batches.push(keep(call, prepared)?);
                        continue;
                    }
                    arrived = call.payload.next_chunk(), if in_flight.len() < WRITE_DEPTH => arrived,
                }
            };
            let Some(chunk) = arrived else { break };
            let (data, sums) = (chunk.bytes, chunk.sums);
            let len = data.len();
            bytes += len as u64;
            // However the operation ends, the disk may have the bytes for longer.
            let data = Bytes::from_owner(StagedBytes {
                data,
                _memory: memory.clone(),
            });
            if let Some(before) = batches.len().checked_sub(WRITE_DEPTH)
                && let Some(disk) = batches.get(before).and_then(Prepared::disk)
            {
                disk.ended().await;
            }
            let writes = scatterer.scatter(job, &data, callers).await?;
            let (store, now) = (&self.store, self.now());
            in_flight.push_back(async move { (store.prepare(writes, sums, now).await, len) });
        }
        while let Some(prepared) = in_flight.next().await {
            batches.push(keep(call, prepared)?);
        }
        if bytes != request.bytes || !scatterer.is_done(callers).await? {
            return Err(ended_early(bytes, request.bytes));
        }
        Ok(batches)
    }
}

/// Bytes that are staged, and their share of the client's memory.
struct StagedBytes {
    data: Bytes,
    _memory: Arc<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for StagedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

fn ended_early(bytes: u64, of: u64) -> Failure {
    failure::invalid(format!(
        "the payload ended after {bytes} of {of} bytes; nothing was written"
    ))
}
