//! A process of a volume: one port, one or both roles behind it.

mod heartbeat;

use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use weft_net::{
    Bounds, BufferPool, Counters, Env, Identity, Link, Listener, Peer, ReceiveBuffer,
    ReceiveBuffers, Served, Service, serve,
};
use weft_proto::Kind;
use weft_proto::meta::ServerMapReply;
use weft_proto::session::Role;
use weft_store::{Pool, Store};

use crate::config::{IoRole, NodeConfig};
use crate::error::NodeError;
use crate::failure::unsupported;
use crate::io::{
    Admission, IoService, Peers, ReplicaIdentity, Replicas, ReplicatedStore, Rows, clean_regularly,
    code_quiet_files,
};
use crate::meta::MetaService;
use crate::metrics::{Measured, Metrics};
use crate::tasks::stopped;

use heartbeat::{Heartbeat, ServerInfo};

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

/// Whether an I/O server serves calls of this kind; otherwise the metadata service does.
fn is_for_io(kind: Kind) -> bool {
    !(64..128).contains(&kind.code())
}

impl Service for Roles {
    fn serve(self: Arc<Self>, call: Served) -> BoxFuture<'static, ()> {
        async move {
            match (&self.io, &self.meta) {
                (Some(io), _) if is_for_io(call.kind) => io.serve(call).await,
                (_, Some(meta)) if !is_for_io(call.kind) => meta.clone().serve(call).await,
                (Some(_), _) => unsupported(call, "an I/O server"),
                _ => unsupported(call, "the metadata service"),
            }
        }
        .boxed()
    }

    fn is_brief(&self, kind: Kind) -> bool {
        // Small reads are as brief, but their disk completions overlap with the start of others
        // only on separate threads.
        matches!(kind, Kind::Write | Kind::Sync | Kind::Settle)
    }

    fn receive_buffers(&self) -> Option<Arc<dyn ReceiveBuffers>> {
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

/// Receives payloads in the store's page memory, so that large aligned ones need no copy.
struct InStore(Pool);

impl ReceiveBuffers for InStore {
    fn buffer(&self, len: usize) -> Option<Box<dyn ReceiveBuffer>> {
        let buffer = self.0.receive_buffer(len)?;
        Some(Box::new(InPages(buffer)))
    }
}

struct InPages(weft_store::ReceiveBuffer);

impl ReceiveBuffer for InPages {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }

    fn freeze(self: Box<Self>) -> Bytes {
        self.0.freeze()
    }
}

/// Asks the metadata service for the server map, over the connection of an I/O server.
#[derive(Debug)]
pub struct ServerMaps(Weak<IoService>);

impl ServerMaps {
    /// The map as it is now.
    ///
    /// # Errors
    /// The service does not answer, or the node has stopped.
    pub async fn now(&self) -> Result<ServerMapReply, String> {
        let io = self.0.upgrade().ok_or("the node has stopped")?;
        io.server_map().await.map_err(|e| e.to_string())
    }
}

impl Node {
    /// Listens, opens the roles, and begins to serve.
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
                let opening = open_io(role, &env, &identity, &metrics, &counters, address.clone());
                let heartbeat = opening.await?;
                let io = heartbeat.io().clone();
                tasks.push(tokio::spawn(heartbeat.run(stopping.clone())));
                tokio::spawn(clean_regularly(Arc::downgrade(&io)));
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

    /// Its address for peers.
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

    /// Asks the metadata service for the server map, if it is an I/O server.
    pub fn server_maps(&self) -> Option<ServerMaps> {
        let io = self.io.as_ref()?;
        Some(ServerMaps(Arc::downgrade(io)))
    }

    /// What to measure of it, if it is an I/O server.
    pub fn measured(&self) -> Option<Measured> {
        let io = self.io.as_ref()?;
        let service = Arc::downgrade(io);
        let gauges = move || {
            let io = service.upgrade();
            let replicas = io.as_ref().and_then(|io| io.replicas());
            replicas.map_or_else(Vec::new, |replicas| replicas.gauges())
        };
        Some(Measured {
            store: io.store().clone(),
            gauges: Box::new(gauges),
        })
    }

    /// Ends all connections, then closes the store and syncs the namespace.
    ///
    /// # Durability
    /// Everything acknowledged is on stable storage on return.
    pub async fn stop(self) -> Result<(), String> {
        if let Some(replicas) = self.io.as_ref().and_then(|io| io.replicas()) {
            replicas.stop();
        }
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

/// Opens the store and its I/O service. The caller runs the heartbeat that is returned.
async fn open_io(
    mut role: IoRole,
    env: &Env,
    identity: &Identity,
    metrics: &Arc<Metrics>,
    counters: &Arc<Counters>,
    address: String,
) -> Result<Heartbeat, NodeError> {
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
    let me = ReplicaIdentity {
        server: role.server,
        number: role.replica,
        meta: link.clone(),
        env: env.clone(),
        identity: identity.clone(),
        counters: counters.clone(),
    };
    let peers = Peers::new(env.clone(), identity, link.clone(), counters.clone());
    let peers = Arc::new(peers);
    let replicas = Replicas::new(me, role.rebuild_rate, Rows::new(peers.clone()));
    let store = ReplicatedStore::new(store, replicas);
    let io = IoService::new(
        store,
        env.clock.clone(),
        metrics.clone(),
        peers,
        env.timing.grace,
        role.server,
    );
    let io = Arc::new(io);
    tokio::spawn(code_quiet_files(Arc::downgrade(&io), role.code_after));
    if role.store_id.is_empty() {
        io.set_since(0);
        io.set_admission(Admission::Accepted);
    }
    let info = ServerInfo {
        server: role.server,
        replica: role.replica,
        address,
        metrics: role.metrics_address,
        store: role.store_id.into(),
    };
    Ok(Heartbeat::new(io, link, info))
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
