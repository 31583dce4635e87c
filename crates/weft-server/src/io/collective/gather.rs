//! A member's call arrives, waits for the others, and becomes part of the job.

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

use super::group::{
    Absence, Arrival, Gathered, GatheringKey, MemberCall, MemberWrite, Outcome, Take, names,
};
use crate::failure;
use crate::io::IoService;
use crate::io::job::Job;
use crate::io::job::walk::{self, Callers};
use crate::limits::CALLER_POLL_INTERVAL;

impl IoService {
    /// One member's read.
    pub(in crate::io) async fn collective_read(&self, call: Served) {
        let request = call.request::<CollectiveReadRequest>();
        let from = call.peer.client;
        let client = self.clients.round_memory(from);
        let reply = call.reply;
        let checked = request
            .map_err(|e| failure::of_frame(&e))
            .and_then(|r| Ok((self.member(&r.membership, &r.access)?, r.membership)));
        match checked {
            Ok((job, membership)) => {
                let call = MemberCall {
                    from,
                    arrived: Instant::now(),
                    membership,
                    job,
                    client,
                    reply,
                    write: None,
                };
                self.arrive(call).await;
            }
            Err(failure) => reply.fail(&failure),
        }
    }

    /// One member's write.
    pub(in crate::io) async fn collective_write(&self, call: Served) {
        let request = call.request::<CollectiveWriteRequest>();
        let from = call.peer.client;
        let client = self.clients.round_memory(from);
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
                let write = MemberWrite {
                    payload,
                    bytes: request.bytes,
                    chunk: request.chunk,
                    sync: request.sync,
                    ordered: request.ordered,
                    member_order: request.member_order,
                };
                let call = MemberCall {
                    from,
                    arrived: Instant::now(),
                    membership: request.membership,
                    job,
                    client,
                    reply,
                    write: Some(write),
                };
                self.arrive(call).await;
            }
            Err(failure) => reply.fail(&failure),
        }
    }

    fn member(
        &self,
        membership: &Membership,
        access: &weft_proto::io::Access,
    ) -> Result<Job, Failure> {
        check(membership)?;
        self.job(access)
    }

    async fn writing_member(
        &self,
        request: &CollectiveWriteRequest,
        callers: &Callers,
    ) -> Result<Job, Failure> {
        let job = self
            .member(&request.membership, &request.access)?
            .writable()?;
        let bytes = walk::bytes_of(job.pieces()?, Endless, callers).await;
        let bytes = bytes.map_err(walk::abandoned)?;
        if bytes != request.bytes {
            let what = format!(
                "{} bytes announced, {bytes} bytes in the request's pieces",
                request.bytes
            );
            return Err(failure::invalid(what));
        }
        Ok(job)
    }

    async fn arrive(&self, call: MemberCall) {
        let (wait, go_on) = (call.membership.wait, call.membership.go_on);
        match self.collectives.table.arrive(call) {
            Arrival::Joined => {}
            Arrival::Refused(call, failure) => call.reply.fail(&failure),
            Arrival::Keep(key, complete) => {
                let table = &self.collectives.table;
                let began = Instant::now();
                let deadline = began + Duration::from_millis(wait.into());
                let (gathered, absence) = loop {
                    let now = Instant::now();
                    let absence = if now >= deadline {
                        Some(Absence::Late)
                    } else {
                        table.absence(&key, |client| self.clients.is_connected(client))
                    };
                    let which = absence.map_or(Take::Complete, |_| Take::Partial);
                    match table.take(&key, &complete, which) {
                        Ok(Some(gathered)) => break (gathered, absence),
                        Ok(None) => {}
                        Err(()) => return,
                    }
                    // Notified or not: the loop looks at the table again.
                    let pause = CALLER_POLL_INTERVAL.min(deadline - now);
                    let _ = timeout(pause, complete.notified()).await;
                };
                let absence = absence.unwrap_or(Absence::Late);
                self.run(&key, gathered, began.elapsed(), absence, go_on)
                    .await;
            }
            Arrival::Again(call, outcome) => self.follow(*call, outcome).await,
        }
    }

    /// Does the job of the members that came while the first waited.
    async fn run(
        &self,
        key: &GatheringKey,
        gathered: Gathered,
        waited: Duration,
        absence: Absence,
        go_on: bool,
    ) {
        let Gathered {
            calls,
            missing,
            outcome,
        } = gathered;
        let writes = calls.iter().any(|call| call.write.is_some());
        if !missing.is_empty() {
            tracing::info!(
                ?key,
                ?missing,
                go_on,
                "members of a collective did not arrive"
            );
        }
        let result = if !missing.is_empty() && !go_on {
            let failure = did_not_come(&calls, &missing, waited, absence);
            fail_all(calls, &failure);
            Outcome {
                failure: Some(failure),
                bytes: BTreeMap::new(),
                missing,
            }
        } else if writes {
            self.write_together(calls, missing, go_on).await
        } else {
            self.read_together(calls, missing).await
        };
        // There may be no follower.
        let _ = outcome.send(Some(Arc::new(result)));
    }

    /// Answers a repeated call whose job has started.
    async fn follow(&self, call: MemberCall, mut outcome: watch::Receiver<Option<Arc<Outcome>>>) {
        let ended = outcome.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|o| o.clone());
        let Some(ended) = ended else {
            let what = "the job of this collective ended without an outcome; see the server's log";
            return call.reply.fail(&Failure::new(Code::Internal, what));
        };
        let member = call.membership.member;
        if let Some(failure) = &ended.failure {
            return call.reply.fail(failure);
        }
        if call.write.is_none() {
            // A read can simply be repeated.
            self.read_together(vec![call], ended.missing.clone()).await;
            return;
        }
        if let Some(bytes) = ended.bytes.get(&member) {
            let reply = CollectiveWriteReply {
                bytes: *bytes,
                missing: ended.missing.clone(),
            };
            call.reply.done_at(&reply, &self.stamp());
        } else {
            let what = format!(
                "collective {} of group `{}` went on without {}, whose connection was lost; any part of what it was to write is written",
                call.membership.sequence,
                call.membership.group,
                names(&[member]),
            );
            call.reply.fail(&Failure::new(Code::MembersMissing, what));
        }
    }
}

/// Refuses a membership beyond the bounds of the wire.
pub(in crate::io) fn check(membership: &Membership) -> Result<(), Failure> {
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
            "group `{group}` waiting {} ms: a name has 1 to {} bytes, and a group waits at most {} ms",
            membership.wait,
            limits::GROUP_NAME_MAX,
            limits::WAIT_MAX
        );
        return Err(failure::invalid(what));
    }
    Ok(())
}

/// The failure of a job without all its members, for which the first one waited so long.
fn did_not_come(
    calls: &[MemberCall],
    missing: &[u32],
    waited: Duration,
    absence: Absence,
) -> Failure {
    let Some(first) = calls.first().map(|call| &call.membership) else {
        return Failure::new(Code::MembersMissing, "no member came");
    };
    let again = if calls.iter().any(|call| call.membership.again) {
        "; this server was lost meanwhile, so they may have been answered before"
    } else {
        ""
    };
    let why = match absence {
        Absence::Late => "",
        Absence::Passed => " and called a later one",
        Absence::Gone => ": processes of members are gone",
    };
    let what = format!(
        "{} of group `{}` did not arrive for collective {} within {} ms{why}{again}; nothing was done here",
        names(missing),
        first.group,
        first.sequence,
        waited.as_millis(),
    );
    Failure::new(Code::MembersMissing, what)
}

/// Answers all calls with a failure.
pub(super) fn fail_all(calls: Vec<MemberCall>, failure: &Failure) {
    let replies: Vec<Reply> = calls.into_iter().map(|call| call.reply).collect();
    fail_replies(replies, failure);
}

/// Answers all replies with a failure.
pub(super) fn fail_replies(replies: impl IntoIterator<Item = Reply>, failure: &Failure) {
    tracing::debug!(message = %failure.message, "a collective failed");
    for reply in replies {
        reply.fail(failure);
    }
}
