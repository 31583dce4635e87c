//! Runs the tasks of the intent scheduler, and lets callers wait for theirs.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::Instant;
use weft_layout::ServerId;
use weft_meta::{CheckpointTask, Intent, MetaError};
use weft_proto::fsck::{Fault, Finding};
use weft_proto::{Code, Failure};

use super::pending::WaitingCaller;
use super::scheduler::{Contact, IntentStatus, Task};
use crate::failure;
use crate::limits::{
    CHECK_INTENTS_POLL_INTERVAL, CHECK_INTENTS_TIMEOUT, DELETE_BATCH_FILES, INTENT_PAGE_RECORDS,
};
use crate::meta::MetaService;
use crate::meta::servers::{Refusal, not_rolled_back};
use crate::tasks::stopped;

impl MetaService {
    /// Runs the tasks of the scheduler until the node stops.
    pub(in crate::meta) async fn run_intents(&self, stopping: watch::Receiver<bool>) {
        let stop = stopped(stopping);
        tokio::pin!(stop);
        let mut running = FuturesUnordered::new();
        loop {
            let tasks = self.intents.scheduler().take_tasks();
            running.extend(tasks.into_iter().map(|task| self.run_task(task)));
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(()) = running.next(), if !running.is_empty() => {
                    if self.intents.scheduler().has_unread() {
                        self.read_intents_logged();
                    }
                }
                () = self.intents.changed() => {}
            }
        }
        self.intents.stop();
    }

    /// Reads new intents into the scheduler.
    pub(in crate::meta) fn read_intents(&self) -> Result<(), MetaError> {
        loop {
            let Some(from) = self.intents.scheduler().read_from() else {
                return Ok(());
            };
            let page = self.namespace.intents_from(from, INTENT_PAGE_RECORDS)?;
            let more = page.more;
            for number in self.intents.update(|scheduler| scheduler.add(page)) {
                self.namespace.intent_done(number)?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    pub(in crate::meta) fn read_intents_logged(&self) {
        if let Err(error) = self.read_intents() {
            tracing::error!(%error, "cannot read the pending intents");
        }
    }

    async fn run_task(&self, task: Task) {
        let _running = self.intents.enter().await;
        match task {
            Task::Intent(number) => {
                let result = self.try_intent(number).await;
                self.notify_watchers();
                // Its follow-ups, the deletes of a checkpoint's files, are pending by now.
                self.read_intents_logged();
                self.intents.update(|scheduler| match result {
                    Ok(contact) => scheduler.done(number, contact),
                    Err(refusal) => {
                        tracing::debug!(number, reason = %refusal.reason, "an intent is still pending");
                        scheduler.failed(number, &refusal);
                    }
                });
            }
            Task::Deletes(server) => self.run_deletes(server).await,
        }
    }

    /// Runs one intent, or withdraws it.
    async fn try_intent(&self, number: u64) -> Result<Contact, Refusal> {
        if self.intents.scheduler().is_new(number) {
            // Power loss must not bring back what the intent undoes: the intent is synced first.
            self.group.sync().await.map_err(Refusal::here)?;
        }
        let Some(intent) = self.namespace.intent(number)? else {
            return Ok(Contact::NotAsked);
        };
        let now = self.env.clock.now();
        let done = self.servers.run(&self.namespace, now, &intent).await;
        let Err(refusal) = done else {
            return Ok(Contact::Answered);
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
            tracing::warn!(number, reason = %refusal.reason, "a rollback is withdrawn");
            // Its caller may not wait yet.
            let failure = not_rolled_back(&refusal, &intent);
            self.intents.note_withdrawn(number, failure);
            return Ok(Contact::NotAsked);
        }
        let file = self.namespace.pending_truncate(intent.file().0);
        if refusal.code == Code::Stale && matches!(file, Err(MetaError::Stale { .. })) {
            // The file is deleted on the server and in the namespace.
            self.namespace.withdraw(number)?;
            return Ok(Contact::NotAsked);
        }
        Err(refusal)
    }

    async fn run_deletes(&self, server: ServerId) {
        let from = self.intents.scheduler().mark(server);
        let page =
            self.namespace
                .deletes_from(server, from, DELETE_BATCH_FILES, INTENT_PAGE_RECORDS);
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                let refusal = Refusal::from(error);
                return self
                    .intents
                    .update(|s| s.not_deleted(server, (0, 0), refusal));
            }
        };
        let files: Vec<u64> = page.intents.iter().map(|intent| intent.file().0).collect();
        let first = page.intents.first().map(|i| (i.number(), i.file().0));
        let mut contact = Contact::NotAsked;
        if let Some(first) = first {
            let deleted = match self.group.sync().await {
                Ok(()) => self.servers.delete(server, files).await,
                Err(reason) => Err(Refusal::here(reason)),
            };
            if let Err(refusal) = deleted {
                tracing::debug!(reason = %refusal.reason, "deletes are still pending");
                return self
                    .intents
                    .update(|s| s.not_deleted(server, first, refusal));
            }
            contact = Contact::Answered;
        }
        self.intents
            .update(|scheduler| scheduler.deleted(server, page.next, contact));
        for intent in &page.intents {
            let (number, servers) = (intent.number(), intent.servers());
            if !self.intents.scheduler().is_deleted(number, &servers) {
                continue;
            }
            if let Err(error) = self.namespace.intent_done(number) {
                tracing::error!(%error, "cannot note that a file is deleted");
                return self
                    .intents
                    .update(|scheduler| scheduler.delete_again(server, number));
            }
        }
    }

    /// Returns when an intent is done, or the reason after `tries` failed tries; `what` says how it
    /// will end then.
    pub(in crate::meta) async fn run_intent(
        &self,
        number: u64,
        tries: u64,
        what: &str,
    ) -> Result<(), Failure> {
        let caller = WaitingCaller::new(&self.intents, number);
        self.learn_servers();
        self.read_intents().map_err(|e| failure::of_meta(&e))?;
        let (mut before, mut failed) = (None, 0);
        let still = |reason: String| Failure::new(Code::Unavailable, format!("{reason}; {what}"));
        loop {
            if self.intents.is_stopped() {
                return Err(still("the service is stopping".to_owned()));
            }
            let status = self.intents.scheduler().status(number);
            let (at, count, refusal) = match status {
                IntentStatus::Done => {
                    return self.intents.take_withdrawn(number).map_or(Ok(()), Err);
                }
                IntentStatus::NotRead => {
                    return Err(still("too many intents are pending before it".to_owned()));
                }
                IntentStatus::Tried { tries, refusal } => (number, tries, refusal),
                IntentStatus::Behind {
                    first,
                    tries,
                    refusal,
                } => (first, tries, refusal),
            };
            // Tries from before this caller do not count.
            let (known, since) = *before.get_or_insert((at, count));
            if known != at {
                before = Some((at, count));
            } else if count > since
                && let Some(refusal) = refusal
            {
                before = Some((at, count));
                failed += 1;
                if failed >= tries || at != number {
                    let which = if at == number {
                        Which::Own
                    } else {
                        Which::Earlier(at)
                    };
                    return Err(refused(which, &refusal, still));
                }
            }
            self.intents.start_now(at);
            caller.notified().await;
        }
    }

    /// The intents that servers refuse until an administrator acts, after all were retried.
    pub(in crate::meta) async fn refused_intents(&self) -> Vec<Finding> {
        self.learn_servers();
        self.read_intents_logged();
        self.intents.tick();
        let deadline = Instant::now() + CHECK_INTENTS_TIMEOUT;
        while !self.intents.scheduler().is_idle() && Instant::now() < deadline {
            tokio::time::sleep(CHECK_INTENTS_POLL_INTERVAL).await;
        }
        let refused = self.intents.scheduler().refused();
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

/// The intent that failed.
#[derive(Clone, Copy)]
enum Which {
    /// The caller's.
    Own,
    /// An earlier one about the same file.
    Earlier(u64),
}

/// The failure of a caller whose intent is not done; `still` adds how it will end.
fn refused(which: Which, refusal: &Refusal, still: impl Fn(String) -> Failure) -> Failure {
    let reason = &refusal.reason;
    let what = match which {
        Which::Own => reason.clone(),
        Which::Earlier(number) => {
            format!("an earlier change of the file (intent {number}) comes first: {reason}")
        }
    };
    if !refusal.is_permanent() {
        return still(what);
    }
    let what = match which {
        Which::Own => format!(
            "{what}; it stays pending until the server does it, or weft fsck --repair withdraws it"
        ),
        Which::Earlier(_) => format!("{what}; weft fsck --repair withdraws it"),
    };
    Failure::new(refusal.code, what)
}
