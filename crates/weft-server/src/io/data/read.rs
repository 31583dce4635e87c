//! A read: lengths first, then the valid bytes of the pieces as one stream. Reading a batch from
//! the disk overlaps with sending the previous one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::try_join_all;
use futures_util::stream::FuturesOrdered;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use weft_layout::{CellOffset, FileId};
use weft_net::{Gone, Peer, Reply, ReplyPayload, Served};
use weft_proto::io::{Access, ReadReply, ReadRequest};
use weft_proto::order::Claim;
use weft_proto::{Code, Failure, Kind};
use weft_store::{READ_ATTEMPTS, ReadSlice, StoreError, together};

use super::lengths::{lookup, runs};
use crate::failure;
use crate::io::IoService;
use crate::io::job::Job;
use crate::io::job::walk::{self, Callers};
use crate::io::order::{Effect, Mode};
use crate::io::plan::{CellRange, ReadBatch, ReadBatches};
use crate::io::replica::BackupTerm;
use crate::limits::{READ_BATCH_BYTES, READ_DEPTH, SMALL_READ_BYTES};
use crate::metrics::Stage;

/// Why a read ended early.
enum ReadEnd {
    Failed(Failure),
    /// Its caller is gone.
    Gone,
}

impl From<Gone> for ReadEnd {
    fn from(_: Gone) -> Self {
        ReadEnd::Gone
    }
}

/// A batch on its way from disk to wire; its budget is free again when this is dropped.
struct FetchedBatch {
    payload: ReplyPayload,
    disk: Duration,
    _budget: Option<OwnedSemaphorePermit>,
}

impl IoService {
    pub(in crate::io) async fn read(&self, call: Served) {
        let started = Instant::now();
        let budget = self.clients.read_budget(call.peer.client);
        let request = call.request::<ReadRequest>();
        let mut reply = call.reply;
        let client = call.peer.client;
        let result = match request {
            Ok(ReadRequest {
                access,
                claim: None,
            }) => match self.admit_reckless(&access, &call.peer).await {
                Ok(backup) => {
                    let how = (false, backup);
                    self.stream(&access, budget, &mut reply, how).await
                }
                Err(failure) => Err(ReadEnd::Failed(failure)),
            },
            Ok(ReadRequest {
                access,
                claim: Some(claim),
            }) => Box::pin(self.stream_in_order(&access, claim, client, budget, &mut reply)).await,
            Err(e) => Err(ReadEnd::Failed(failure::of_frame(&e))),
        };
        self.metrics
            .stage(Kind::Read, Stage::Total, started.elapsed());
        if let Err(ReadEnd::Failed(failure)) = result {
            tracing::debug!(client = call.peer.client, call = call.id, message = %failure.message, "read failed");
            reply.fail(&failure);
        }
    }

    /// Admits a read without a claim: on a backup, with the term in which it reads.
    async fn admit_reckless(
        &self,
        access: &Access,
        peer: &Peer,
    ) -> Result<Option<BackupTerm>, Failure> {
        let backup = self.admit_read(access.checkpoint == 0).await?;
        // After the admission, which may have waited.
        self.forced.check(FileId(access.file), peer)?;
        Ok(backup)
    }

    /// A read in its turn. A claim on several servers stays after the call.
    async fn stream_in_order(
        &self,
        access: &Access,
        claim: Claim,
        client: u64,
        budget: Arc<Semaphore>,
        reply: &mut Reply,
    ) -> Result<(), ReadEnd> {
        if let Some(replicas) = self.replicas() {
            replicas.admit().await.map_err(ReadEnd::Failed)?;
        }
        let job = self.job(access).map_err(ReadEnd::Failed)?;
        let callers = Callers::of([reply.caller()]);
        let asking = self.asking(&job, claim, Mode::Shared, client, &callers);
        let asking = asking.await.map_err(ReadEnd::Failed)?;
        if !asking.claim.alone {
            let granted = self.begin(asking, Effect::Nothing).await;
            if granted.map_err(ReadEnd::Failed)? {
                return self.stream(access, budget, reply, (true, None)).await;
            }
            let head = ReadReply::default();
            reply.head(&head, ReplyPayload::default(), true).await?;
            return Ok(());
        }
        let granted = self.claim_alone(&asking).await.map_err(ReadEnd::Failed)?;
        tokio::select! {
            biased;
            streamed = self.stream(access, budget, reply, (true, None)) => streamed,
            () = granted.revoked() => {
                let what = "the read took too long, and operations that wait for it went on; read again";
                Err(ReadEnd::Failed(Failure::new(Code::Busy, what)))
            }
        }
    }

    async fn stream(
        &self,
        access: &Access,
        budget: Arc<Semaphore>,
        reply: &mut Reply,
        (granted, backup): (bool, Option<BackupTerm>),
    ) -> Result<(), ReadEnd> {
        let job = self.job(access).map_err(ReadEnd::Failed)?;
        let callers = Callers::of([reply.caller()]);
        let lengths = self.lengths(&job, &callers).await;
        let lengths = lengths.map_err(ReadEnd::Failed)?;
        let doubted = self.check_ends(&job, &lengths, &callers).await;
        let doubted = doubted.map_err(ReadEnd::Failed)?;
        let pieces = job.valid_pieces(&lengths).map_err(ReadEnd::Failed)?;
        let bytes = walk::bytes_of(pieces.clone(), lookup(&lengths), &callers).await?;
        let head = ReadReply {
            lengths: runs(&lengths),
            bytes,
            doubted,
            granted,
        };
        let small = bytes <= SMALL_READ_BYTES;
        let budget = (!small).then_some(&budget);
        let mut batches = ReadBatches::new(pieces, lookup(&lengths));
        let mut next_batch = async || {
            let next = walk::until(&callers, |steps| batches.next(steps));
            next.await?.ok_or(ReadEnd::Gone)
        };
        if bytes == 0 {
            self.confirm(backup, &job).await?;
            reply.head(&head, ReplyPayload::default(), true).await?;
            return Ok(());
        }
        let first = next_batch().await?;
        if first.bytes == bytes {
            // A single batch: nothing overlaps.
            let all = self.fetch_to_show(&job, first, budget, backup).await?;
            self.metrics.stage(Kind::Read, Stage::Disk, all.disk);
            reply.head(&head, all.payload, true).await?;
            return Ok(());
        }
        let mut left = bytes - first.bytes;
        let fetch = |batch| self.fetch_to_show(&job, batch, budget, backup);
        let mut in_flight = FuturesOrdered::from_iter([fetch(first)]);
        let (mut sent, mut disk) = (0, Duration::ZERO);
        while sent < bytes {
            // There is no walk beyond the last bytes.
            while left > 0 && in_flight.len() < READ_DEPTH {
                let batch = next_batch().await?;
                left -= batch.bytes;
                in_flight.push_back(fetch(batch));
            }
            let Some(batch) = in_flight.next().await else {
                break;
            };
            let batch = batch?;
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

    /// Reads one batch; on a backup, waits until it may be shown.
    async fn fetch_to_show(
        &self,
        job: &Job,
        batch: ReadBatch,
        budget: Option<&Arc<Semaphore>>,
        backup: Option<BackupTerm>,
    ) -> Result<FetchedBatch, ReadEnd> {
        let fetched = self.fetch(job, batch, budget).await;
        let fetched = fetched.map_err(|error| match (backup, &error) {
            (Some(_), StoreError::Coded { .. }) => {
                let what = "this backup has bytes of the file only as parity: ask the primary";
                ReadEnd::Failed(Failure::new(Code::StaleMap, what))
            }
            _ => ReadEnd::Failed(failure::of_store(&error)),
        })?;
        self.confirm(backup, job).await?;
        Ok(fetched)
    }

    async fn confirm(&self, backup: Option<BackupTerm>, job: &Job) -> Result<(), ReadEnd> {
        match backup {
            None => Ok(()),
            Some(term) => {
                let confirmed = self.confirm_own_read(term, job.file).await;
                confirmed.map_err(ReadEnd::Failed)
            }
        }
    }

    /// Reads one batch, its ranges in parallel.
    async fn fetch(
        &self,
        job: &Job,
        batch: ReadBatch,
        budget: Option<&Arc<Semaphore>>,
    ) -> Result<FetchedBatch, StoreError> {
        let permit = match budget {
            // The semaphore is never closed; without a permit only the bound would be softer.
            Some(budget) => budget
                .clone()
                .acquire_many_owned(batch.span.max(READ_BATCH_BYTES) as u32)
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
                let reads = ranges.iter().map(|range| self.read_range(job, range));
                together(try_join_all(reads)).await?
            };
            let (payload, copied) = batch.pack(&ranges, &read);
            self.metrics.copied(copied);
            // After packing, so that the packed bytes are the verified ones.
            if (self.store).verify_used(read.iter().flatten(), tries >= READ_ATTEMPTS)? {
                break payload;
            }
        };
        Ok(FetchedBatch {
            payload,
            disk: started.elapsed(),
            _budget: permit,
        })
    }

    /// Reads a range of a cell; the caller has the store verify the blocks after use.
    pub(in crate::io) async fn read_range(
        &self,
        job: &Job,
        range: &CellRange,
    ) -> Result<Vec<ReadSlice>, StoreError> {
        let key = job.key(range.cell);
        let (at, length) = (CellOffset(range.start), range.end - range.start);
        self.store
            .read_slices(&key, job.checkpoint, at, length)
            .await
    }
}
