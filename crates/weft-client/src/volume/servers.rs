//! The I/O servers as the client knows them, by id.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weft_layout::ServerId;
use weft_net::{BufferPool, CallError, ConnectError, Counters, Env, Identity, Link, Links};
use weft_proto::meta::ServerMapReply;

use super::backups::{Backups, SpreadReads};

/// What the client knows of the server map.
pub(crate) struct Servers {
    links: Links,
    epoch: AtomicU64,
    replicas: AtomicBool,
    backups: Backups,
}

impl Servers {
    pub(crate) fn new(
        env: Env,
        identity: Identity,
        pool: BufferPool,
        counters: Arc<Counters>,
        spread: SpreadReads,
    ) -> Servers {
        Servers {
            links: Links::new(env, identity, pool, counters),
            epoch: AtomicU64::new(0),
            replicas: AtomicBool::new(false),
            backups: Backups::new(spread),
        }
    }

    /// The server map's epoch this client knows.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn learn(&self, map: &ServerMapReply) {
        self.links.learn(map);
        self.epoch.fetch_max(map.epoch, Ordering::AcqRel);
        let replicas = map.servers.iter().any(|server| !server.replicas.is_empty());
        self.replicas.store(replicas, Ordering::Release);
        self.backups.learn(&self.links, map);
    }

    /// The backups that answer large reads, if any server has replicas.
    pub(super) fn backups(&self) -> Option<&Backups> {
        self.have_replicas().then_some(&self.backups)
    }

    /// Whether any server has replicas, so that another one may take a lost one's place.
    pub(crate) fn have_replicas(&self) -> bool {
        self.replicas.load(Ordering::Acquire)
    }

    /// The servers that are looked for at this address.
    pub(crate) fn at(&self, address: &str) -> Vec<(ServerId, Link)> {
        let servers = self.links.servers().into_iter();
        let links = servers.filter_map(|id| Some((id, self.links.get(id)?)));
        links
            .filter(|(_, link)| link.address() == address)
            .collect()
    }

    /// The link to a server of the map.
    pub(crate) fn link(&self, id: ServerId) -> Result<Link, CallError> {
        self.links.get(id).ok_or_else(|| {
            CallError::Connect(ConnectError::Unreachable {
                address: format!("server {id}"),
                reason: "the server map does not have it".to_owned(),
            })
        })
    }
}
