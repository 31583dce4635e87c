//! A process of a volume: one port, one or both roles behind it.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use weft_kv::OrderedKv;
use weft_net::{
    Bounds, BufferPool, Counters, Env, Identity, Landed, Landing, Link, Listener, Peer, Served,
    Service, serve,
};
use weft_proto::Kind;
use weft_proto::session::Role;
use weft_store::{Pool, Store, StoreConfig, StoreError};

use crate::group::Blocking;
use crate::heartbeat::{Heartbeat, Says};
use crate::io::{IoService, Peers, Standing, unsupported};
use crate::meta::MetaService;
use crate::metrics::Metrics;

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
    /// The store's id, made when it was formatted; empty: it has none, and nobody finds out when it
    /// is replaced.
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
    /// A thread that must be there from the beginning cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(String),
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
        // Small reads are as brief, but what the disk has done meanwhile is taken while others are
        // begun only where threads do both.
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

/// Payloads are received where the store keeps pages, so that what is large and lies well need not
/// be copied.
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
    /// The address is bound first: a second process of the same node fails before it touches a
    /// store.
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
            Some(role) => {
                server = Some(role.server);
                let opening = role.open(&env, &identity, &metrics, &counters, address.clone());
                let heartbeat = opening.await?;
                let io = heartbeat.io().clone();
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

impl IoRole {
    /// Opens the store and what serves it; what tells the metadata service of it is still to be
    /// run.
    async fn open(
        mut self,
        env: &Env,
        identity: &Identity,
        metrics: &Arc<Metrics>,
        counters: &Arc<Counters>,
        address: String,
    ) -> Result<Heartbeat, NodeError> {
        if self.store.incarnation == 0 {
            self.store.incarnation = env.random_u64();
        }
        self.store.now = env.clock.now();
        let store = Store::open(self.store).await?;
        let identity = Identity {
            role: Role::IoServer,
            ..identity.clone()
        };
        let link = Link::new(
            env.clone(),
            identity.clone(),
            self.meta_address,
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
            self.server,
        );
        if self.store_id.is_empty() {
            io.set_since(0);
            io.set_standing(Standing::Accepted);
        }
        let says = Says {
            server: self.server,
            address,
            metrics: self.metrics_address,
            store: self.store_id.into(),
        };
        Ok(Heartbeat::new(Arc::new(io), link, says))
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

/// Completes when the node is asked to stop.
pub(crate) async fn stopped(mut stopping: watch::Receiver<bool>) {
    // An error means that the node is gone, which is a reason to stop, too.
    let _ = stopping.wait_for(|stop| *stop).await;
}
