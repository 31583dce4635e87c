//! An open volume: the link to the metadata service and those to the servers.
//!
//! Owns the links, the state of [`crate::session`], and what was asserted over the connection to
//! the service. `meta_calls.rs` and `io_calls.rs` make the calls, `retry.rs` decides which are
//! repeated, `guards.rs` has what happens when one is cancelled.
//!
//! Invariants:
//! 1. No call passes over a connection to the service before what is attached and locked was
//!    asserted over it.
//! 2. A lost call is repeated only where a repetition changes nothing more ([`Repeat`]).

mod backups;
mod guards;
mod io_calls;
mod meta_calls;
mod options;
mod retry;
mod servers;
mod small_file;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use weft_layout::ServerId;
use weft_net::{BufferPool, Counters, CountersSnapshot, Env, Identity, Link};
use weft_proto::Code;
use weft_proto::coord::SyncNamespaceRequest;
use weft_proto::meta::{
    ConnectedClient, Credentials, ListClientsRequest, ReassertRequest, ServerMapReply,
    ServerMapRequest,
};
use weft_proto::session::Role;
use weft_referee::Recorder;

use crate::Error;
use crate::cache::{ChunkCache, SharedNames};
use crate::limits::BACKUPS_AGE_MAX;
use crate::policy::{Policies, Policy};
use crate::session::{
    AttachedFiles, DelegatedNames, DetachQueue, EndedOperations, LocksHeld, NamingPays, Unsynced,
};
use crate::volume::servers::Servers;

pub(crate) use backups::Backup;
pub use backups::SpreadReads;
pub(crate) use guards::{Attaching, Detach};
use options::history_of_environment;
pub use options::{ConnectOptions, DiskCacheOptions, record_history};
pub(crate) use retry::{Backoff, Repeat, Retry, RetryUntil};
pub use small_file::{open_regular, read_small};

/// An open volume. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct Volume {
    pub(crate) shared: Arc<Shared>,
    pub(crate) who: Arc<Credentials>,
}

/// A volume that may have ended.
pub(crate) struct WeakVolume {
    shared: Weak<Shared>,
    who: Arc<Credentials>,
}

impl WeakVolume {
    pub(crate) fn upgrade(&self) -> Option<Volume> {
        Some(Volume {
            shared: self.shared.upgrade()?,
            who: self.who.clone(),
        })
    }
}

pub(crate) struct Shared {
    pub(crate) env: Env,
    meta: Link,
    pub(crate) servers: Servers,
    counters: Arc<Counters>,
    /// What is attached: asserted again when the metadata service was lost.
    attached: AttachedFiles,
    /// Notified when the last attachment of a file ends.
    pub(crate) ended: tokio::sync::Notify,
    /// What is locked: asserted again as well.
    pub(crate) locks: LocksHeld,
    /// Delegated directories and the unreported changes in them.
    pub(crate) delegated: DelegatedNames,
    /// Attachments whose end is not reported yet.
    pub(crate) detaches: DetachQueue,
    pub(crate) ended_operations: EndedOperations,
    pub(crate) naming_pays: NamingPays,
    /// Names of chunks that servers keep coherent.
    pub(crate) kept_names: SharedNames,
    /// Chunks, by their names.
    pub(crate) chunks: ChunkCache,
    /// The service may have attachments that have ended here: the state must be asserted again.
    outdated: AtomicBool,
    lazy: bool,
    name: String,
    application: String,
    /// The policy of files that have none.
    pub(crate) policy: Option<Policy>,
    /// The policies that this client knows.
    pub(crate) policies: Policies,
    /// Where a history is recorded.
    pub(crate) history: Option<Recorder>,
    /// When servers were last found not to reach each other.
    pub(crate) apart: parking_lot::Mutex<Option<tokio::time::Instant>>,
    /// Changes that may not survive power loss yet.
    pub(crate) unsynced: Unsynced,
    /// Where operations in the background go on.
    pub(crate) runtime: tokio::runtime::Handle,
    /// Whether this client's state was asserted over the current connection. Locked during the
    /// assertion, so that no call overtakes it: what such a call attached or locked would be
    /// forgotten again; and while ended attachments are removed.
    asserted: tokio::sync::Mutex<Asserted>,
}

impl Volume {
    /// Connects to the metadata service and fetches the server map.
    pub async fn connect(options: ConnectOptions) -> Result<Volume, Error> {
        let history = match options.history {
            None => history_of_environment()?,
            given => given,
        };
        let disk = match options.disk_cache {
            None => DiskCacheOptions::of_environment()?,
            given => given,
        };
        let disk = disk.map(|disk| disk.open()).transpose()?;
        let env = options.env;
        let identity = Identity {
            key: options.key,
            volume: options.volume,
            role: Role::Client,
            client: env.random_u64(),
            wire: options.wire,
        };
        let counters = Arc::new(Counters::default());
        let pool = BufferPool::default();
        let meta = Link::new(
            env.clone(),
            identity.clone(),
            options.address,
            None,
            pool.clone(),
            counters.clone(),
        );
        let spread = options.spread_reads;
        let servers = Servers::new(env.clone(), identity, pool, counters.clone(), spread);
        let shared = Shared {
            apart: parking_lot::Mutex::default(),
            env,
            meta,
            servers,
            counters,
            attached: AttachedFiles::default(),
            ended: tokio::sync::Notify::new(),
            locks: LocksHeld::default(),
            delegated: DelegatedNames::default(),
            detaches: DetachQueue::default(),
            ended_operations: EndedOperations::default(),
            naming_pays: NamingPays::default(),
            kept_names: SharedNames::default(),
            chunks: ChunkCache::new(options.chunk_cache, disk),
            outdated: AtomicBool::new(false),
            lazy: options.lazy,
            name: options.name,
            application: options.application,
            policy: options.policy,
            policies: options.policies,
            history,
            unsynced: Unsynced::default(),
            runtime: tokio::runtime::Handle::current(),
            asserted: tokio::sync::Mutex::default(),
        };
        let volume = Volume {
            shared: Arc::new(shared),
            who: Arc::new(options.who),
        };
        volume.refresh_servers().await?;
        Ok(volume)
    }

    /// The same volume on behalf of another user; shares the connections.
    #[must_use]
    pub fn on_behalf_of(&self, who: impl Into<Arc<Credentials>>) -> Volume {
        Volume {
            shared: self.shared.clone(),
            who: who.into(),
        }
    }

    pub(crate) fn downgrade(&self) -> WeakVolume {
        WeakVolume {
            shared: Arc::downgrade(&self.shared),
            who: self.who.clone(),
        }
    }

    /// What this client has sent and received so far.
    pub fn counters(&self) -> CountersSnapshot {
        self.shared.counters.snapshot()
    }

    /// The server map, fresh from the metadata service.
    pub async fn server_map(&self) -> Result<ServerMapReply, Error> {
        self.meta("read the server map", &ServerMapRequest {}, Repeat::Safe)
            .await
    }

    /// How many connections to this peer, by its address, were opened so far: more than before when
    /// it was away and is back.
    pub fn connections_to(&self, peer: &str) -> u64 {
        let meta = &self.shared.meta;
        let of_service = if meta.address() == peer {
            meta.opened()
        } else {
            0
        };
        let servers = self.shared.servers.at(peer);
        of_service + servers.iter().map(|(_, link)| link.opened()).sum::<u64>()
    }

    /// What a message calls the peer at this address.
    pub fn peer_name(&self, peer: &str) -> String {
        match self.shared.servers.at(peer).first() {
            Some((id, _)) => format!("server {id} at {peer}"),
            None => format!("the metadata service at {peer}"),
        }
    }

    /// The other clients that are connected to the metadata service.
    pub async fn clients(&self) -> Result<Vec<ConnectedClient>, Error> {
        let request = ListClientsRequest {};
        let reply = self
            .meta("list the clients", &request, Repeat::Safe)
            .await?;
        Ok(reply.clients)
    }

    pub(crate) async fn refresh_servers(&self) -> Result<(), Error> {
        let map = self.server_map().await?;
        self.shared.servers.learn(&map);
        Ok(())
    }

    /// Asks in the background which replicas are in sync, at most once a second.
    pub(crate) fn refresh_servers_soon(&self) {
        self.refresh_servers_if_older(Duration::from_secs(1));
    }

    fn refresh_servers_if_older(&self, age: Duration) {
        let backups = self.shared.servers.backups();
        if backups.is_some_and(|backups| backups.are_older(age)) {
            let volume = self.clone();
            self.shared.runtime.spawn(async move {
                // Without an answer, what is known stays.
                let _ = volume.refresh_servers().await;
            });
        }
    }

    /// Whether a read of so many bytes on each server is spread over replicas.
    pub(crate) fn spreads_read_of(&self, bytes: u64) -> bool {
        let backups = self.shared.servers.backups();
        backups.is_some_and(|backups| backups.is_spread(bytes))
    }

    /// The backup that answers a read that ends there; `None`: the primary does.
    pub(crate) fn reader(&self, server: ServerId, end: u64) -> Option<Backup> {
        self.refresh_servers_if_older(BACKUPS_AGE_MAX);
        self.shared.servers.backups()?.reader(server, end)
    }

    /// Makes every metadata operation acknowledged so far, to any client, survive power loss. One
    /// request. Without [`ConnectOptions::lazy`] each operation does that itself before it is
    /// acknowledged.
    ///
    /// # Errors
    /// With [`Code::Lost`], once, when the service came back without changes that this client was
    /// told of.
    pub async fn sync_namespace(&self) -> Result<(), Error> {
        self.catch_up().await;
        let request = SyncNamespaceRequest {
            changed: self.shared.unsynced.of_names(),
        };
        let synced = self.meta_now("sync the namespace", &request, Repeat::Safe);
        let (unsynced, synced) = (&self.shared.unsynced, synced.await);
        match &synced {
            Ok(_) => unsynced.asked_names(&request.changed, None),
            Err(error) if error.code() == Code::Lost => {
                unsynced.asked_names(&request.changed, Some(&error.to_string()));
            }
            Err(_) => {}
        }
        synced.map(drop)
    }

    /// How many losses of names count as reported for a descriptor that is opened now, for
    /// [`Volume::name_loss_since`].
    pub fn name_losses(&self) -> u64 {
        self.shared.unsynced.names_baseline()
    }

    /// Fails once for a loss of names that a descriptor has not reported yet. Local.
    ///
    /// # Errors
    /// With [`Code::Lost`].
    pub fn name_loss_since(&self, reported: &AtomicU64) -> Result<(), Error> {
        let unreported = self.shared.unsynced.unreported_names(reported);
        unreported.map_or(Ok(()), |message| Err(Error::lost("names", message)))
    }
}

/// What was asserted over the connection to the service.
#[derive(Default)]
struct Asserted {
    /// Everything that had to be.
    complete: bool,
    /// The connection's number.
    run: u64,
}

impl Shared {
    /// Notes an attachment that the service confirmed over connection `run`; false if the state was
    /// asserted over another connection meanwhile, without it.
    pub(crate) fn note_attached_over(&self, run: u64, file: u64, write: bool) -> bool {
        self.attached.add_over(run, file, write)
    }

    pub(crate) fn note_attached(&self, file: u64, write: bool) {
        self.attached.add(file, write);
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    pub(crate) fn has_ended_all(&self) -> bool {
        self.attached.is_empty()
    }

    pub(crate) fn note_detached(&self, file: u64, write: bool) {
        if self.attached.remove(file, write) {
            self.locks.ended(file);
            self.kept_names.file_ended(file);
            self.ended.notify_waiters();
        }
    }

    /// What is to be asserted over connection `run`.
    fn reassertion(&self, run: u64, outdated: bool) -> Option<ReassertRequest> {
        let mut request = ReassertRequest {
            lazy: self.lazy,
            name: self.name.clone(),
            application: self.application.clone(),
            locks: self.locks.all(),
            ..ReassertRequest::default()
        };
        let any = self.attached.assert_over(run, &mut request);
        (self.lazy || outdated || any || !self.name.is_empty() || !self.application.is_empty())
            .then_some(request)
    }

    /// The next connection asserts what is attached, also if it is nothing.
    pub(crate) fn must_reassert(&self) {
        self.outdated.store(true, Ordering::Release);
    }
}
