//! The requests of all members from one process: one message, one job, one stream.

use std::time::Duration;

use weft_layout::Endless;
use weft_net::{Reply, Served};
use weft_proto::collective::{JoinedReadRequest, JoinedWriteReply, JoinedWriteRequest};
use weft_proto::io::Access;
use weft_proto::{Code, Failure, limits};

use super::inlet::Inlets;
use super::read::Replies;
use super::write::{Owner, Terms};
use crate::failure;
use crate::io::walk::{self, Callers};
use crate::io::{IoService, Job};

impl IoService {
    pub(in crate::io) async fn joined_read(&self, call: Served) {
        let request = call.request::<JoinedReadRequest>();
        let share = self.share(&call.peer);
        let reply: Reply = call.reply;
        let jobs = request
            .map_err(|e| failure::of_frame(&e))
            .and_then(|r| self.jobs(&r.accesses));
        match jobs {
            // Whoever asked was told how it went.
            Ok(jobs) => {
                let patience = self.collectives.patience_of(&share, Duration::MAX);
                drop(
                    self.read_jobs(&jobs, Replies::One(reply), patience, &share)
                        .await,
                );
            }
            Err(failure) => reply.fail(&failure),
        }
    }

    pub(in crate::io) async fn joined_write(&self, call: Served) {
        let request = call.request::<JoinedWriteRequest>();
        let share = self.share(&call.peer);
        let (reply, payload) = (call.reply, call.payload);
        // No group waits for it.
        let patience = self.collectives.patience_of(&share, Duration::MAX);
        let mut inlets = Inlets::one(payload, patience);
        let callers = Callers::of([reply.caller()]);
        let owner = Owner { share, callers };
        let result = match request {
            Ok(request) => self.write_joined(&request, &mut inlets, &owner).await,
            Err(e) => Err(failure::of_frame(&e)),
        };
        match result {
            Ok(reply_body) => reply.done_at(&reply_body, &self.stamp()),
            Err(failure) => reply.fail(&failure),
        }
    }

    async fn write_joined(
        &self,
        request: &JoinedWriteRequest,
        inlets: &mut Inlets,
        owner: &Owner,
    ) -> Result<JoinedWriteReply, Failure> {
        let jobs = self.jobs(&request.accesses)?;
        let mut bytes = 0;
        for job in &jobs {
            let counted = walk::bytes_of(job.pieces()?, Endless, &owner.callers);
            bytes += counted.await.map_err(walk::nobody_waits)?;
        }
        if bytes != request.bytes || jobs.iter().any(|j| j.checkpoint != 0) {
            let what = format!(
                "{} bytes announced, {bytes} in the requests' pieces of a living file",
                request.bytes
            );
            return Err(failure::invalid(what));
        }
        let terms = Terms {
            chunk: request.chunk,
            sync: request.sync,
            ordered: request.member_order,
            member_order: request.member_order,
            go_on: false,
        };
        let number: Vec<u32> = (0..jobs.len() as u32).collect();
        if self
            .write_jobs(&jobs, &number, inlets, &terms, owner)
            .await?
            .is_empty()
        {
            return Ok(JoinedWriteReply { bytes });
        }
        let what = "the stream of a joined write ended early; what came of it was written";
        Err(Failure::new(Code::Cancelled, what))
    }

    fn jobs(&self, accesses: &[Access]) -> Result<Vec<Job>, Failure> {
        let Some(first) = accesses.first() else {
            return Err(failure::invalid("a joined request of no members"));
        };
        if accesses.len() > limits::MEMBERS_MAX as usize {
            let what = format!(
                "{} members: a group has at most {}",
                accesses.len(),
                limits::MEMBERS_MAX
            );
            return Err(failure::invalid(what));
        }
        let same = |a: &Access| {
            (a.file, a.grid, a.slot, &a.fork, a.checkpoint)
                == (
                    first.file,
                    first.grid,
                    first.slot,
                    &first.fork,
                    first.checkpoint,
                )
        };
        if !accesses.iter().all(same) {
            return Err(failure::invalid(
                "the members of a joined request are not about one fork of one file",
            ));
        }
        accesses.iter().map(|access| self.job(access)).collect()
    }
}
