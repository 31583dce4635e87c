//! Watch, delegated directories, and operations that wait for the holders of names.

use std::collections::BTreeSet;

use tokio::time::{Instant, timeout_at};
use weft_meta::{Invalidations, MetaError};
use weft_net::Served;
use weft_proto::Failure;
use weft_proto::coord::{WatchReply, WatchRequest};
use weft_proto::delegation::{ChangeNamesRequest, NameChange};
use weft_proto::quota::SetQuotaRequest;

use crate::failure;
use crate::limits::{ABSENT_POLL_INTERVAL, DELEGATION_TRIES, RECALL_TIMEOUT, WATCH_TIMEOUT};
use crate::meta::MetaService;
use crate::meta::answer::Durability;

fn is_removal(change: &NameChange) -> bool {
    change.made.is_none() && change.set.is_none()
}

impl MetaService {
    pub(in crate::meta) async fn watch(&self, call: Served) {
        let request = match call.request::<WatchRequest>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        let watchers = &self.watchers;
        let leases = self.namespace.leases();
        // A client that asks for later changes has handled the earlier ones. One that names another
        // boot starts over without leases.
        let answered = if request.boot == watchers.boot() {
            leases.acknowledge(call.peer.client, request.cursor)
        } else {
            self.namespace.delegations().client_ended(call.peer.client);
            leases.client_ended(call.peer.client);
            true
        };
        if answered {
            watchers.holder_answered();
        }
        if request.gathers {
            leases.gathers(call.peer.client);
        }
        let _waiting = watchers.enter();
        let mut reply = WatchReply {
            boot: watchers.boot(),
            cursor: self.namespace.changes().published(),
            everything: true,
            ..WatchReply::default()
        };
        if request.boot == watchers.boot() {
            tokio::select! {
                biased;
                () = call.reply.gone() => return,
                changes = self.changes_after(call.peer.client, request.cursor) => reply = changes,
            }
        }
        call.reply.done(&reply);
    }

    /// Applies the changes that a client made in its delegated directories, then takes back those
    /// that it returns.
    pub(in crate::meta) async fn change_names(&self, call: Served) {
        let client = call.peer.client;
        let namespace = self.namespace.by(client);
        let change = |request: &ChangeNamesRequest| {
            let reply = namespace.change_names(client, request)?;
            if !request.given_back.is_empty() {
                namespace.delegations().end(client, &request.given_back);
                self.watchers.holder_answered();
            }
            if request.changes.iter().any(is_removal) {
                // A directory that is waited for may be gone.
                self.watchers.holder_answered();
                self.new_intents.notify_one();
                if self.namespace.limits_growth() {
                    self.freed.notify_one();
                }
            }
            Ok(reply)
        };
        self.answer(call, change).await;
    }

    /// Sets a quota, then takes all directories back from their holders: from the answer on, a
    /// change that the quota refuses fails before a program sees it succeed.
    pub(in crate::meta) async fn set_quota(&self, call: Served) {
        let started = Instant::now();
        let request = match call.request::<SetQuotaRequest>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        let namespace = self.namespace.by(call.peer.client);
        let set = namespace.set_quota(&request);
        let result = set.map(|reply| (reply, Durability::Soon));
        let result = result.map_err(|error| failure::of_meta(&error));
        if result.is_ok() {
            self.recall(&self.namespace.delegations().all()).await;
        }
        self.finish::<SetQuotaRequest>(call, started, result).await;
    }

    /// A client is gone: ends its leases and delegations.
    pub(in crate::meta) fn end_leases(&self, client: u64) {
        self.namespace.leases().client_ended(client);
        self.namespace.delegations().client_ended(client);
        self.watchers.holder_answered();
    }

    /// Handles the error of an operation. `Ok`: the operation met directories that were delegated
    /// to another client, they have been returned, and the operation is to be repeated.
    pub(in crate::meta) async fn wait_for_names(
        &self,
        error: MetaError,
        tries: &mut usize,
    ) -> Result<(), Failure> {
        let MetaError::Delegated { directories } = &error else {
            return Err(failure::of_meta(&error));
        };
        *tries += 1;
        if *tries > DELEGATION_TRIES {
            return Err(failure::of_meta(&error));
        }
        self.recall(directories).await;
        Ok(())
    }

    /// Returns when these directories are not delegated any more.
    async fn recall(&self, directories: &[u64]) {
        let delegations = self.namespace.delegations();
        delegations.recall(directories);
        self.watchers.wake();
        let holders = || {
            let outstanding = delegations.are_outstanding(directories);
            outstanding.then(|| delegations.holders_of(directories))
        };
        self.wait_or_revoke(holders, |client| {
            tracing::debug!(
                client,
                "a client does not return delegated directories: they are revoked"
            );
            delegations.revoke(client);
            // One that is alive must not go on.
            self.watchers.wake();
        })
        .await;
    }

    /// Returns when the holders of leases have acknowledged the changes of this client.
    pub(in crate::meta) async fn wait_for_leases(&self, client: u64) {
        let leases = self.namespace.leases();
        let holders = || {
            let recalled = leases.are_recalled_by(client);
            recalled.then(|| leases.recalled_by(client))
        };
        self.wait_or_revoke(holders, |holder| {
            tracing::debug!(
                holder,
                "the holder of a lease does not answer: the lease is revoked"
            );
            leases.client_ended(holder);
        })
        .await;
    }

    /// Waits until `holders` finds none, and revokes what those hold that do not answer in time.
    /// One that has left is waited for as long, from when it left; not at all if its process has
    /// ended.
    async fn wait_or_revoke(
        &self,
        holders: impl Fn() -> Option<BTreeSet<u64>>,
        revoke: impl Fn(u64),
    ) {
        let deadline = Instant::now() + RECALL_TIMEOUT;
        loop {
            let mut answer = std::pin::pin!(self.watchers.answer());
            answer.as_mut().enable();
            let Some(waited_for) = holders() else {
                return;
            };
            let due = |client: &u64| {
                let given_up = self.sessions.given_up(*client, RECALL_TIMEOUT);
                given_up.map_or(deadline, |at| at.min(deadline))
            };
            let now = Instant::now();
            let (silent, others): (Vec<u64>, Vec<u64>) =
                waited_for.iter().partition(|client| due(client) <= now);
            if !silent.is_empty() {
                silent.into_iter().for_each(&revoke);
                continue;
            }
            let next = others.iter().map(due).min().unwrap_or(deadline);
            // A client that leaves is noticed soon, also one whose last call is in flight still.
            let _ = timeout_at(next.min(now + ABSENT_POLL_INTERVAL), answer).await;
        }
    }

    /// The changes of others after the cursor: as soon as there are any, or none at the timeout.
    async fn changes_after(&self, client: u64, mut cursor: u64) -> WatchReply {
        let deadline = Instant::now() + WATCH_TIMEOUT;
        let boot = self.watchers.boot();
        loop {
            let mut changed = std::pin::pin!(self.watchers.woken());
            // From here on no change is missed.
            changed.as_mut().enable();
            let delegations = self.namespace.delegations();
            if delegations.take_revoked(client) {
                return WatchReply {
                    boot,
                    cursor: self.namespace.changes().published(),
                    everything: true,
                    ..WatchReply::default()
                };
            }
            let recalled = delegations.recalled_from(client);
            match self.namespace.changes().since(client, cursor) {
                Invalidations::All { cursor } => {
                    return WatchReply {
                        boot,
                        cursor,
                        everything: true,
                        ..WatchReply::default()
                    };
                }
                Invalidations::Listed {
                    cursor: next,
                    files,
                    entries,
                    opened,
                    end,
                } => {
                    cursor = next;
                    let changed = !files.is_empty() || !entries.is_empty();
                    let quiet = !changed && opened.is_empty() && recalled.is_empty();
                    if !quiet || Instant::now() >= deadline {
                        return WatchReply {
                            boot,
                            cursor,
                            everything: false,
                            files,
                            entries,
                            recalled,
                            opened,
                        };
                    }
                    if !end {
                        tokio::task::yield_now().await;
                        continue;
                    }
                }
            }
            if timeout_at(deadline, changed).await.is_ok()
                && delegations.recalled_from(client).is_empty()
            {
                tokio::time::sleep(self.watchers.delay()).await;
            }
        }
    }
}
