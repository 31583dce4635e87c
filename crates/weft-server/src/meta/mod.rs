//! The metadata service's role: one transaction per call, made durable together with those of other
//! callers.
//!
//! [`MetaService`] owns the namespace and hands each call to one of these modules, lowest first:
//!
//! - `clients`: sessions, locks and watchers; `servers`: the calls to I/O servers;
//! - `intents`: which work for I/O servers is pending, and may run now;
//! - `sizes`: the sizes of files, kept within quotas and settled after writers die;
//! - `caution`: files that applications share;
//! - `answer`: from an operation to its durable reply; `calls`: everything that is more than one
//!   operation; `background`: what no call waits for.
//!
//! State that several calls share is in a type of its module, behind methods.

mod answer;
mod background;
mod calls;
mod caution;
mod check;
mod clients;
mod dispatch;
mod intents;
mod rollback;
mod servers;
mod sizes;

use std::sync::Arc;

use tokio::sync::{Notify, SetOnce};
use weft_meta::Namespace;
use weft_net::{Env, Identity, Peer};
use weft_proto::session::Role;

use crate::config::{Blocking, MetaRole};
use crate::error::NodeError;
use crate::metrics::Metrics;
use crate::tasks::GroupSync;

use caution::ForcedFiles;
use check::CheckSlot;
use clients::{Locks, Sessions, Watchers};
use intents::Intents;
use rollback::Rollback;
use servers::{IoServers, SpillLocks};
use sizes::LimitLease;

/// Serves the calls of kinds 64 to 127 from one namespace.
pub(crate) struct MetaService {
    env: Env,
    namespace: Namespace,
    group: Arc<GroupSync>,
    metrics: Arc<Metrics>,
    sessions: Sessions,
    servers: IoServers,
    intents: Intents,
    /// Set when the grace period after the start is over: clients of an earlier incarnation have
    /// reasserted what they hold.
    recovered: SetOnce<()>,
    spilling: SpillLocks,
    /// There are new intents.
    new_intents: Notify,
    /// A change was acknowledged that does not survive power loss yet.
    unsynced: Notify,
    /// Held by the round that limits growth: there is one at a time.
    limiting: tokio::sync::Mutex<LimitLease>,
    /// Some payer may have more quota left than the servers know.
    freed: Notify,
    /// A file was closed whose size is not exact.
    unknown_sizes: Notify,
    watchers: Watchers,
    locks: Locks,
    blocking: Blocking,
    check: CheckSlot,
    rollback: Rollback,
    forced: ForcedFiles,
}

impl MetaService {
    pub(crate) fn open(
        env: Env,
        identity: Identity,
        role: MetaRole,
        metrics: Arc<Metrics>,
    ) -> Result<Arc<MetaService>, NodeError> {
        let namespace = if role.alone {
            Namespace::open_alone(role.kv.clone())
        } else {
            Namespace::open(role.kv.clone())
        }?;
        namespace.begin_incarnation(env.random_u64(), env.clock.now())?;
        let blocking = role.blocking;
        let group = GroupSync::new(role.kv, blocking);
        let group = group.map_err(|e| NodeError::Thread(e.to_string()))?;
        let servers = IoServers::new(env.clone(), identity);
        let grace = env.timing.grace;
        Ok(Arc::new(MetaService {
            watchers: Watchers::new(env.random_u64()),
            locks: Locks::default(),
            blocking,
            check: CheckSlot::default(),
            rollback: Rollback::default(),
            forced: ForcedFiles::default(),
            env,
            namespace,
            group,
            metrics,
            sessions: Sessions::default(),
            servers,
            intents: Intents::default(),
            recovered: SetOnce::new(),
            spilling: SpillLocks::default(),
            new_intents: Notify::new(),
            unsynced: Notify::new(),
            limiting: tokio::sync::Mutex::new(LimitLease::new(grace)),
            freed: Notify::new(),
            unknown_sizes: Notify::new(),
        }))
    }

    /// Makes all commits survive power loss. Called when no call is served any more.
    pub(crate) async fn close(&self) -> Result<(), String> {
        self.group.sync().await?;
        self.namespace.close().map_err(|e| e.to_string())
    }

    /// The incarnation that acknowledges changes.
    pub(crate) fn incarnation(&self) -> u64 {
        self.namespace.position().map_or(0, |at| at.incarnation)
    }

    pub(crate) fn opened(&self, peer: &Arc<Peer>) {
        if peer.role == Role::Client {
            self.sessions.opened(peer, self.env.clock.now());
        }
    }

    pub(crate) fn closed(&self, peer: &Arc<Peer>) {
        if peer.role == Role::Client {
            self.sessions.closed(peer);
        }
    }

    /// Wakes watchers; follows every change of the namespace.
    fn notify_watchers(&self) {
        self.watchers.notify(self.namespace.changes().published());
    }

    /// Updates the addresses of the I/O servers.
    fn learn_servers(&self) {
        if let Ok(map) = self.namespace.server_map(self.env.clock.now()) {
            self.servers.learn(&map);
        }
    }
}
