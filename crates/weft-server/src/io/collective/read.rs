//! The job of a collective read: once over the cells, each range read once and sent to all that touch it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, stream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use weft_layout::{CellIndex, Clipped, Piece};
use weft_net::{Parcel, Reply};
use weft_proto::{Failure, Kind};
use weft_store::{Part as Stored, READ_TRIES, StoreError};

use super::outlet::Outlets;
use super::table::Outcome;
use super::{Part, patience, rounds};
use crate::failure;
use crate::io::plan::{BRIDGE, Batch, RANGE_MAX, Range};
use crate::io::read::runs;
use crate::io::{IoService, Job};
use crate::metrics::Stage;

/// Rounds of one job between disk and wire: one being sent, one being read.
const DEPTH: usize = 2;

struct Fetched {
    payloads: Vec<Parcel>,
    _room: Option<OwnedSemaphorePermit>,
}

impl IoService {
    /// Reads what all members ask for and answers them.
    pub(super) async fn read_together(&self, parts: Vec<Part>, missing: Vec<u32>) -> Outcome {
        let patience = patience(&parts);
        let (mut jobs, mut replies) = (Vec::new(), Vec::new());
        for part in parts {
            jobs.push(part.job);
            replies.push(part.reply);
        }
        let failure = self
            .read_jobs(&jobs, Replies::Each(replies, &missing, patience))
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
    ) -> Result<(), Failure> {
        let started = Instant::now();
        let lengths = match self.common_lengths(jobs).await {
            Ok(lengths) => lengths,
            Err(failure) => return Err(replies.fail(failure)),
        };
        let mut members = Vec::with_capacity(jobs.len());
        for job in jobs {
            let pieces = match job.pieces() {
                Ok(pieces) => pieces,
                Err(failure) => return Err(replies.fail(failure)),
            };
            let length_of = |cell: CellIndex| lengths.get(&cell).copied().unwrap_or(0);
            members.push(Clipped::new(pieces, length_of));
        }
        let bytes: Vec<u64> = members
            .iter()
            .map(|m| m.clone().map(|p| p.length).sum())
            .collect();
        let mut outlets = match replies {
            Replies::Each(replies, missing, patience) => {
                Outlets::each(replies, &bytes, &runs(&lengths), missing, patience)
            }
            Replies::One(reply) => Outlets::one(reply, bytes.iter().sum(), runs(&lengths)),
        };
        outlets.begin().await;
        let result = self.send_rounds(jobs, members, &mut outlets).await;
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

    async fn send_rounds(
        &self,
        jobs: &[Job],
        members: Vec<impl Iterator<Item = Piece> + Clone>,
        outlets: &mut Outlets,
    ) -> Result<(), StoreError> {
        let Some(first) = jobs.first() else {
            return Ok(());
        };
        let fetches =
            stream::iter(rounds(first, members)).map(|round| self.fetch_round(first, round));
        let mut arriving = std::pin::pin!(fetches.buffered(DEPTH));
        while let Some(fetched) = arriving.next().await {
            outlets.give(fetched?.payloads).await;
            if !(0..jobs.len()).any(|member| outlets.wants(member)) {
                break;
            }
        }
        Ok(())
    }

    /// Reads one round, its ranges side by side, each once.
    async fn fetch_round(&self, job: &Job, round: Vec<Vec<Piece>>) -> Result<Fetched, StoreError> {
        let ranges = union(&round);
        let bytes = ranges.iter().map(|r| r.end - r.start).sum();
        let room = self.collectives.room(bytes).await;
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
            if (self.store).verify_used(read.iter().flatten(), tries >= READ_TRIES)? {
                break payloads;
            }
        };
        self.metrics
            .stage(Kind::CollectiveRead, Stage::Disk, started.elapsed());
        Ok(Fetched {
            payloads,
            _room: room,
        })
    }

    /// Reads a range of any length, parts of it side by side. What it lacks (the cell was cut meanwhile) is zeros.
    async fn read_long(&self, job: &Job, range: &Range) -> Result<Vec<Stored>, StoreError> {
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

    /// The lengths of the cells that any of the jobs touches here; cells without bytes are left out.
    async fn common_lengths(&self, jobs: &[Job]) -> Result<BTreeMap<CellIndex, u64>, Failure> {
        let Some(first) = jobs.first() else {
            return Ok(BTreeMap::new());
        };
        let mut seen = BTreeSet::new();
        for job in jobs {
            job.touched(&mut seen)?;
        }
        self.lengths_of(first, seen).await
    }
}

/// Who is to be answered.
pub(super) enum Replies<'a> {
    /// Each member, and told who did not come; one that takes nothing for so long gets no more.
    Each(Vec<Reply>, &'a [u32], Duration),
    /// The one that asks for all.
    One(Reply),
}

impl Replies<'_> {
    fn fail(self, failure: Failure) -> Failure {
        match self {
            Replies::Each(replies, ..) => super::gather::fail_replies(replies, &failure),
            Replies::One(reply) => reply.fail(&failure),
        }
        failure
    }
}

/// The ranges that cover what all members touch in a round, ascending and disjoint, small gaps bridged.
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
