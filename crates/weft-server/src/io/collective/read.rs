//! The job of a collective read: one pass over the cells; each range is read once and sent to all
//! members that touch it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;
use futures_util::future::try_join_all;
use tokio::task::yield_now;
use tokio::time::Instant;
use weft_layout::{CellIndex, Clipped, Piece, Pieces, Search};
use weft_net::{Gone, Reply, ReplyPayload};
use weft_proto::{Failure, Kind};
use weft_store::{READ_ATTEMPTS, ReadSlice, StoreError, together};

use super::group::{MemberCall, Outcome};
use super::memory::{ClientRoundMemory, RoundReservation, StallTimeout};
use super::streams::Sinks;
use super::{payer, rounds};
use crate::failure;
use crate::io::IoService;
use crate::io::data::runs;
use crate::io::job::Job;
use crate::io::job::walk::{self, Callers};
use crate::io::plan::{CellRange, ReadBatch, merge};
use crate::limits::READ_RANGE_MAX;
use crate::metrics::Stage;

struct FetchedRound {
    payloads: Vec<ReplyPayload>,
    memory: RoundReservation,
}

/// Why a round was not read.
enum RoundEnd {
    Failed(StoreError),
    /// No caller is left.
    Gone,
}

impl From<StoreError> for RoundEnd {
    fn from(error: StoreError) -> RoundEnd {
        RoundEnd::Failed(error)
    }
}

impl From<Gone> for RoundEnd {
    fn from(_: Gone) -> RoundEnd {
        RoundEnd::Gone
    }
}

impl IoService {
    /// Reads for all members and answers them.
    pub(super) async fn read_together(&self, calls: Vec<MemberCall>, missing: Vec<u32>) -> Outcome {
        let stall_timeout = self.collectives.stall_timeout(&calls);
        let client = payer(&calls).clone();
        let (mut jobs, mut replies) = (Vec::new(), Vec::new());
        for call in calls {
            jobs.push(call.job);
            replies.push(call.reply);
        }
        let failure = self
            .read_jobs(
                &jobs,
                Replies::Each(replies, &missing),
                stall_timeout,
                &client,
            )
            .await
            .err();
        Outcome {
            failure,
            bytes: BTreeMap::new(),
            missing,
        }
    }

    /// Reads all jobs, into one stream each or one for all.
    pub(super) async fn read_jobs(
        &self,
        jobs: &[Job],
        replies: Replies<'_>,
        stall_timeout: StallTimeout,
        client: &ClientRoundMemory,
    ) -> Result<(), Failure> {
        let started = Instant::now();
        let callers = replies.callers();
        let (lengths, members) = match self.members(jobs, &callers).await {
            Ok(members) => members,
            Err(failure) => return Err(replies.fail(failure)),
        };
        let (members, bytes): (Vec<_>, Vec<u64>) = members.into_iter().unzip();
        let clip = |pieces| {
            let length_of = |cell: CellIndex| lengths.get(&cell).copied().unwrap_or(0);
            Clipped::new(pieces, length_of)
        };
        let members = members.into_iter().map(clip).collect();
        let mut sinks = match replies {
            Replies::Each(replies, missing) => {
                Sinks::each(replies, &bytes, &runs(&lengths), missing, &stall_timeout)
            }
            Replies::One(reply) => {
                Sinks::one(reply, bytes.iter().sum(), runs(&lengths), stall_timeout)
            }
        };
        sinks.send_empty().await;
        let result = self
            .send_rounds(jobs, members, &mut sinks, client, &callers)
            .await;
        let kind = if matches!(sinks, Sinks::One(_)) {
            Kind::JoinedRead
        } else {
            Kind::CollectiveRead
        };
        self.metrics.stage(kind, Stage::Total, started.elapsed());
        result.map_err(|e| {
            let failure = failure::of_store(&e);
            sinks.fail(&failure);
            failure
        })
    }

    /// Reads the next round while one is sent.
    async fn send_rounds(
        &self,
        jobs: &[Job],
        members: Vec<impl Search + Clone>,
        sinks: &mut Sinks,
        client: &ClientRoundMemory,
        callers: &Callers,
    ) -> Result<(), StoreError> {
        let Some(first) = jobs.first() else {
            return Ok(());
        };
        let mut rounds = rounds(first, members);
        let mut next = async || {
            yield_now().await;
            match walk::until(callers, |steps| rounds.look(steps)).await {
                Ok(round) => Some(self.fetch_round(first, round?, client, callers).await),
                Err(gone) => Some(Err(gone.into())),
            }
        };
        let mut fetched = next().await;
        while let Some(round) = fetched {
            let FetchedRound { payloads, memory } = match round {
                Ok(round) => round,
                Err(RoundEnd::Failed(e)) => return Err(e),
                Err(RoundEnd::Gone) => return Ok(()),
            };
            let send = async {
                sinks.send(payloads).await;
                drop(memory);
                (0..jobs.len()).any(|member| sinks.wants(member))
            };
            let (wanted, following) = tokio::join!(send, next());
            if !wanted {
                break;
            }
            fetched = following;
        }
        Ok(())
    }

    /// Reads one round, its ranges in parallel, each once.
    async fn fetch_round(
        &self,
        job: &Job,
        round: Vec<Vec<Piece>>,
        client: &ClientRoundMemory,
        callers: &Callers,
    ) -> Result<FetchedRound, RoundEnd> {
        let ranges = union(&round);
        let bytes = ranges.iter().map(|r| r.end - r.start).sum();
        let memory = self.collectives.memory.take(bytes, client, callers).await?;
        let started = Instant::now();
        let batches: Vec<ReadBatch> = round.into_iter().map(ReadBatch::of).collect();
        let mut tries = 0;
        let payloads = loop {
            tries += 1;
            let reads = ranges.iter().map(|range| self.read_long(job, range));
            let read = together(try_join_all(reads)).await?;
            let pack = |batch: &ReadBatch| {
                let (payload, copied) = batch.pack(&ranges, &read);
                self.metrics.copied(copied);
                payload
            };
            let payloads = batches.iter().map(pack).collect();
            // After packing, so that the packed bytes are the verified ones.
            if (self.store).verify_used(read.iter().flatten(), tries >= READ_ATTEMPTS)? {
                break payloads;
            }
        };
        self.metrics
            .stage(Kind::CollectiveRead, Stage::Disk, started.elapsed());
        Ok(FetchedRound { payloads, memory })
    }

    /// Reads a range of any length, segments of it in parallel. Missing bytes (the cell was
    /// truncated meanwhile) become zeros.
    async fn read_long(&self, job: &Job, range: &CellRange) -> Result<Vec<ReadSlice>, StoreError> {
        let starts = (range.start..range.end).step_by(READ_RANGE_MAX as usize);
        let segments = starts.map(|start| async move {
            let end = range.end.min(start + READ_RANGE_MAX);
            let segment = CellRange {
                start,
                end,
                ..*range
            };
            let mut read = self.read_range(job, &segment).await?;
            let came: u64 = read.iter().map(|slice| slice.len() as u64).sum();
            if came < end - start {
                let zeros = BytesMut::zeroed((end - start - came) as usize);
                read.push(zeros.freeze().into());
            }
            Ok::<_, StoreError>(read)
        });
        Ok(try_join_all(segments)
            .await?
            .into_iter()
            .flatten()
            .collect())
    }

    /// The lengths of the server's cells that the jobs touch, empty cells left out; and for each
    /// job its pieces and how many bytes they have.
    async fn members(
        &self,
        jobs: &[Job],
        callers: &Callers,
    ) -> Result<(BTreeMap<CellIndex, u64>, Vec<(Pieces, u64)>), Failure> {
        let Some(first) = jobs.first() else {
            return Ok((BTreeMap::new(), Vec::new()));
        };
        let mut seen = BTreeSet::new();
        for job in jobs {
            walk::touched(job, &mut seen, callers).await?;
        }
        let lengths = self.lengths_of(first, seen).await?;
        let mut members = Vec::with_capacity(jobs.len());
        for job in jobs {
            self.check_ends(job, &lengths, callers).await?;
            let pieces = job.valid_pieces(&lengths)?;
            let length_of = |cell: CellIndex| lengths.get(&cell).copied().unwrap_or(0);
            let bytes = walk::bytes_of(pieces.clone(), length_of, callers).await;
            let bytes = bytes.map_err(walk::abandoned)?;
            // A job without bytes on this server needs no further walk.
            let pieces = if bytes > 0 { pieces } else { pieces.below(0) };
            members.push((pieces, bytes));
        }
        Ok((lengths, members))
    }
}

/// The replies of a job.
pub(super) enum Replies<'a> {
    /// To each member, with the members that did not come.
    Each(Vec<Reply>, &'a [u32]),
    /// To the process that asks for all.
    One(Reply),
}

impl Replies<'_> {
    fn callers(&self) -> Callers {
        match self {
            Replies::Each(replies, _) => Callers::of(replies.iter().map(Reply::caller)),
            Replies::One(reply) => Callers::of([reply.caller()]),
        }
    }

    fn fail(self, failure: Failure) -> Failure {
        match self {
            Replies::Each(replies, ..) => super::gather::fail_replies(replies, &failure),
            Replies::One(reply) => reply.fail(&failure),
        }
        failure
    }
}

/// The ranges that all members touch in a round, ascending and disjoint.
fn union(round: &[Vec<Piece>]) -> Vec<CellRange> {
    let mut ranges: Vec<CellRange> = round.iter().flatten().map(CellRange::from).collect();
    // The pieces of each member mostly ascend: a merge sort finds these runs.
    ranges.sort_by_key(|range| (range.cell, range.start));
    merge(ranges, u64::MAX)
}
