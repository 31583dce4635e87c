//! The configuration of a process of a volume.

use std::sync::Arc;
use std::time::Duration;

use weft_kv::OrderedKv;
use weft_net::{Bounds, Identity};
use weft_store::StoreConfig;

/// Where an engine's blocking calls run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// On threads for blocking work.
    Threads,
    /// On the calling thread: for simulation, where an engine's sync is instantaneous.
    Inline,
}

/// The configuration of a process.
pub struct NodeConfig {
    /// The volume's key and id; the node chooses its client number itself.
    pub identity: Identity,
    /// The address to listen on.
    pub address: String,
    /// The address for peers, if it differs (a wildcard was bound).
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
    /// Which of its replicas this process is; 0: the first one, or its only store.
    pub replica: u32,
    /// Its store.
    pub store: StoreConfig,
    /// The store's id, made when it was formatted. Empty: the store has none, and its replacement
    /// goes unnoticed.
    pub store_id: Vec<u8>,
    /// Bytes per second at which it makes other replicas equal to itself; 0: no limit.
    pub rebuild_rate: u64,
    /// Files with parity are coded when they have not been changed for so long.
    pub code_after: Duration,
    /// The address of the metadata service.
    pub meta_address: String,
    /// The address of its metrics, for the server map; empty: none.
    pub metrics_address: String,
}

/// The metadata service's role.
pub struct MetaRole {
    /// The namespace's engine, formatted.
    pub kv: Arc<dyn OrderedKv>,
    /// Where the engine's syncs run.
    pub blocking: Blocking,
    /// Only the process that started the service can reach it: it does not wait for clients of an
    /// earlier incarnation.
    pub alone: bool,
}
