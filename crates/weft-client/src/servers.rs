//! Links to the I/O servers, by id.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weft_layout::ServerId;
use weft_net::{BufferPool, CallError, ConnectError, Counters, Env, Identity, Link};
use weft_proto::meta::ServerMapReply;

/// What the client knows of the server map.
pub(crate) struct Servers {
    env: Env,
    identity: Identity,
    pool: BufferPool,
    counters: Arc<Counters>,
    epoch: AtomicU64,
    links: Mutex<BTreeMap<ServerId, Link>>,
}

impl Servers {
    pub(crate) fn new(
        env: Env,
        identity: Identity,
        pool: BufferPool,
        counters: Arc<Counters>,
    ) -> Servers {
        let (epoch, links) = (AtomicU64::new(0), Mutex::default());
        Servers {
            env,
            identity,
            pool,
            counters,
            epoch,
            links,
        }
    }

    /// The server map's epoch this client knows.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn learn(&self, map: &ServerMapReply) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        for server in &map.servers {
            let link = links.entry(ServerId(server.id)).or_insert_with(|| {
                Link::new(
                    self.env.clone(),
                    self.identity.clone(),
                    server.address.clone(),
                    Some(server.id),
                    self.pool.clone(),
                    self.counters.clone(),
                )
            });
            link.set_address(&server.address);
        }
        self.epoch.fetch_max(map.epoch, Ordering::AcqRel);
    }

    /// The link to a server of the map.
    pub(crate) fn link(&self, id: ServerId) -> Result<Link, CallError> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.get(&id).cloned().ok_or_else(|| {
            CallError::Connect(ConnectError::Unreachable {
                address: format!("server {id}"),
                reason: "the server map does not have it".to_owned(),
            })
        })
    }
}
