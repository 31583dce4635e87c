//! The job of a collective write: round by round, the bytes of all members in one band of the cells
//! are assembled and written together.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;
use weft_layout::{CellOffset, Comparison, Endless, MemberOverlap, Pieces, Rounds, Splitter};
use weft_net::Reply;
use weft_proto::collective::CollectiveWriteReply;
use weft_proto::stamp::Stamp;
use weft_proto::{Code, Failure, Kind};
use weft_store::{StoreError, Write};

use super::gather::fail_replies;
use super::group::{MemberCall, Outcome, names};
use super::memory::{ClientRoundMemory, RoundReservation};
use super::streams::{Assembly, Sources};
use super::{payer, rounds};
use crate::failure;
use crate::io::IoService;
use crate::io::job::Job;
use crate::io::job::walk::{self, Callers, abandoned};
use crate::io::sharers::Change;
use crate::limits::ROUNDS_IN_FLIGHT;
use crate::metrics::Stage;

/// What all members of a write agree on.
#[allow(clippy::struct_excessive_bools)] // each is a question of its own
pub(super) struct Terms {
    pub(super) chunk: u32,
    pub(super) sync: bool,
    /// The request of some member touches bytes twice.
    pub(super) ordered: bool,
    pub(super) member_order: bool,
    /// The job goes on without lost members.
    pub(super) go_on: bool,
}

/// The client whose budget a job uses, and the callers that wait for it.
pub(super) struct Owner {
    pub(super) client: Arc<ClientRoundMemory>,
    pub(super) callers: Callers,
}

/// A write of several jobs.
pub(super) struct GroupWrite<'a> {
    pub(super) jobs: &'a [Job],
    /// The number of each job's member.
    pub(super) members: &'a [u32],
    pub(super) terms: &'a Terms,
    pub(super) owner: &'a Owner,
}

impl GroupWrite<'_> {
    /// Fails if a member was lost, unless the job goes on without lost members.
    fn check_lost(&self, sources: &Sources) -> Result<(), Failure> {
        let lost = sources.lost(self.members.len());
        if lost.is_empty() || self.terms.go_on {
            return Ok(());
        }
        let lost: Vec<u32> = lost.into_iter().map(|i| self.members[i]).collect();
        let what = format!(
            "{} of the group was lost in the middle of a collective write; any part of what all wrote may be written",
            names(&lost)
        );
        Err(Failure::new(Code::MembersMissing, what))
    }
}

/// A round on its way into the store. Its memory is free as soon as the store has all of it, even
/// if no task waits for that.
struct Flush {
    writes: JoinSet<Result<(), StoreError>>,
}

impl Flush {
    async fn done(mut self) -> Result<(), Failure> {
        let mut first = Ok(());
        while let Some(write) = self.writes.join_next().await {
            let written = match write {
                Ok(written) => written.map_err(|e| failure::of_store(&e)),
                Err(e) => {
                    let what = format!("the task of a write ended early: {e}");
                    Err(Failure::new(Code::Internal, what))
                }
            };
            first = first.and(written);
        }
        first
    }
}

/// The rounds of a write that are on their way into the store: while the disk is behind, the next
/// ones are filled.
#[derive(Default)]
struct Flushes(VecDeque<Flush>);

impl Flushes {
    /// Adds a round, and waits for the first one if there are [`ROUNDS_IN_FLIGHT`] before it.
    async fn push(&mut self, flush: Flush) -> Result<(), Failure> {
        self.0.push_back(flush);
        if self.0.len() <= ROUNDS_IN_FLIGHT {
            return Ok(());
        }
        match self.0.pop_front() {
            Some(first) => first.done().await,
            None => Ok(()),
        }
    }

    async fn done(self) -> Result<(), Failure> {
        let mut first = Ok(());
        for flush in self.0 {
            first = first.and(flush.done().await);
        }
        first
    }
}

impl IoService {
    /// Writes the bytes of all members and answers them.
    pub(super) async fn write_together(
        &self,
        calls: Vec<MemberCall>,
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
        let stall_timeout = self.collectives.stall_timeout(&calls);
        let client = payer(&calls).clone();
        let (mut jobs, mut replies, mut payloads, mut members) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for call in calls {
            let Some(write) = call.write else { continue };
            terms.chunk = write.chunk;
            terms.sync |= write.sync;
            terms.ordered |= write.ordered;
            terms.member_order |= write.member_order;
            members.push((call.membership.member, write.bytes));
            jobs.push(call.job);
            replies.push(call.reply);
            payloads.push(write.payload);
        }
        let mut sources = Sources::each(payloads, &stall_timeout);
        let number: Vec<u32> = members.iter().map(|(member, _)| *member).collect();
        let owner = Owner {
            client,
            callers: Callers::of(replies.iter().map(Reply::caller)),
        };
        let write = GroupWrite {
            jobs: &jobs,
            members: &number,
            terms: &terms,
            owner: &owner,
        };
        match self.write_jobs(&write, &mut sources).await {
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

    /// Writes the bytes of all jobs; returns the jobs whose stream was lost.
    pub(super) async fn write_jobs(
        &self,
        write: &GroupWrite<'_>,
        sources: &mut Sources,
    ) -> Result<Vec<usize>, Failure> {
        let (jobs, callers) = (write.jobs, &write.owner.callers);
        // All or nothing: if one member may not write, none does.
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
        let overlap = walk::until(callers, |_| comparison.step()).await;
        let overlap = overlap.map_err(abandoned)?;
        drop(comparison);
        let together = disjoint(overlap, write.members, write.terms)?;
        let _gate = self.gates.enter(first.file).await;
        let written = if together {
            self.write_rounds(write, rounds(first, pieces), sources)
                .await
        } else {
            self.write_in_turn(write, sources).await
        };
        self.tell_sharers(first.file, Change::All).await;
        written?;
        if write.terms.sync {
            self.store.sync().await.map_err(|e| failure::of_store(&e))?;
        }
        self.metrics
            .stage(Kind::CollectiveWrite, Stage::Total, started.elapsed());
        Ok(sources.lost(jobs.len()))
    }

    /// Writes disjoint members together. A round is filled while those before it go into the
    /// store.
    async fn write_rounds(
        &self,
        write: &GroupWrite<'_>,
        mut rounds: Rounds<Pieces>,
        sources: &mut Sources,
    ) -> Result<(), Failure> {
        let GroupWrite {
            jobs, terms, owner, ..
        } = *write;
        let mut flushes = Flushes::default();
        loop {
            let round = walk::until(&owner.callers, |steps| rounds.look(steps)).await;
            let Some(round) = round.map_err(abandoned)? else {
                break;
            };
            let bytes = round.iter().flatten().map(|p| p.length).sum();
            let memory = &self.collectives.memory;
            let memory = memory.take(bytes, &owner.client, &owner.callers).await;
            let memory = memory.map_err(abandoned)?;
            let mut assembly = Assembly::new(self.store.memory(), &round);
            sources.fill(&mut assembly, jobs.len()).await;
            self.metrics.copied(bytes);
            write.check_lost(sources)?;
            let flush = self.flush(&jobs[0], assembly, terms.chunk, memory);
            flushes.push(flush).await?;
            if sources.lost(jobs.len()).len() == jobs.len() {
                break;
            }
        }
        flushes.done().await
    }

    /// Writes one member after the other, so that later members win.
    async fn write_in_turn(
        &self,
        write: &GroupWrite<'_>,
        sources: &mut Sources,
    ) -> Result<(), Failure> {
        for (member, job) in write.jobs.iter().enumerate() {
            let bytes = walk::bytes_of(job.pieces()?, Endless, &write.owner.callers).await;
            let bytes = bytes.map_err(abandoned)?;
            self.write_one(job, (member, bytes), sources, write.terms.chunk)
                .await?;
            write.check_lost(sources)?;
        }
        Ok(())
    }

    fn flush(&self, job: &Job, assembly: Assembly, chunk: u32, memory: RoundReservation) -> Flush {
        let now = self.now();
        let memory = Arc::new(memory);
        let mut writes = JoinSet::new();
        for group in assembly.into_writes(chunk, |cell| job.key(cell)) {
            let (store, memory) = (self.store.clone(), memory.clone());
            writes.spawn(async move {
                let written = store.write(group, now).await;
                drop(memory);
                written
            });
        }
        Flush { writes }
    }

    /// Writes `left` bytes of one member in stream order.
    async fn write_one(
        &self,
        job: &Job,
        (member, mut left): (usize, u64),
        sources: &mut Sources,
        chunk: u32,
    ) -> Result<(), Failure> {
        let mut splitter = Splitter::whole(job.pieces()?);
        let source = sources.of(member);
        while left > 0 && source.more().await {
            let data = source.take(left);
            left -= data.len() as u64;
            let written = self
                .store
                .write(scatter(job, &mut splitter, &data, chunk), self.now())
                .await;
            written.map_err(|e| failure::of_store(&e))?;
            source.release();
        }
        Ok(())
    }
}

/// Whether the members' bytes are disjoint, so that they can be written together; otherwise the
/// members are written one after the other.
fn disjoint(overlap: MemberOverlap, number: &[u32], terms: &Terms) -> Result<bool, Failure> {
    let what = match overlap {
        MemberOverlap::No => return Ok(true),
        _ if terms.member_order => return Ok(false),
        MemberOverlap::Byte { first, second, .. } if first == second && terms.ordered => return Ok(false),
        MemberOverlap::Byte {
            first,
            second,
            cell,
            offset,
        } => format!(
            "members {} and {} both write byte {} of cell {cell}: nothing was written here; ask for member order if the \
             higher one's is to stay",
            number[first], number[second], offset.0
        ),
        MemberOverlap::Unknown => {
            "the members' requests have too many pieces in too irregular an order to prove that no two members \
                            write the same byte; ask for member order"
                .to_owned()
        }
    };
    Err(failure::invalid(what))
}

/// The writes for the next bytes of a stream, in stream order.
fn scatter(job: &Job, splitter: &mut Splitter<Endless>, data: &Bytes, chunk: u32) -> Vec<Write> {
    let (mut writes, mut at) = (Vec::new(), 0);
    while at < data.len() {
        let Some(strided) = splitter.next((data.len() - at) as u64) else {
            break;
        };
        for piece in strided.pieces() {
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
        // A lost member gets no answer: dropping its reply cancels the call.
        if let Some(bytes) = bytes.get(member) {
            let written = CollectiveWriteReply {
                bytes: *bytes,
                missing: missing.to_vec(),
            };
            reply.done_at(&written, stamp);
        }
    }
}
