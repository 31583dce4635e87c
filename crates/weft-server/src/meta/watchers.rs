//! Watch: a call that waits for what others change.
//!
//! A wake of all watchers costs as much as there are watchers, so a woken one lingers before it
//! looks, the longer the more of them there are: all together look at most some ten thousand times
//! a second, whatever happens.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use weft_meta::{MetaError, News};
use weft_net::Served;
use weft_proto::Failure;
use weft_proto::coord::{WatchReply, WatchRequest};
use weft_proto::delegation::ChangeNamesRequest;

use super::MetaService;
use crate::failure;

/// A watcher is answered after this time also if nothing happened: well within what peers wait for
/// each other.
const WAIT: Duration = Duration::from_secs(2);
/// How long somebody who needs a leased or delegated directory waits for its holder: longer than a
/// client that hears nothing of its watch goes on believing.
const RECALL: Duration = Duration::from_secs(5);
/// From a change until watchers look, at least, so that one answer tells several changes.
const LINGER: Duration = Duration::from_millis(2);
/// What each waiting watcher adds to that.
const LINGER_EACH: Duration = Duration::from_micros(100);
/// And at most.
const LINGER_MAX: Duration = Duration::from_millis(100);

/// How often an operation may meet delegated directories before it is refused.
const TRIES: usize = 16;

pub(super) struct Watchers {
    /// This life of the service; never 0.
    boot: u64,
    changed: Notify,
    /// Changes that watchers were woken for.
    told: AtomicU64,
    waiting: AtomicUsize,
    /// A holder of leases has heard of a change.
    heard: Notify,
}

/// Counts a watcher while it waits.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Watchers {
    pub(super) fn new(random: u64) -> Watchers {
        Watchers {
            boot: random | 1,
            changed: Notify::new(),
            told: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            heard: Notify::new(),
        }
    }

    /// Wakes watchers if there are more changes than at the last call.
    pub(super) fn tell(&self, published: u64) {
        if self.told.fetch_max(published, Ordering::AcqRel) < published {
            self.changed.notify_waiters();
        }
    }

    fn linger(&self) -> Duration {
        let waiting = u32::try_from(self.waiting.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        LINGER
            .saturating_add(LINGER_EACH.saturating_mul(waiting))
            .min(LINGER_MAX)
    }
}

impl MetaService {
    pub(super) async fn watch(&self, call: Served) {
        let request = match call.request::<WatchRequest>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        let watchers = &self.watchers;
        let leases = self.namespace.leases();
        // Who asks for what comes after a change has dealt with it; who begins anew has forgotten
        // everything.
        let heard = if request.boot == watchers.boot {
            leases.heard(call.peer.client, request.cursor)
        } else {
            self.namespace.delegations().client_ended(call.peer.client);
            leases.client_ended(call.peer.client);
            true
        };
        if heard {
            watchers.heard.notify_waiters();
        }
        watchers.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&watchers.waiting);
        let mut reply = WatchReply {
            boot: watchers.boot,
            cursor: self.namespace.changes().published(),
            everything: true,
            ..WatchReply::default()
        };
        if request.boot == watchers.boot {
            tokio::select! {
                biased;
                () = call.reply.gone() => return,
                news = self.news(call.peer.client, request.cursor) => reply = news,
            }
        }
        call.reply.done(&reply);
    }

    /// Does what a client has done ahead, and takes back the directories that it gives back after
    /// that.
    pub(super) async fn change_names(&self, call: Served) {
        let client = call.peer.client;
        let namespace = self.namespace.by(client);
        let change = |request: &ChangeNamesRequest| {
            let reply = namespace.change_names(client, request)?;
            namespace.delegations().end(client, &request.given_back);
            self.watchers.heard.notify_waiters();
            Ok(reply)
        };
        self.answer(call, change).await;
    }

    /// A client is gone: nobody waits for it.
    pub(super) fn lease_holder_ended(&self, client: u64) {
        self.namespace.leases().client_ended(client);
        self.namespace.delegations().client_ended(client);
        self.watchers.heard.notify_waiters();
    }

    /// What follows from an operation's error: where it met directories in which another client
    /// changes names ahead of the service, they are given back, and it is to be run again; else the
    /// failure to answer with.
    pub(super) async fn wait_for_names(
        &self,
        error: MetaError,
        tries: &mut usize,
    ) -> Result<(), Failure> {
        let MetaError::Delegated { directories } = &error else {
            return Err(failure::of_meta(&error));
        };
        *tries += 1;
        if *tries > TRIES {
            return Err(failure::of_meta(&error));
        }
        let delegations = self.namespace.delegations();
        delegations.recall(directories);
        self.watchers.changed.notify_waiters();
        let deadline = Instant::now() + RECALL;
        while delegations.are_out(directories) {
            let mut heard = std::pin::pin!(self.watchers.heard.notified());
            heard.as_mut().enable();
            if delegations.are_out(directories) && timeout_at(deadline, heard).await.is_err() {
                tracing::debug!(
                    ?directories,
                    "their holder does not give them back: it has none any more"
                );
                delegations.give_up(directories);
            }
        }
        Ok(())
    }

    /// Returns when the holders of leases have heard of what this client has changed.
    pub(super) async fn recalled(&self, client: u64) {
        let leases = self.namespace.leases();
        let deadline = Instant::now() + RECALL;
        while leases.are_recalled_by(client) {
            let mut heard = std::pin::pin!(self.watchers.heard.notified());
            heard.as_mut().enable();
            if leases.are_recalled_by(client) && timeout_at(deadline, heard).await.is_err() {
                tracing::debug!(
                    client,
                    "a holder of a lease does not answer: it has none any more"
                );
                leases.give_up(client);
            }
        }
    }

    /// What others changed after the cursor, as soon as there is something, or nothing when the
    /// time is over.
    async fn news(&self, client: u64, mut cursor: u64) -> WatchReply {
        let deadline = Instant::now() + WAIT;
        let boot = self.watchers.boot;
        loop {
            let mut changed = std::pin::pin!(self.watchers.changed.notified());
            // From here on no change goes unnoticed.
            changed.as_mut().enable();
            let recalled = self.namespace.delegations().wanted_of(client);
            match self.namespace.changes().since(client, cursor) {
                News::Everything { cursor } => {
                    return WatchReply {
                        boot,
                        cursor,
                        everything: true,
                        ..WatchReply::default()
                    };
                }
                News::Some {
                    cursor: next,
                    files,
                    entries,
                    end,
                } => {
                    cursor = next;
                    let quiet = files.is_empty() && entries.is_empty() && recalled.is_empty();
                    if !quiet || Instant::now() >= deadline {
                        return WatchReply {
                            boot,
                            cursor,
                            everything: false,
                            files,
                            entries,
                            recalled,
                        };
                    }
                    if !end {
                        tokio::task::yield_now().await;
                        continue;
                    }
                }
            }
            if timeout_at(deadline, changed).await.is_ok()
                && self.namespace.delegations().wanted_of(client).is_empty()
            {
                tokio::time::sleep(self.watchers.linger()).await;
            }
        }
    }
}
