//! A member's request arrives, waits for the others, and becomes part of the job.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use weft_layout::Endless;
use weft_net::{Reply, Served};
use weft_proto::collective::{
    CollectiveReadRequest, CollectiveWriteReply, CollectiveWriteRequest, Membership,
};
use weft_proto::{Code, Failure, limits};

use super::table::{Arrived, Gathered, Key, Outcome};
use super::{Part, WritePart, names};
use crate::failure;
use crate::io::walk::{self, Callers};
use crate::io::{IoService, Job};

/// How often a gathering looks for members that have given up.
const LOOK: Duration = Duration::from_millis(250);

impl IoService {
    /// One member's read.
    pub(in crate::io) async fn collective_read(&self, call: Served) {
        let request = call.request::<CollectiveReadRequest>();
        let share = self.share(&call.peer);
        let reply = call.reply;
        let part = request
            .map_err(|e| failure::of_frame(&e))
            .and_then(|r| Ok((self.member(&r.membership, &r.access)?, r.membership)));
        match part {
            Ok((job, membership)) => {
                let part = Part {
                    membership,
                    job,
                    share,
                    reply,
                    write: None,
                };
                self.arrive(part).await;
            }
            Err(failure) => reply.fail(&failure),
        }
    }

    /// One member's write.
    pub(in crate::io) async fn collective_write(&self, call: Served) {
        let request = call.request::<CollectiveWriteRequest>();
        let share = self.share(&call.peer);
        let (reply, payload) = (call.reply, call.payload);
        let checked = match request {
            Ok(request) => {
                let callers = Callers::of([reply.caller()]);
                let job = self.writing_member(&request, &callers).await;
                job.map(|job| (job, request))
            }
            Err(e) => Err(failure::of_frame(&e)),
        };
        match checked {
            Ok((job, request)) => {
                let write = WritePart {
                    payload,
                    bytes: request.bytes,
                    chunk: request.chunk,
                    sync: request.sync,
                    ordered: request.ordered,
                    member_order: request.member_order,
                };
                let part = Part {
                    membership: request.membership,
                    job,
                    share,
                    reply,
                    write: Some(write),
                };
                self.arrive(part).await;
            }
            Err(failure) => reply.fail(&failure),
        }
    }

    fn member(
        &self,
        membership: &Membership,
        access: &weft_proto::io::Access,
    ) -> Result<Job, Failure> {
        let (members, group) = (membership.members, &membership.group);
        if members == 0 || members > limits::MEMBERS_MAX || membership.member >= members {
            let what = format!(
                "member {} of {members}: a group has 1 to {} members, numbered from 0",
                membership.member,
                limits::MEMBERS_MAX
            );
            return Err(failure::invalid(what));
        }
        if group.is_empty()
            || group.len() > limits::GROUP_NAME_MAX
            || membership.wait > limits::WAIT_MAX
        {
            let what = format!(
                "group `{group}` waiting {} ms: a name has 1 to {} bytes, and nobody waits longer than {} ms",
                membership.wait,
                limits::GROUP_NAME_MAX,
                limits::WAIT_MAX
            );
            return Err(failure::invalid(what));
        }
        self.job(access)
    }

    async fn writing_member(
        &self,
        request: &CollectiveWriteRequest,
        callers: &Callers,
    ) -> Result<Job, Failure> {
        let job = self
            .member(&request.membership, &request.access)?
            .living()?;
        let bytes = walk::bytes_of(job.pieces()?, Endless, callers).await;
        let bytes = bytes.map_err(walk::nobody_waits)?;
        if bytes != request.bytes {
            let what = format!(
                "{} bytes announced, {bytes} bytes in the request's pieces",
                request.bytes
            );
            return Err(failure::invalid(what));
        }
        Ok(job)
    }

    async fn arrive(&self, part: Part) {
        let (wait, go_on) = (part.membership.wait, part.membership.go_on);
        match self.collectives.table.arrive(part) {
            Arrived::Joined => {}
            Arrived::Refused(part, failure) => part.reply.fail(&failure),
            Arrived::Keep(key, complete) => {
                let deadline = Instant::now() + Duration::from_millis(wait.into());
                let gathered = loop {
                    let now = Instant::now();
                    match self
                        .collectives
                        .table
                        .take(&key, &complete, now >= deadline)
                    {
                        Ok(Some(gathered)) => break gathered,
                        Ok(None) => {}
                        Err(()) => return,
                    }
                    // Woken or not: the table is looked at again.
                    let _ = timeout(LOOK.min(deadline - now), complete.notified()).await;
                };
                self.run(&key, gathered, wait, go_on).await;
            }
            Arrived::Again(part, outcome) => self.follow(*part, outcome).await,
        }
    }

    /// Does the job of those that came within `wait` milliseconds, as the first of them asked for.
    async fn run(&self, key: &Key, gathered: Gathered, wait: u32, go_on: bool) {
        let Gathered {
            parts,
            missing,
            outcome,
        } = gathered;
        let writes = parts.iter().any(|p| p.write.is_some());
        if !missing.is_empty() {
            tracing::info!(
                ?key,
                ?missing,
                go_on,
                "members of a collective did not come"
            );
        }
        let result = if !missing.is_empty() && !go_on {
            let failure = did_not_come(&parts, &missing, wait);
            fail_all(parts, &failure);
            Outcome {
                failure: Some(failure),
                bytes: BTreeMap::new(),
                missing,
            }
        } else if writes {
            self.write_together(parts, missing, go_on).await
        } else {
            self.read_together(parts, missing).await
        };
        // Nobody may be there to hear it.
        let _ = outcome.send(Some(Arc::new(result)));
    }

    /// Answers a member whose request came again after its job had begun.
    async fn follow(&self, part: Part, mut outcome: watch::Receiver<Option<Arc<Outcome>>>) {
        let ended = outcome.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|o| o.clone());
        let Some(ended) = ended else {
            let what = "the job of this collective ended without an outcome; see the server's log";
            return part.reply.fail(&Failure::new(Code::Internal, what));
        };
        let member = part.membership.member;
        if let Some(failure) = &ended.failure {
            return part.reply.fail(failure);
        }
        if part.write.is_none() {
            // Reading once more harms nobody.
            self.read_together(vec![part], ended.missing.clone()).await;
            return;
        }
        if let Some(bytes) = ended.bytes.get(&member) {
            let reply = CollectiveWriteReply {
                bytes: *bytes,
                missing: ended.missing.clone(),
            };
            part.reply.done_at(&reply, &self.stamp());
        } else {
            let what = format!(
                "collective {} of group `{}` went on without {}, whose connection was lost; any part of what it was to write is written",
                part.membership.sequence,
                part.membership.group,
                names(&[member]),
            );
            part.reply.fail(&Failure::new(Code::MembersMissing, what));
        }
    }
}

/// `wait`: the milliseconds that really passed, of who came first, who need not be among those that
/// are left.
fn did_not_come(parts: &[Part], missing: &[u32], wait: u32) -> Failure {
    let Some(first) = parts.first().map(|p| &p.membership) else {
        return Failure::new(Code::MembersMissing, "nobody came");
    };
    let again = if parts.iter().any(|p| p.membership.again) {
        "; this server was lost meanwhile, so they may have been answered before"
    } else {
        ""
    };
    let what = format!(
        "{} of group `{}` did not come to collective {} within {wait} ms{again}; nothing was done here",
        names(missing),
        first.group,
        first.sequence,
    );
    Failure::new(Code::MembersMissing, what)
}

/// Answers all parts with a failure.
pub(super) fn fail_all(parts: Vec<Part>, failure: &Failure) {
    let replies: Vec<Reply> = parts.into_iter().map(|p| p.reply).collect();
    fail_replies(replies, failure);
}

/// Answers all with a failure.
pub(super) fn fail_replies(replies: impl IntoIterator<Item = Reply>, failure: &Failure) {
    tracing::debug!(message = %failure.message, "a collective failed");
    for reply in replies {
        reply.fail(failure);
    }
}
