//! The job of a collective read: once over the cells, each range read once and sent to all that
//! touch it.

use bytes::BytesMut;
use futures_util::future::try_join_all;
use std::collections::{BTreeMap, BTreeSet};
use tokio::task::yield_now;
use tokio::time::Instant;
use weft_layout::{CellIndex, Clipped, Piece, Pieces, Search};
use weft_net::{Gone, Parcel, Reply};
use weft_proto::{Failure, Kind};
use weft_store::{READ_ATTEMPTS, ReadSlice, StoreError};

use super::outlet::Outlets;
use super::room::{Held, Patience, Share};
use super::table::Outcome;
use super::{Part, rounds, share};
use crate::failure;
use crate::io::plan::{BRIDGE, Batch, RANGE_MAX, Range};
use crate::io::read::runs;
use crate::io::walk::{self, Callers};
use crate::io::{IoService, Job};
use crate::metrics::Stage;

struct Fetched {
    payloads: Vec<Parcel>,
    room: Held,
}

/// Why a round was not read.
enum Ended {
    Failed(StoreError),
    /// Nobody wants it any more.
    Gone,
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Ended {
        Ended::Failed(error)
    }
}

impl From<Gone> for Ended {
    fn from(_: Gone) -> Ended {
        Ended::Gone
    }
}

impl IoService {
    /// Reads what all members ask for and answers them.
    pub(super) async fn read_together(&self, parts: Vec<Part>, missing: Vec<u32>) -> Outcome {
        let patience = self.collectives.patience(&parts);
        let share = share(&parts).clone();
        let (mut jobs, mut replies) = (Vec::new(), Vec::new());
        for part in parts {
            jobs.push(part.job);
            replies.push(part.reply);
        }
        let failure = self
            .read_jobs(&jobs, Replies::Each(replies, &missing), patience, &share)
            .await
            .err();
        Outcome {
            failure,
            bytes: BTreeMap::new(),
            missing,
        }
    }

    /// Reads what all jobs ask for, to one stream each or to one for all.
    pub(super) async fn read_jobs(
        &self,
        jobs: &[Job],
        replies: Replies<'_>,
        patience: Patience,
        share: &Share,
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
        let mut outlets = match replies {
            Replies::Each(replies, missing) => {
                Outlets::each(replies, &bytes, &runs(&lengths), missing, &patience)
            }
            Replies::One(reply) => {
                Outlets::one(reply, bytes.iter().sum(), runs(&lengths), patience)
            }
        };
        outlets.begin().await;
        let result = self
            .send_rounds(jobs, members, &mut outlets, share, &callers)
            .await;
        let kind = if matches!(outlets, Outlets::One(_)) {
            Kind::JoinedRead
        } else {
            Kind::CollectiveRead
        };
        self.metrics.stage(kind, Stage::Total, started.elapsed());
        result.map_err(|e| {
            let failure = failure::of_store(&e);
            outlets.fail(&failure);
            failure
        })
    }

    /// Reads the next round while one is sent.
    async fn send_rounds(
        &self,
        jobs: &[Job],
        members: Vec<impl Search + Clone>,
        outlets: &mut Outlets,
        share: &Share,
        callers: &Callers,
    ) -> Result<(), StoreError> {
        let Some(first) = jobs.first() else {
            return Ok(());
        };
        let mut rounds = rounds(first, members);
        let mut next = async || {
            yield_now().await;
            match walk::until(callers, |steps| rounds.look(steps)).await {
                Ok(round) => Some(self.fetch_round(first, round?, share, callers).await),
                Err(gone) => Some(Err(gone.into())),
            }
        };
        let mut fetched = next().await;
        while let Some(round) = fetched {
            let Fetched { payloads, room } = match round {
                Ok(round) => round,
                Err(Ended::Failed(e)) => return Err(e),
                Err(Ended::Gone) => return Ok(()),
            };
            let give = async {
                outlets.give(payloads).await;
                drop(room);
                (0..jobs.len()).any(|member| outlets.wants(member))
            };
            let (wanted, following) = tokio::join!(give, next());
            if !wanted {
                break;
            }
            fetched = following;
        }
        Ok(())
    }

    /// Reads one round, its ranges side by side, each once.
    async fn fetch_round(
        &self,
        job: &Job,
        round: Vec<Vec<Piece>>,
        share: &Share,
        callers: &Callers,
    ) -> Result<Fetched, Ended> {
        let ranges = union(&round);
        let bytes = ranges.iter().map(|r| r.end - r.start).sum();
        let room = self.collectives.room.take(bytes, share, callers).await?;
        let started = Instant::now();
        let batches: Vec<Batch> = round.into_iter().map(Batch::of).collect();
        let mut tries = 0;
        let payloads = loop {
            tries += 1;
            let read = try_join_all(ranges.iter().map(|range| self.read_long(job, range))).await?;
            let pack = |batch: &Batch| {
                let (payload, copied) = batch.pack(&ranges, &read);
                self.metrics.copied(copied);
                payload
            };
            let payloads = batches.iter().map(pack).collect();
            // After packing: so what was packed is what was stored.
            if (self.store).verify_used(read.iter().flatten(), tries >= READ_ATTEMPTS)? {
                break payloads;
            }
        };
        self.metrics
            .stage(Kind::CollectiveRead, Stage::Disk, started.elapsed());
        Ok(Fetched { payloads, room })
    }

    /// Reads a range of any length, parts of it side by side. What it lacks (the cell was cut
    /// meanwhile) is zeros.
    async fn read_long(&self, job: &Job, range: &Range) -> Result<Vec<ReadSlice>, StoreError> {
        let starts = (range.start..range.end).step_by(RANGE_MAX as usize);
        let parts = starts.map(|start| async move {
            let end = range.end.min(start + RANGE_MAX);
            let part = Range {
                start,
                end,
                ..*range
            };
            let mut read = self.read_range(job, &part).await?;
            let came: u64 = read.iter().map(|slice| slice.len() as u64).sum();
            if came < end - start {
                let zeros = BytesMut::zeroed((end - start - came) as usize);
                read.push(zeros.freeze().into());
            }
            Ok::<_, StoreError>(read)
        });
        Ok(try_join_all(parts).await?.into_iter().flatten().collect())
    }

    /// The lengths of the cells that any of the jobs touches here, those without bytes left out;
    /// and of each job its pieces and how many bytes these have.
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
            let bytes = bytes.map_err(walk::nobody_waits)?;
            // Of one that has none here nothing is gone over any more.
            let pieces = if bytes > 0 { pieces } else { pieces.below(0) };
            members.push((pieces, bytes));
        }
        Ok((lengths, members))
    }
}

/// Who is to be answered.
pub(super) enum Replies<'a> {
    /// Each member, and told who did not come.
    Each(Vec<Reply>, &'a [u32]),
    /// The one that asks for all.
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

/// The ranges that cover what all members touch in a round, ascending and disjoint, small gaps
/// bridged.
fn union(round: &[Vec<Piece>]) -> Vec<Range> {
    let mut pieces: Vec<&Piece> = round.iter().flatten().collect();
    // Each member's pieces mostly ascend already: runs that a merge sort finds.
    pieces.sort_by_key(|p| (p.cell, p.offset));
    let mut ranges: Vec<Range> = Vec::new();
    for piece in pieces {
        let (start, end) = (piece.offset.0, piece.offset.0 + piece.length);
        match ranges.last_mut() {
            Some(range) if range.cell == piece.cell && start <= range.end + BRIDGE => {
                range.end = range.end.max(end);
            }
            _ => ranges.push(Range {
                cell: piece.cell,
                start,
                end,
            }),
        }
    }
    ranges
}
