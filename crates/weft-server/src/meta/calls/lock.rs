//! Lock, unlock, and test for a lock.

use tokio::time::Instant;
use weft_meta::{Lock, LockOwner, OnConflict};
use weft_net::{Reply, Served};
use weft_proto::coord::{
    HeldLock, LockFamily, LockKind, LockOutcome, LockReply, LockRequest, TestLockReply,
    TestLockRequest,
};
use weft_proto::{Code, Failure, Kind};

use crate::failure;
use crate::meta::MetaService;
use crate::meta::clients::LockAnswer;
use crate::metrics::Stage;

impl MetaService {
    pub(in crate::meta) async fn lock(&self, call: Served) {
        let started = Instant::now();
        let request = match call.request::<LockRequest>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        let client = call.peer.client;
        let result = match request.lock.kind() {
            LockKind::Unlock => self.unlock(client, &request.lock),
            LockKind::Shared | LockKind::Exclusive => {
                match self.acquire(client, &request, &call.reply).await {
                    Some(result) => result,
                    // The caller is gone.
                    None => return,
                }
            }
        };
        match result {
            Ok(reply) => call.reply.done(&reply),
            Err(failure) => call.reply.fail(&failure),
        }
        self.metrics
            .stage(Kind::Lock, Stage::Total, started.elapsed());
    }

    fn unlock(&self, client: u64, held: &HeldLock) -> Result<LockReply, Failure> {
        if held.family() == LockFamily::Any {
            let number = held.owner;
            self.locks
                .release_owner(held.file, LockOwner { client, number });
        } else {
            let (family, lock) = Lock::from_wire(client, held).ok_or_else(no_range)?;
            self.locks.unlock(held.file, family, &lock);
        }
        Ok(reply(LockOutcome::Granted, None))
    }

    /// `None` when the caller went away while it waited.
    async fn acquire(
        &self,
        client: u64,
        request: &LockRequest,
        caller: &Reply,
    ) -> Option<Result<LockReply, Failure>> {
        let file = request.lock.file;
        let Some((family, lock)) = Lock::from_wire(client, &request.lock) else {
            return Some(Err(no_range()));
        };
        if self.namespace.may_be_held(file) {
            if !request.wait {
                return Some(Err(too_early()));
            }
            if !self.wait_for_holders(file, caller).await {
                return None;
            }
        }
        let on_conflict = if request.wait {
            OnConflict::Wait
        } else {
            OnConflict::Fail
        };
        let attached = || self.namespace.is_attached(client, file);
        let mut ticket = match self.locks.lock(file, family, lock, on_conflict, attached) {
            LockAnswer::NotAttached => {
                let what = "the file must be attached before it is locked";
                return Some(Err(Failure::new(Code::Invalid, what)));
            }
            LockAnswer::Ended(outcome, blocker) => return Some(Ok(reply(outcome, blocker))),
            LockAnswer::Waits(ticket) => ticket,
        };
        let granted = tokio::select! {
            biased;
            () = caller.gone() => false,
            granted = ticket.granted() => granted,
        };
        if granted && !caller.cancelled() {
            return Some(Ok(reply(LockOutcome::Granted, None)));
        }
        self.locks.abandon(ticket);
        None
    }

    pub(in crate::meta) fn test_lock(&self, call: Served) {
        let request = match call.request::<TestLockRequest>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        let file = request.lock.file;
        let Some((family, lock)) = Lock::from_wire(call.peer.client, &request.lock) else {
            return call.reply.fail(&no_range());
        };
        if self.namespace.may_be_held(file) {
            return call.reply.fail(&too_early());
        }
        let blocker = self.locks.blocker(file, family, &lock);
        let blocker = blocker.map(|lock| lock.to_wire(file, family));
        call.reply.done(&TestLockReply { blocker });
    }
}

fn reply(outcome: LockOutcome, blocker: Option<HeldLock>) -> LockReply {
    LockReply {
        outcome: outcome as i32,
        blocker,
    }
}

fn no_range() -> Failure {
    failure::invalid("a lock needs a family, and a first byte that is not after its last")
}

fn too_early() -> Failure {
    let what = "the metadata service has just started, and clients may not have reasserted their locks yet; try again";
    Failure::new(Code::Busy, what)
}
