//! Carries through what is owed to I/O servers, in the order that the board gives, and lets callers
//! wait for their own.
//!
//! One server's silence delays nobody else: each intent, and each server's deletes, are a task of
//! their own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use weft_layout::ServerId;
use weft_meta::{CheckpointTask, Intent, MetaError};
use weft_proto::fsck::{Fault, Finding};
use weft_proto::{Code, Failure};

use super::MetaService;
use super::board::{Board, Standing, Work};
use super::carry::Refusal;
use super::checkpoint::not_rolled_back;
use crate::failure;
use crate::node::stopped;

/// Deletes that a server is told of together.
const DELETES: usize = 1024;
/// Records looked at for them, and for one page of what is owed.
const RECORDS: usize = 16 << 10;
/// Intents that were given up and whose callers may still come to hear of it.
const GIVEN_UP: usize = 1024;
/// How long a check waits for what is owed to be tried.
const LOOK: Duration = Duration::from_secs(5);

/// What is owed, as far as it was read.
#[derive(Default)]
pub(super) struct Owed {
    board: parking_lot::Mutex<Board>,
    /// The board has work.
    work: Notify,
    /// Who changes what is owed by hand keeps everybody else from carrying it.
    pub(super) carrying: tokio::sync::RwLock<()>,
    stopped: AtomicBool,
    /// Intents that were given up, for the callers who wait for them.
    given_up: parking_lot::Mutex<BTreeMap<u64, Failure>>,
}

impl Owed {
    fn with<T>(&self, work: impl FnOnce(&mut Board) -> T) -> T {
        let done = work(&mut self.board.lock());
        self.work.notify_one();
        done
    }

    pub(super) fn tick(&self) {
        self.with(Board::tick);
    }

    /// An intent was taken back by a repair: whoever still waits for it is not to think that it was
    /// carried out.
    pub(super) fn taken_back(&self, number: u64) {
        let what = "it was taken back by a repair, and is not done";
        self.give_up(number, Failure::new(Code::Unavailable, what));
    }

    fn give_up(&self, number: u64, failure: Failure) {
        let mut given_up = self.given_up.lock();
        given_up.insert(number, failure);
        if given_up.len() > GIVEN_UP {
            given_up.pop_first();
        }
    }

    pub(super) fn is_refused(&self, number: u64) -> bool {
        self.board.lock().is_refused(number)
    }

    pub(super) fn wake(&self, number: u64) {
        self.with(|board| board.wake(number, true));
    }
}

/// A caller who waits for an intent; told of nothing any more when it is dropped.
struct Caller<'a> {
    owed: &'a Owed,
    number: u64,
    told: Arc<Notify>,
}

impl<'a> Caller<'a> {
    fn new(owed: &'a Owed, number: u64) -> Caller<'a> {
        let told = owed.board.lock().wait(number);
        Caller { owed, number, told }
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.owed.board.lock().forget(self.number, &self.told);
        self.owed.given_up.lock().remove(&self.number);
    }
}

impl MetaService {
    /// Does what the board says, until the node stops.
    pub(super) async fn carry_owed(&self, stopping: watch::Receiver<bool>) {
        let stop = stopped(stopping);
        tokio::pin!(stop);
        let mut under_way = FuturesUnordered::new();
        loop {
            let work = self.owed.board.lock().take_work();
            under_way.extend(work.into_iter().map(|work| self.carry(work)));
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(()) = under_way.next(), if !under_way.is_empty() => {
                    if self.owed.board.lock().is_behind() {
                        self.read_owed_logged();
                    }
                }
                () = self.owed.work.notified() => {}
            }
        }
        self.owed.stopped.store(true, Ordering::Release);
        self.owed.board.lock().tell_all();
    }

    /// Takes note of what has come to be owed.
    pub(super) fn read_owed(&self) -> Result<(), MetaError> {
        loop {
            let Some(from) = self.owed.board.lock().wants() else {
                return Ok(());
            };
            let page = self.namespace.intents_from(from, RECORDS)?;
            let more = page.more;
            for number in self.owed.with(|board| board.add(page)) {
                self.namespace.intent_done(number)?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    pub(super) fn read_owed_logged(&self) {
        if let Err(error) = self.read_owed() {
            tracing::error!(%error, "what is owed to I/O servers cannot be read");
        }
    }

    async fn carry(&self, work: Work) {
        let _turn = self.owed.carrying.read().await;
        match work {
            Work::Intent(number) => {
                let carried = self.carry_intent(number).await;
                self.tell_watchers();
                // What it leads to, the deletes of a checkpoint's files, is owed by now.
                self.read_owed_logged();
                self.owed.with(|board| match carried {
                    Ok(asked) => board.done(number, asked),
                    Err(refusal) => {
                        tracing::debug!(number, reason = %refusal.reason, "it is still owed");
                        board.failed(number, &refusal);
                    }
                });
            }
            Work::Deletes(server) => self.carry_deletes(server).await,
        }
    }

    /// Carries one intent through, or gives it up; whether its servers were asked.
    async fn carry_intent(&self, number: u64) -> Result<bool, Refusal> {
        if self.owed.board.lock().is_new(number) {
            // What an intent undoes must not come back after power loss: the intent first.
            self.group.sync().await.map_err(Refusal::here)?;
        }
        let Some(intent) = self.namespace.intent(number)? else {
            return Ok(false);
        };
        let now = self.env.clock.now();
        let carried = self.carrier.carry(&self.namespace, now, &intent).await;
        let Err(refusal) = carried else {
            return Ok(true);
        };
        let rolls_back = matches!(
            &intent,
            Intent::Checkpoint {
                task: CheckpointTask::RollBack(_),
                ..
            } | Intent::Tree {
                task: CheckpointTask::RollBack(_),
                ..
            }
        );
        if rolls_back && refusal.code == Code::NotFound {
            self.namespace.withdraw(number)?;
            tracing::warn!(number, reason = %refusal.reason, "a rollback is given up");
            // Its caller may be about to begin to wait.
            let failure = not_rolled_back(&refusal, &intent);
            self.owed.give_up(number, failure);
            return Ok(false);
        }
        let file = self.namespace.owed_truncate(intent.file().0);
        if refusal.code == Code::Stale && matches!(file, Err(MetaError::Stale { .. })) {
            // The server deleted what is deleted here.
            self.namespace.withdraw(number)?;
            return Ok(false);
        }
        Err(refusal)
    }

    async fn carry_deletes(&self, server: ServerId) {
        let from = self.owed.board.lock().mark(server);
        let page = self.namespace.deletes_from(server, from, DELETES, RECORDS);
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                let refusal = Refusal::from(error);
                return self.owed.with(|b| b.not_deleted(server, (0, 0), refusal));
            }
        };
        let files: Vec<u64> = page.intents.iter().map(|intent| intent.file().0).collect();
        let first = page.intents.first().map(|i| (i.number(), i.file().0));
        if let Some(first) = first {
            let told = match self.group.sync().await {
                Ok(()) => self.carrier.delete(server, files).await,
                Err(reason) => Err(Refusal::here(reason)),
            };
            if let Err(refusal) = told {
                tracing::debug!(reason = %refusal.reason, "deletes are still owed");
                return self.owed.with(|b| b.not_deleted(server, first, refusal));
            }
        }
        self.owed
            .with(|board| board.deleted(server, page.next, first.is_some()));
        for intent in &page.intents {
            let (number, servers) = (intent.number(), intent.servers());
            if !self.owed.board.lock().is_deleted(number, &servers) {
                continue;
            }
            if let Err(error) = self.namespace.intent_done(number) {
                tracing::error!(%error, "cannot note that a file is deleted");
                return self.owed.with(|board| board.delete_again(server, number));
            }
        }
    }

    /// Returns when an intent is done, or why it is not after so many tries; `what` says how it
    /// ends then.
    pub(super) async fn carry_one(
        &self,
        number: u64,
        tries: u64,
        what: &str,
    ) -> Result<(), Failure> {
        let caller = Caller::new(&self.owed, number);
        self.learn_servers();
        self.read_owed().map_err(|e| failure::of_meta(&e))?;
        let (mut before, mut failed) = (None, 0);
        let still = |reason: String| Failure::new(Code::Unavailable, format!("{reason}; {what}"));
        loop {
            if self.owed.stopped.load(Ordering::Acquire) {
                return Err(still("the service stops".to_owned()));
            }
            let standing = self.owed.board.lock().standing(number);
            let (at, count, refusal) = match standing {
                Standing::Done => {
                    let given_up = self.owed.given_up.lock().remove(&number);
                    return given_up.map_or(Ok(()), Err);
                }
                Standing::NotRead => {
                    return Err(still("too much is owed to servers before it".to_owned()));
                }
                Standing::Tried(count, refusal) => (number, count, refusal),
                Standing::Behind(first, count, refusal) => (first, count, refusal),
            };
            // What came before this caller does not count as a try of his.
            let (known, since) = *before.get_or_insert((at, count));
            if known != at {
                before = Some((at, count));
            } else if count > since
                && let Some(refusal) = refusal
            {
                before = Some((at, count));
                failed += 1;
                if failed >= tries || at != number {
                    return Err(told(at == number, at, &refusal, still));
                }
            }
            self.owed.wake(at);
            caller.told.notified().await;
        }
    }

    /// What servers refuse for good, after all that is owed was tried once more.
    pub(super) async fn refused(&self) -> Vec<Finding> {
        self.learn_servers();
        self.read_owed_logged();
        self.owed.tick();
        let until = Instant::now() + LOOK;
        while !self.owed.board.lock().is_idle() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let refused = self.owed.board.lock().refused();
        let finding = |(number, file, refusal): (u64, u64, Refusal)| Finding {
            fault: Fault::Refused as i32,
            file,
            expected: number,
            server: refusal.server.map(|server| server.0),
            text: refusal.reason,
            ..Finding::default()
        };
        refused.into_iter().map(finding).collect()
    }
}

/// What the caller is told who waited for an intent.
fn told(own: bool, number: u64, refusal: &Refusal, still: impl Fn(String) -> Failure) -> Failure {
    let reason = &refusal.reason;
    match (own, refusal.lasting) {
        (true, false) => still(reason.clone()),
        (true, true) => Failure::new(
            refusal.code,
            format!(
                "{reason}; it stays owed until the server does it, or weft fsck --repair takes it back"
            ),
        ),
        (false, false) => still(format!(
            "what was asked of the file before (intent {number}) comes first: {reason}"
        )),
        (false, true) => Failure::new(
            refusal.code,
            format!(
                "what was asked of the file before (intent {number}) comes first: {reason}; weft fsck --repair takes it back"
            ),
        ),
    }
}
