//! A process of a volume: one port, one or both roles behind it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use weft_kv::{OrderedKv, Position};
use weft_net::{
    Bounds, BufferPool, Counters, Env, Identity, Landed, Landing, Link, Listener, Peer, Served,
    Service, serve,
};
use weft_proto::Kind;
use weft_proto::meta::{HeartbeatReply, HeartbeatRequest, Usage};
use weft_proto::session::Role;
use weft_proto::stamp;
use weft_store::{Pool, Store, StoreConfig, StoreError};

use crate::group::Blocking;
use crate::io::{IoService, Peers, Standing, unsupported};
use crate::meta::MetaService;
use crate::metrics::Metrics;

/// Between two heartbeats of an I/O server.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// How often, at most, a server writes down how far the namespace is.
const NOTE_EVERY: Duration = Duration::from_secs(20);

/// What a process is to be.
pub struct NodeConfig {
    /// The volume's key and id; the node chooses its number as a client itself.
    pub identity: Identity,
    /// Where to listen.
    pub address: String,
    /// How others reach it, if that is another address (a wildcard was bound).
    pub public_address: Option<String>,
    /// The I/O server's role.
    pub io: Option<IoRole>,
    /// The metadata service's role.
    pub meta: Option<MetaRole>,
    /// What connections may cost.
    pub bounds: Bounds,
}

/// The I/O server's role.
pub struct IoRole {
    /// The server's id in the server map.
    pub server: u32,
    /// Its store.
    pub store: StoreConfig,
    /// The store's id, made when it was formatted; empty: it has none, and nobody finds out when it is replaced.
    pub store_id: Vec<u8>,
    /// Where the metadata service is.
    pub meta_address: String,
    /// Where its metrics are, for the server map; empty: none.
    pub metrics_address: String,
}

/// The metadata service's role.
pub struct MetaRole {
    /// The namespace's engine, formatted.
    pub kv: Arc<dyn OrderedKv>,
    /// Where the engine's syncs run.
    pub blocking: Blocking,
    /// Nobody but who started it reaches it: clients of an earlier life are not waited for.
    pub alone: bool,
}

/// Why a process cannot start.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// `host:port`.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// The store cannot be opened.
    #[error("cannot open the store: {0}")]
    Store(#[from] StoreError),
    /// The namespace cannot be opened.
    #[error("cannot open the namespace: {0}")]
    Meta(#[from] weft_meta::MetaError),
}

/// A running process of a volume.
pub struct Node {
    address: String,
    metrics: Arc<Metrics>,
    io: Option<Arc<IoService>>,
    meta: Option<Arc<MetaService>>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

struct Roles {
    io: Option<Arc<IoService>>,
    meta: Option<Arc<MetaService>>,
}

impl Service for Roles {
    fn serve(self: Arc<Self>, call: Served) -> BoxFuture<'static, ()> {
        async move {
            match (&self.io, &self.meta) {
                (Some(io), _) if call.kind.code() < 64 => io.serve(call).await,
                (_, Some(meta)) if call.kind.code() >= 64 => meta.clone().serve(call).await,
                (Some(_), _) => unsupported(call, "an I/O server"),
                _ => unsupported(call, "the metadata service"),
            }
        }
        .boxed()
    }

    fn is_brief(&self, kind: Kind) -> bool {
        // Small reads are as brief, but what the disk has done meanwhile is taken while others are begun only where threads do both.
        matches!(kind, Kind::Write | Kind::Sync)
    }

    fn landing(&self) -> Option<Arc<dyn Landing>> {
        let io = self.io.as_ref()?;
        Some(Arc::new(InStore(io.store().memory().clone())))
    }

    fn incarnation(&self) -> u64 {
        match (&self.io, &self.meta) {
            (Some(io), _) => io.store().incarnation().number,
            (None, Some(meta)) => meta.incarnation(),
            (None, None) => 0,
        }
    }

    fn opened(&self, peer: &Arc<Peer>) {
        if let Some(io) = &self.io {
            io.opened(peer);
        }
        if let Some(meta) = &self.meta {
            meta.opened(peer);
        }
    }

    fn closed(&self, peer: &Arc<Peer>) {
        if let Some(io) = &self.io {
            io.closed(peer);
        }
        if let Some(meta) = &self.meta {
            meta.closed(peer);
        }
    }
}

/// Payloads are received where the store keeps pages, so that what is large and lies well need not be copied.
struct InStore(Pool);

impl Landing for InStore {
    fn land(&self, len: usize) -> Option<Box<dyn Landed>> {
        let landing = self.0.land(len)?;
        Some(Box::new(InPages(landing)))
    }
}

struct InPages(weft_store::Landing);

impl Landed for InPages {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }

    fn freeze(self: Box<Self>) -> Bytes {
        self.0.freeze()
    }
}

impl Node {
    /// Listens, opens what the roles need, and begins to serve.
    ///
    /// The address is bound first: a second process of the same node fails before it touches a store.
    pub async fn start(env: Env, config: NodeConfig) -> Result<Node, NodeError> {
        let listener = env.network.listen(&config.address).await;
        let listener = listener.map_err(|e| NodeError::Listen {
            address: config.address.clone(),
            reason: e.to_string(),
        })?;
        let bound = listener
            .address()
            .unwrap_or_else(|_| config.address.clone());
        let address = config.public_address.clone().unwrap_or(bound);
        let counters = Arc::new(Counters::default());
        let metrics = Metrics::new(counters.clone());
        let identity = Identity {
            client: env.random_u64(),
            ..config.identity
        };
        let (stop, stopping) = watch::channel(false);
        let mut tasks = Vec::new();

        let meta = match config.meta {
            Some(role) => {
                let identity = Identity {
                    role: Role::MetaService,
                    ..identity.clone()
                };
                let meta = MetaService::open(env.clone(), identity, role, metrics.clone())?;
                tasks.push(tokio::spawn(meta.clone().run(stopping.clone())));
                Some(meta)
            }
            None => None,
        };
        let mut server = None;
        let io = match config.io {
            Some(mut role) => {
                server = Some(role.server);
                if role.store.incarnation == 0 {
                    role.store.incarnation = env.random_u64();
                }
                role.store.now = env.clock.now();
                let store = Store::open(role.store).await?;
                let identity = Identity {
                    role: Role::IoServer,
                    ..identity.clone()
                };
                let link = Link::new(
                    env.clone(),
                    identity.clone(),
                    role.meta_address,
                    None,
                    BufferPool::default(),
                    counters.clone(),
                );
                let peers = Peers::new(env.clone(), identity, link.clone(), counters.clone());
                let io = IoService::new(
                    store,
                    env.clock.clone(),
                    metrics.clone(),
                    peers,
                    env.timing.grace,
                    role.server,
                );
                if role.store_id.is_empty() {
                    io.set_since(0);
                    io.set_standing(Standing::Accepted);
                }
                let io = Arc::new(io);
                let heartbeat = Heartbeat {
                    io: io.clone(),
                    link,
                    server: role.server,
                    address: address.clone(),
                    metrics_address: role.metrics_address,
                    store_id: role.store_id.into(),
                    has: Vec::new(),
                    rolled_back: false,
                    service: None,
                    noted: None,
                };
                tasks.push(tokio::spawn(heartbeat.run(stopping.clone())));
                Some(io)
            }
            None => None,
        };
        let roles = Arc::new(Roles {
            io: io.clone(),
            meta: meta.clone(),
        });
        tasks.push(tokio::spawn(serve_until(
            env,
            listener,
            identity,
            server,
            config.bounds,
            roles,
            counters,
            stopping,
        )));
        Ok(Node {
            address,
            metrics,
            io,
            meta,
            stop,
            tasks,
        })
    }

    /// How others reach it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its measurements.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Its store, if it is an I/O server.
    pub fn store(&self) -> Option<&Store> {
        self.io.as_ref().map(|io| io.store())
    }

    /// Ends all connections, then closes the store and syncs the namespace.
    ///
    /// # Durability
    /// Everything acknowledged is on stable storage on return.
    pub async fn stop(self) -> Result<(), String> {
        let _ = self.stop.send(true);
        for task in self.tasks {
            let _ = task.await;
        }
        if let Some(io) = &self.io {
            io.store().close().await.map_err(|e| e.to_string())?;
        }
        if let Some(meta) = &self.meta {
            meta.close().await?;
        }
        Ok(())
    }
}

#[allow(clippy::too_many_arguments)] // hands everything to weft_net::serve
async fn serve_until(
    env: Env,
    listener: Box<dyn Listener>,
    identity: Identity,
    server: Option<u32>,
    bounds: Bounds,
    roles: Arc<Roles>,
    counters: Arc<Counters>,
    stopping: watch::Receiver<bool>,
) {
    let stop = stopped(stopping);
    serve(
        env, listener, identity, server, bounds, roles, counters, stop,
    )
    .await;
}

fn on_the_wire(at: Position) -> stamp::Position {
    stamp::Position {
        incarnation: at.incarnation,
        sequence: at.sequence,
    }
}

/// Completes when the node is asked to stop.
pub(crate) async fn stopped(mut stopping: watch::Receiver<bool>) {
    // An error means that the node is gone, which is a reason to stop, too.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// Tells the metadata service that the server lives, where, and how full it is; learns the epoch.
struct Heartbeat {
    io: Arc<IoService>,
    link: Link,
    server: u32,
    address: String,
    metrics_address: String,
    store_id: Bytes,
    /// What the service asked for and the store has.
    has: Vec<stamp::Position>,
    /// The store lacks something that the service asked for.
    rolled_back: bool,
    /// What the store's folder says of the service.
    service: Option<Position>,
    /// When that was written last.
    noted: Option<Instant>,
}

impl Heartbeat {
    async fn run(mut self, stopping: watch::Receiver<bool>) {
        let stop = stopped(stopping);
        tokio::pin!(stop);
        let mut failed = 0_u32;
        match self.io.store().heard_of_service() {
            Ok(heard) => self.service = heard,
            Err(error) => {
                tracing::warn!(%error, "what was heard of the metadata service cannot be read");
            }
        }
        loop {
            let beat = tokio::select! {
                biased;
                () = &mut stop => return,
                beat = self.beat() => beat,
            };
            match beat {
                Ok(told) => {
                    self.io.set_epoch(told.epoch);
                    self.io.set_since(told.since);
                    failed = 0;
                    if self.compare(&told) {
                        // The service waits for the answer.
                        continue;
                    }
                    self.note_service(told.service).await;
                }
                Err(reason) => {
                    failed = failed.saturating_add(1);
                    // A service that starts beside this server answers the next time.
                    if failed == 2 {
                        tracing::warn!(%reason, "the metadata service cannot be told that this server is up");
                    }
                }
            }
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = tokio::time::sleep(HEARTBEAT) => {}
            }
        }
    }

    /// Looks for what the service asks for; true if there is something new to tell it.
    fn compare(&mut self, told: &HeartbeatReply) -> bool {
        if told.check.is_empty() {
            self.rolled_back = false;
            self.io.set_standing(Standing::Accepted);
            return false;
        }
        let has = |at: &stamp::Position| {
            let at = Position {
                incarnation: at.incarnation,
                sequence: at.sequence,
            };
            self.io.store().still_has(at).is_ok()
        };
        if told.check.iter().all(has) {
            let new = self.has != told.check;
            self.has.clone_from(&told.check);
            return new;
        }
        self.io.set_standing(Standing::RolledBack);
        let before = std::mem::replace(&mut self.rolled_back, true);
        if !before {
            tracing::error!(
                server = self.server,
                "this server is refused: its folder is older than what the server said before, or another process runs with the folder's copy"
            );
        }
        !before
    }

    /// Keeps what the service says of itself, at bounded intervals.
    async fn note_service(&mut self, told: Option<stamp::Position>) {
        let Some(told) = told.filter(|_| !self.store_id.is_empty()) else {
            return;
        };
        let told = Position {
            incarnation: told.incarnation,
            sequence: told.sequence,
        };
        let anew = self.service.map(|at| at.incarnation) != Some(told.incarnation);
        let due = self.noted.is_none_or(|when| when.elapsed() >= NOTE_EVERY);
        if self.service == Some(told) || !(anew || due) {
            return;
        }
        match self.io.store().note_service(told).await {
            Ok(()) => (self.service, self.noted) = (Some(told), Some(Instant::now())),
            Err(error) => {
                tracing::warn!(%error, "what was heard of the metadata service is not kept");
            }
        }
    }

    async fn beat(&self) -> Result<HeartbeatReply, String> {
        let usage = self.io.store().usage();
        // A store without an id is not known again.
        let says = !self.store_id.is_empty();
        let request = HeartbeatRequest {
            id: self.server,
            address: self.address.clone(),
            metrics: self.metrics_address.clone(),
            usage: Usage {
                capacity: usage.capacity,
                used: usage.used,
                available: usage.available,
            },
            store: self.store_id.clone(),
            durable: says.then(|| on_the_wire(self.io.store().durable_position())),
            has: self.has.clone(),
            rolled_back: self.rolled_back,
            service: self.service.filter(|_| says).map(on_the_wire),
        };
        let (connection, _) = self.link.connection().await.map_err(|e| e.to_string())?;
        let told = connection.call(&request).await;
        told.map_err(|e| e.to_string())
    }
}
