//! Connections that outlive a loss: a [`Link`] to one peer, and the [`Links`] to a volume's I/O
//! servers.

mod link;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use weft_layout::ServerId;
use weft_proto::meta::ServerMapReply;

use crate::buffers::BufferPool;
use crate::counters::Counters;
use crate::env::Env;
use crate::identity::Identity;

pub use link::Link;

/// A link to each server of the map, made when a map first names the server.
pub struct Links {
    env: Env,
    identity: Identity,
    pool: BufferPool,
    counters: Arc<Counters>,
    by_server: Mutex<BTreeMap<ServerId, Link>>,
}

impl Links {
    /// No links yet; all links share the pool and the counters.
    pub fn new(env: Env, identity: Identity, pool: BufferPool, counters: Arc<Counters>) -> Links {
        Links {
            env,
            identity,
            pool,
            counters,
            by_server: Mutex::default(),
        }
    }

    fn links(&self) -> MutexGuard<'_, BTreeMap<ServerId, Link>> {
        self.by_server.lock()
    }

    /// Updates the servers' addresses; servers that the map does not name stay as they are.
    pub fn learn(&self, map: &ServerMapReply) {
        let mut links = self.links();
        for server in &map.servers {
            let link = links.entry(ServerId(server.id));
            let link = link.or_insert_with(|| self.make(ServerId(server.id), &server.address));
            link.set_address(&server.address);
        }
    }

    /// A further link to a server, at an address of its own: to one of its replicas.
    pub fn make(&self, server: ServerId, address: &str) -> Link {
        Link::new(
            self.env.clone(),
            self.identity.clone(),
            address.to_owned(),
            Some(server.0),
            self.pool.clone(),
            self.counters.clone(),
        )
    }

    /// The link to a server, if a map named it.
    pub fn get(&self, id: ServerId) -> Option<Link> {
        self.links().get(&id).cloned()
    }

    /// All known servers, by ascending id.
    pub fn servers(&self) -> Vec<ServerId> {
        self.links().keys().copied().collect()
    }
}
