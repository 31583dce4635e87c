//! The requests of all members in one call: one message, one job, one stream.

use weft_layout::Endless;
use weft_net::{Reply, Served};
use weft_proto::collective::{JoinedReadRequest, JoinedWriteReply, JoinedWriteRequest};
use weft_proto::io::Access;
use weft_proto::{Code, Failure, limits};

use super::read::Replies;
use super::streams::Sources;
use super::write::{GroupWrite, Owner, Terms};
use crate::failure;
use crate::io::IoService;
use crate::io::job::Job;
use crate::io::job::walk::{self, Callers};

impl IoService {
    pub(in crate::io) async fn joined_read(&self, call: Served) {
        let request = call.request::<JoinedReadRequest>();
        let client = self.clients.round_memory(call.peer.client);
        let reply: Reply = call.reply;
        let jobs = request
            .map_err(|e| failure::of_frame(&e))
            .and_then(|r| self.jobs(&r.accesses));
        match jobs {
            // The caller has its reply, whatever the result.
            Ok(jobs) => {
                let stall_timeout = self.collectives.stall_timeout_if_contended(&client);
                let read = self.read_jobs(&jobs, Replies::One(reply), stall_timeout, &client);
                drop(read.await);
            }
            Err(failure) => reply.fail(&failure),
        }
    }

    pub(in crate::io) async fn joined_write(&self, call: Served) {
        let request = call.request::<JoinedWriteRequest>();
        let client = self.clients.round_memory(call.peer.client);
        let (reply, payload) = (call.reply, call.payload);
        let stall_timeout = self.collectives.stall_timeout_if_contended(&client);
        let mut sources = Sources::one(payload, stall_timeout);
        let callers = Callers::of([reply.caller()]);
        let owner = Owner { client, callers };
        let result = match request {
            Ok(request) => self.write_joined(&request, &mut sources, &owner).await,
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
        sources: &mut Sources,
        owner: &Owner,
    ) -> Result<JoinedWriteReply, Failure> {
        let jobs = self.jobs(&request.accesses)?;
        let mut bytes = 0;
        for job in &jobs {
            let counted = walk::bytes_of(job.pieces()?, Endless, &owner.callers);
            bytes += counted.await.map_err(walk::abandoned)?;
        }
        if bytes != request.bytes || jobs.iter().any(|j| j.checkpoint.is_some()) {
            let what = format!(
                "{} bytes announced, {bytes} in the requests' pieces of a live file",
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
        let members: Vec<u32> = (0..jobs.len() as u32).collect();
        let write = GroupWrite {
            jobs: &jobs,
            members: &members,
            terms: &terms,
            owner,
        };
        if self.write_jobs(&write, sources).await?.is_empty() {
            return Ok(JoinedWriteReply { bytes });
        }
        let what = "the stream of a joined write ended early; the bytes that arrived were written";
        Err(Failure::new(Code::Cancelled, what))
    }

    fn jobs(&self, accesses: &[Access]) -> Result<Vec<Job>, Failure> {
        let Some(first) = accesses.first() else {
            return Err(failure::invalid("a joined request without members"));
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
                "the members of a joined request must name one fork of one file",
            ));
        }
        accesses.iter().map(|access| self.job(access)).collect()
    }
}
