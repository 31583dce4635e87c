//! Locks: the table of `weft-meta` with the calls that wait for it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;
use weft_meta::{Family, Granted, Lock, LockTable, OnConflict, Outcome, Span};
use weft_net::{Reply, Served};
use weft_proto::coord::{
    HeldLock, LockFamily, LockKind, LockOutcome, LockReply, LockRequest, TestLockReply,
    TestLockRequest,
};
use weft_proto::{Code, Failure, Kind};

use super::MetaService;
use crate::failure;
use crate::metrics::Stage;

/// The locks of a volume.
#[derive(Default)]
pub(super) struct Locks(Mutex<State>);

#[derive(Default)]
struct State {
    table: LockTable,
    /// Who waits, by ticket.
    waiting: HashMap<u64, oneshot::Sender<()>>,
}

impl State {
    fn wake(&mut self, granted: Granted) {
        for ticket in granted {
            if let Some(waiter) = self.waiting.remove(&ticket) {
                // Whoever is gone gives it back itself.
                let _ = waiter.send(());
            }
        }
    }

    /// Takes back a lock that was granted to a caller who no longer wanted it: its owner holds
    /// again what it held there before, as far as nobody has taken it meanwhile.
    fn take_back(&mut self, file: u64, family: Family, lock: Lock, before: &[Lock]) {
        let mut at = lock.span.start;
        let mut gaps = Vec::new();
        for held in before {
            if at < held.span.start {
                let last = held.span.start - 1;
                gaps.push(Span { start: at, last });
            }
            let (_, granted) = self.table.lock(file, family, *held, OnConflict::Fail);
            self.wake(granted);
            match held.span.last.checked_add(1) {
                Some(next) => at = next,
                None => return self.let_go(file, family, lock, gaps),
            }
        }
        if at <= lock.span.last {
            let last = lock.span.last;
            gaps.push(Span { start: at, last });
        }
        self.let_go(file, family, lock, gaps);
    }

    fn let_go(&mut self, file: u64, family: Family, lock: Lock, gaps: Vec<Span>) {
        for span in gaps {
            let granted = self.table.unlock(file, family, lock.owner, span);
            self.wake(granted);
        }
    }

    /// What the owner of a lock holds where that one is wanted, ascending.
    fn before(&self, file: u64, family: Family, lock: &Lock) -> Vec<Lock> {
        if family == Family::Whole {
            return Vec::new();
        }
        let own = self.table.held(file, family).into_iter().filter(|held| {
            held.owner == lock.owner
                && held.span.start <= lock.span.last
                && lock.span.start <= held.span.last
        });
        let cut = own.map(|held| Lock {
            span: Span {
                start: held.span.start.max(lock.span.start),
                last: held.span.last.min(lock.span.last),
            },
            ..held
        });
        let mut cut: Vec<Lock> = cut.collect();
        cut.sort_by_key(|held| held.span.start);
        cut
    }
}

impl Locks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client is gone for good.
    pub(super) fn client_ended(&self, client: u64) {
        let mut state = self.state();
        let granted = state.table.release_client(client);
        state.wake(granted);
    }

    /// A client has no attachment of a file any more.
    pub(super) fn detached(&self, client: u64, file: u64) {
        let mut state = self.state();
        let granted = state.table.release_file(client, file);
        state.wake(granted);
    }

    /// A client tells what it holds; answers what others hold by now.
    pub(super) fn reassert(
        &self,
        client: u64,
        told: &[HeldLock],
        attached: impl Fn(u64) -> bool,
    ) -> Vec<HeldLock> {
        let mut lost = Vec::new();
        let mut locks = Vec::new();
        for held in told {
            match Lock::from_wire(client, held) {
                Some((family, lock)) if attached(held.file) => {
                    locks.push((held.file, family, lock));
                }
                _ => lost.push(*held),
            }
        }
        let mut state = self.state();
        let (refused, granted) = state.table.reassert(client, &locks);
        state.wake(granted);
        let refused = refused.iter();
        lost.extend(refused.map(|(file, family, lock)| lock.to_wire(*file, *family)));
        lost
    }
}

fn answer(outcome: LockOutcome, blocker: Option<HeldLock>) -> LockReply {
    LockReply {
        outcome: outcome as i32,
        blocker,
    }
}

impl MetaService {
    pub(super) async fn lock(&self, call: Served) {
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
                    // Nobody waits for an answer.
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
        let mut state = self.locks.state();
        let granted = if held.family() == LockFamily::Any {
            let number = held.owner;
            let owner = weft_meta::Owner { client, number };
            state.table.release_owner(held.file, owner)
        } else {
            let (family, lock) = Lock::from_wire(client, held).ok_or_else(no_range)?;
            state.table.unlock(held.file, family, lock.owner, lock.span)
        };
        state.wake(granted);
        Ok(answer(LockOutcome::Granted, None))
    }

    /// Nothing when the caller went away while it waited.
    async fn acquire(
        &self,
        client: u64,
        request: &LockRequest,
        reply: &Reply,
    ) -> Option<Result<LockReply, Failure>> {
        let file = request.lock.file;
        let Some((family, lock)) = Lock::from_wire(client, &request.lock) else {
            return Some(Err(no_range()));
        };
        if self.namespace.may_be_held(file) {
            if !request.wait {
                return Some(Err(too_early()));
            }
            if !self.nobody_may_hold(file, reply).await {
                return None;
            }
        }
        let (ticket, granted, before) = {
            let mut state = self.locks.state();
            if !self.namespace.is_attached(client, file) {
                let what = "it must be attached before it is locked";
                return Some(Err(Failure::new(Code::Invalid, what)));
            }
            let before = state.before(file, family, &lock);
            let on_conflict = if request.wait {
                OnConflict::Wait
            } else {
                OnConflict::Fail
            };
            let (outcome, others) = state.table.lock(file, family, lock, on_conflict);
            state.wake(others);
            let done = match outcome {
                Outcome::Waits(ticket) => {
                    let (sender, granted) = oneshot::channel();
                    state.waiting.insert(ticket, sender);
                    Err((ticket, granted, before))
                }
                Outcome::Granted => Ok(answer(LockOutcome::Granted, None)),
                Outcome::Held(blocker) => {
                    let blocker = blocker.to_wire(file, family);
                    Ok(answer(LockOutcome::Held, Some(blocker)))
                }
                Outcome::Deadlock => Ok(answer(LockOutcome::Deadlock, None)),
                Outcome::TooMany => Ok(answer(LockOutcome::TooMany, None)),
            };
            match done {
                Ok(reply) => return Some(Ok(reply)),
                Err(waiting) => waiting,
            }
        };
        let granted = tokio::select! {
            biased;
            () = reply.gone() => false,
            granted = granted => granted.is_ok(),
        };
        if granted && !reply.cancelled() {
            return Some(Ok(answer(LockOutcome::Granted, None)));
        }
        let mut state = self.locks.state();
        state.waiting.remove(&ticket);
        if !state.table.cancel(ticket) {
            state.take_back(file, family, lock, &before);
        }
        None
    }

    pub(super) fn test_lock(&self, call: Served) {
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
        let blocker = self.locks.state().table.blocker(file, family, &lock);
        let blocker = blocker.map(|lock| lock.to_wire(file, family));
        call.reply.done(&TestLockReply { blocker });
    }
}

fn no_range() -> Failure {
    failure::invalid("a lock needs a family, and a first byte that is not after its last")
}

fn too_early() -> Failure {
    let what = "the metadata service has just started, and holders of locks from before may not have told yet; \
                try again";
    Failure::new(Code::Busy, what)
}
