//! The job of a collective write: round by round, what all members write in one part of the cells,
//! filled together.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;
use weft_layout::{CellOffset, Comparison, Cutter, Endless, Shared};
use weft_net::Reply;
use weft_proto::collective::CollectiveWriteReply;
use weft_proto::stamp::Stamp;
use weft_proto::{Code, Failure, Kind};
use weft_store::{StoreError, Write};

use super::assembly::Assembly;
use super::gather::fail_replies;
use super::inlet::Inlets;
use super::room::{Held, Share};
use super::table::Outcome;
use super::{Part, first_failure, names, rounds, share};
use crate::failure;
use crate::io::walk::{self, Callers, nobody_waits};
use crate::io::{IoService, Job};
use crate::metrics::Stage;

/// What all members of a write agree on.
#[allow(clippy::struct_excessive_bools)] // each is a question of its own
pub(super) struct Terms {
    pub(super) chunk: u32,
    pub(super) sync: bool,
    /// A member's own request touches bytes twice.
    pub(super) ordered: bool,
    pub(super) member_order: bool,
    /// Members that are lost do not make it fail.
    pub(super) go_on: bool,
}

/// On whose account a job is done.
pub(super) struct Owner {
    pub(super) share: Arc<Share>,
    pub(super) callers: Callers,
}

/// A round on its way into the store. Its room is free when the store has all of it, whoever waits
/// for that.
struct Flush {
    writes: JoinSet<Result<(), StoreError>>,
}

impl Flush {
    async fn done(mut self) -> Result<(), Failure> {
        let mut ended = Vec::new();
        while let Some(write) = self.writes.join_next().await {
            ended.push(match write {
                Ok(written) => written.map_err(|e| failure::of_store(&e)),
                Err(e) => Err(Failure::new(
                    Code::Internal,
                    format!("a write's task ended: {e}"),
                )),
            });
        }
        first_failure(ended)
    }
}

impl IoService {
    /// Writes what all members bring and answers them.
    pub(super) async fn write_together(
        &self,
        parts: Vec<Part>,
        mut missing: Vec<u32>,
        go_on: bool,
    ) -> Outcome {
        let mut terms = Terms {
            chunk: 0,
            sync: false,
            ordered: false,
            member_order: false,
            go_on,
        };
        let patience = self.collectives.patience(&parts);
        let share = share(&parts).clone();
        let (mut jobs, mut replies, mut payloads, mut members) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            let Some(write) = part.write else { continue };
            terms.chunk = write.chunk;
            terms.sync |= write.sync;
            terms.ordered |= write.ordered;
            terms.member_order |= write.member_order;
            members.push((part.membership.member, write.bytes));
            jobs.push(part.job);
            replies.push(part.reply);
            payloads.push(write.payload);
        }
        let mut inlets = Inlets::each(payloads, &patience);
        let number: Vec<u32> = members.iter().map(|(member, _)| *member).collect();
        let owner = Owner {
            share,
            callers: Callers::of(replies.iter().map(Reply::caller)),
        };
        let result = self
            .write_jobs(&jobs, &number, &mut inlets, &terms, &owner)
            .await;
        match result {
            Ok(lost) => {
                missing.extend(lost.iter().map(|i| number[*i]));
                missing.sort_unstable();
                let bytes: BTreeMap<u32, u64> = members
                    .into_iter()
                    .filter(|(m, _)| !missing.contains(m))
                    .collect();
                answer(replies, &number, &bytes, &missing, &self.stamp());
                Outcome {
                    failure: None,
                    bytes,
                    missing,
                }
            }
            Err(failure) => {
                fail_replies(replies, &failure);
                Outcome {
                    failure: Some(failure),
                    bytes: BTreeMap::new(),
                    missing,
                }
            }
        }
    }

    /// Writes what all jobs bring; which of them were lost in the middle.
    pub(super) async fn write_jobs(
        &self,
        jobs: &[Job],
        number: &[u32],
        inlets: &mut Inlets,
        terms: &Terms,
        owner: &Owner,
    ) -> Result<Vec<usize>, Failure> {
        // One member that may not write keeps all from it: nothing of a collective is done by
        // halves.
        self.may_grow(jobs).await?;
        let Some(first) = jobs.first() else {
            return Ok(Vec::new());
        };
        let started = Instant::now();
        let pieces = jobs
            .iter()
            .map(Job::pieces)
            .collect::<Result<Vec<_>, _>>()?;
        let mut comparison = Comparison::new(first.map.grid(), first.slot, pieces.clone());
        let shared = walk::until(&owner.callers, |_| comparison.step()).await;
        let shared = shared.map_err(nobody_waits)?;
        drop(comparison);
        let together = disjoint(shared, number, terms)?;
        let _under_way = self.gates.enter(first.file).await;
        if together {
            let mut flushing: Option<Flush> = None;
            let mut rounds = rounds(first, pieces);
            loop {
                let round = walk::until(&owner.callers, |steps| rounds.look(steps)).await;
                let Some(round) = round.map_err(nobody_waits)? else {
                    break;
                };
                let bytes = round.iter().flatten().map(|p| p.length).sum();
                let room = self
                    .collectives
                    .room
                    .take(bytes, &owner.share, &owner.callers);
                let room = room.await.map_err(nobody_waits)?;
                let mut assembly = Assembly::new(self.store.memory(), &round);
                inlets.fill(&mut assembly, jobs.len()).await;
                self.metrics.copied(bytes);
                Self::still_all(inlets, number, terms)?;
                if let Some(flush) = flushing.take() {
                    flush.done().await?;
                }
                flushing = Some(self.flush(first, assembly, terms.chunk, room));
                if inlets.lost(jobs.len()).len() == jobs.len() {
                    break;
                }
            }
            if let Some(flush) = flushing {
                flush.done().await?;
            }
        } else {
            for (member, job) in jobs.iter().enumerate() {
                let bytes = walk::bytes_of(job.pieces()?, Endless, &owner.callers).await;
                let bytes = bytes.map_err(nobody_waits)?;
                self.write_one(job, (member, bytes), inlets, terms.chunk)
                    .await?;
                Self::still_all(inlets, number, terms)?;
            }
        }
        if terms.sync {
            self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        }
        self.metrics
            .stage(Kind::CollectiveWrite, Stage::Total, started.elapsed());
        Ok(inlets.lost(jobs.len()))
    }

    fn flush(&self, job: &Job, assembly: Assembly, chunk: u32, room: Held) -> Flush {
        let now = self.now();
        let room = Arc::new(room);
        let mut writes = JoinSet::new();
        for group in assembly.into_writes(chunk, |cell| job.key(cell)) {
            let (store, room) = (self.store.clone(), room.clone());
            writes.spawn(async move {
                let written = store.write(group, now).await;
                drop(room);
                written
            });
        }
        Flush { writes }
    }

    /// Writes one member's bytes, so many, in the order in which they come.
    async fn write_one(
        &self,
        job: &Job,
        (member, mut left): (usize, u64),
        inlets: &mut Inlets,
        chunk: u32,
    ) -> Result<(), Failure> {
        let mut cutter = Cutter::whole(job.pieces()?);
        let inlet = inlets.of(member);
        while left > 0 && inlet.more().await {
            let data = inlet.take(left);
            left -= data.len() as u64;
            let written = self
                .store
                .write(deal(job, &mut cutter, &data, chunk), self.now())
                .await;
            written.map_err(|e| failure::of_store(&e))?;
            inlet.release();
        }
        Ok(())
    }

    /// Fails if a member was lost that must not be.
    fn still_all(inlets: &Inlets, number: &[u32], terms: &Terms) -> Result<(), Failure> {
        let lost = inlets.lost(number.len());
        if lost.is_empty() || terms.go_on {
            return Ok(());
        }
        let lost: Vec<u32> = lost.into_iter().map(|i| number[i]).collect();
        let what = format!(
            "{} of the group was lost in the middle of a collective write; any part of what all wrote may be written",
            names(&lost)
        );
        Err(Failure::new(Code::MembersMissing, what))
    }
}

/// Whether the members' bytes are disjoint, so that they can be written together; else one member
/// after the other.
fn disjoint(shared: Shared, number: &[u32], terms: &Terms) -> Result<bool, Failure> {
    let what = match shared {
        Shared::No => return Ok(true),
        _ if terms.member_order => return Ok(false),
        Shared::Byte { first, second, .. } if first == second && terms.ordered => return Ok(false),
        Shared::Byte {
            first,
            second,
            cell,
            offset,
        } => format!(
            "members {} and {} both write byte {} of cell {cell}: nothing was written here; ask for member order if the \
             higher one's is to stay",
            number[first], number[second], offset.0
        ),
        Shared::Unknown => {
            "the members' requests are of too many pieces in too wild an order to see that none \
                            writes what another writes; ask for member order"
                .to_owned()
        }
    };
    Err(failure::invalid(what))
}

/// The writes that the next bytes of a stream amount to, in their order.
fn deal(job: &Job, cutter: &mut Cutter<Endless>, data: &Bytes, chunk: u32) -> Vec<Write> {
    let (mut writes, mut at) = (Vec::new(), 0);
    while at < data.len() {
        let Some(stretch) = cutter.next((data.len() - at) as u64) else {
            break;
        };
        for piece in stretch.pieces() {
            let end = at + piece.length as usize;
            writes.push(Write {
                key: job.key(piece.cell),
                chunk,
                offset: CellOffset(piece.offset.0),
                data: data.slice(at..end),
            });
            at = end;
        }
    }
    writes
}

fn answer(
    replies: Vec<Reply>,
    number: &[u32],
    bytes: &BTreeMap<u32, u64>,
    missing: &[u32],
    stamp: &Stamp,
) {
    for (reply, member) in replies.into_iter().zip(number) {
        // One that was lost hears nothing: its reply says by itself that the call was cancelled.
        if let Some(bytes) = bytes.get(member) {
            let written = CollectiveWriteReply {
                bytes: *bytes,
                missing: missing.to_vec(),
            };
            reply.done_at(&written, stamp);
        }
    }
}
