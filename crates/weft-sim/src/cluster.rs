//! A volume inside a simulation. It holds what outlives a process; the processes are turmoil's
//! hosts.

mod clients;

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use turmoil::{Builder, Sim};
use weft_kv::{MemKv, OrderedKv};
use weft_layout::ServerId;
use weft_meta::{Namespace, VolumeSettings};
use weft_net::{Bounds, Env, Identity, VolumeKey, Wire};
use weft_proto::meta::JoinServerRequest;
use weft_proto::session::Role;
use weft_referee::{History, OpenId, Recorder, What};
use weft_server::{Blocking, CODE_AFTER, IoRole, MetaRole, Node, NodeConfig, NodeError};
use weft_store::{SimStorage, Storage, StoreConfig, StoreError};

use crate::canary::{Canary, Defective, Forgetful, Unsynced};
use crate::net::{Heard, SimNetwork, env};

const KEY: VolumeKey = VolumeKey([7; 32]);
const VOLUME: [u8; 16] = [9; 16];
const PORT: u16 = 4700;

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its process dies.
    Kill,
    /// Its machine loses power.
    PowerLoss,
}

/// A simulation without hosts that ends after this time, of its own clock.
pub(crate) fn simulation(seed: u64, duration: Duration) -> Sim<'static> {
    Builder::new()
        .rng_seed(seed)
        .simulation_duration(duration)
        .tick_duration(Duration::from_millis(1))
        .min_message_latency(Duration::from_micros(100))
        .max_message_latency(Duration::from_millis(5))
        .tcp_capacity(1 << 16)
        .build()
}

/// What the nodes of a volume run on.
pub struct Cluster {
    seed: u64,
    canary: Option<Canary>,
    heard: Heard,
    namespace: Arc<MemKv>,
    /// Of the metadata service.
    network: SimNetwork,
    /// Of the clients whose processes die.
    mortal: Mutex<BTreeMap<usize, SimNetwork>>,
    /// Counts the processes that start, so that none has another's randomness.
    lives: Arc<AtomicU64>,
    /// What all clients do.
    history: Recorder,
    /// The first replicas of all servers, then the second ones, and so on.
    servers: Vec<Arc<Machine>>,
    /// Machines of each server.
    each: usize,
}

/// What outlives a process.
#[derive(Clone)]
struct Disk {
    storage: SimStorage,
    index: Arc<MemKv>,
    /// Which of the machine's disks it is: each is formatted anew.
    number: u64,
}

struct Machine {
    network: SimNetwork,
    disk: Mutex<Disk>,
    canary: Option<Canary>,
    /// Rises with each loss of power.
    boot: AtomicU64,
    /// Bits of its disk have changed.
    rotten: AtomicBool,
}

/// The file of a store that holds blocks.
const BLOCKS_FILE: &str = "data";
/// Bytes of one.
const BLOCK: u64 = 4096;

impl Machine {
    fn disk(&self) -> Disk {
        let disk = self.disk.lock();
        disk.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn role(&self, server: u32, replica: Option<u32>) -> IoRole {
        let disk = self.disk();
        let boot = format!("boot {}", self.boot.load(Ordering::Relaxed));
        let storage: Arc<dyn Storage> = match self.canary {
            None => Arc::new(disk.storage.this_life()),
            Some(canary) => Arc::new(Defective::new(disk.storage.this_life(), canary)),
        };
        let mut store = StoreConfig::new(storage, disk.index.clone(), boot);
        store.cache_bytes = 8 << 20;
        store.dirty_bytes = 1 << 20;
        store.log_bytes = 4 << 20;
        store.segment_bytes = 256 << 10;
        store.growth_bytes = 4 << 20;
        store.reserve_bytes = 0;
        if self.canary == Some(Canary::SameIncarnation) {
            store.incarnation = 4711;
        }
        IoRole {
            server,
            replica: replica.unwrap_or(0),
            store_id: match replica {
                None => Vec::new(),
                Some(_) => disk.number.to_le_bytes().to_vec(),
            },
            store,
            rebuild_rate: 0,
            code_after: CODE_AFTER,
            meta_address: format!("{}:{PORT}", Cluster::META_HOST),
            metrics_address: String::new(),
        }
    }

    fn flip(&self, byte: u64, bit: u8) -> bool {
        let flipped = self.disk().storage.flip(BLOCKS_FILE, byte, bit);
        self.rotten.fetch_or(flipped, Ordering::Relaxed);
        flipped
    }
}

impl Cluster {
    /// The host of the metadata service.
    pub const META_HOST: &'static str = "meta";

    /// The host of an I/O server.
    pub fn server_host(server: usize) -> String {
        format!("server-{server}")
    }

    /// A fresh, formatted volume, with a defect if one is named.
    pub fn new(seed: u64, servers: usize, canary: Option<Canary>) -> Cluster {
        Cluster::with_replicas(seed, servers, 1, 1, canary)
    }

    /// The same, with so many replicas of each server, and so many machines for them: the others
    /// can join.
    pub fn with_replicas(
        seed: u64,
        servers: usize,
        replicas: usize,
        machines: usize,
        canary: Option<Canary>,
    ) -> Cluster {
        let address = |machine| format!("{}:{PORT}", Cluster::server_host(machine));
        let namespace = Arc::new(MemKv::new());
        let settings = VolumeSettings {
            id: VOLUME,
            name: "simulated".into(),
            servers: (0..servers)
                .map(|i| (ServerId(i as u32), address(i)))
                .collect(),
            replicas: (servers..servers * replicas)
                .map(|machine| {
                    let (server, number) = (machine % servers, machine / servers);
                    (ServerId(server as u32), number as u32, address(machine))
                })
                .collect(),
            uid: 0,
            gid: 0,
            mode: 0o755,
            now: 0,
        };
        Namespace::format(namespace.as_ref(), &settings).expect("a new namespace is formatted");
        namespace.sync().expect("an engine in memory syncs");
        let heard = Heard::default();
        let each = machines;
        let machines = (0..(servers * each) as u64).map(|i| {
            Arc::new(Machine {
                network: SimNetwork::new(heard.clone()),
                disk: Mutex::new(Disk {
                    storage: SimStorage::new(seed ^ (i + 1) << 32),
                    index: Arc::new(MemKv::with_journal()),
                    number: i + 1,
                }),
                canary,
                boot: AtomicU64::new(0),
                rotten: AtomicBool::new(false),
            })
        });
        Cluster {
            seed,
            canary,
            namespace,
            network: SimNetwork::new(heard.clone()),
            mortal: Mutex::default(),
            lives: Arc::new(AtomicU64::new(seed)),
            history: Recorder::in_memory(),
            servers: machines.collect(),
            each,
            heard,
        }
    }

    /// What clients were promised and returned so far of the file at this path.
    pub fn history_of(&self, path: &str) -> History {
        let mut history = self.history.take();
        let opens: HashSet<OpenId> = history
            .events
            .iter()
            .filter(|event| matches!(&event.what, What::Open { path: of, .. } if of == path))
            .map(|event| event.open)
            .collect();
        history.events.retain(|event| opens.contains(&event.open));
        history
    }

    /// What arrived at the hosts so far, and when.
    pub fn heard(&self) -> &Heard {
        &self.heard
    }

    /// The run is over, and its processes are about to be dropped.
    pub fn end(&self) {
        self.network.end();
        for network in self.mortal().values() {
            network.end();
        }
        for machine in &self.servers {
            machine.network.end();
        }
    }

    fn mortal(&self) -> MutexGuard<'_, BTreeMap<usize, SimNetwork>> {
        self.mortal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many I/O servers there are.
    pub fn servers(&self) -> usize {
        self.servers.len() / self.each
    }

    /// How many machines they are on.
    pub(crate) fn machines(&self) -> usize {
        self.servers.len()
    }

    /// Adds all nodes to a simulation; each starts again from its disk when it is bounced.
    pub fn start(&self, sim: &mut Sim<'_>) {
        let namespace = self.namespace.clone();
        let network = self.network.clone();
        let life = self.lives.clone();
        let canary = self.canary;
        sim.host(Cluster::META_HOST, move || {
            let kv: Arc<dyn OrderedKv> = match canary {
                Some(Canary::NoNameSync) => Arc::new(Unsynced(namespace.clone())),
                Some(Canary::LostNames) => Arc::new(Forgetful::new(namespace.clone())),
                _ => namespace.clone(),
            };
            let env = life_env(&life, &network);
            async move {
                let meta = MetaRole {
                    alone: false,
                    kv,
                    blocking: Blocking::Inline,
                };
                Ok(serve(env, Cluster::META_HOST, None, Some(meta)).await?)
            }
        });
        let (servers, each) = (self.servers(), self.each);
        for (i, machine) in self.servers.iter().enumerate() {
            let machine = machine.clone();
            let replica = (each > 1).then_some((i / servers) as u32);
            let life = self.lives.clone();
            sim.host(Cluster::server_host(i), move || {
                let machine = machine.clone();
                let env = life_env(&life, &machine.network);
                async move {
                    let name = Cluster::server_host(i);
                    let role = machine.role((i % servers) as u32, replica);
                    let ended = serve(env.clone(), &name, Some(role), None).await;
                    let bad = matches!(
                        &ended,
                        Err(NodeError::Store(StoreError::BadChecksum { .. }))
                    );
                    if !bad || !machine.rotten.load(Ordering::Relaxed) {
                        return Ok(ended?);
                    }
                    // Part of a block is in the log, and the rest of it is bad: the operator gives
                    // the block up.
                    let mut role = machine.role((i % servers) as u32, replica);
                    role.store.accept_loss = true;
                    Ok(serve(env, &name, Some(role), None).await?)
                }
            });
        }
    }

    /// Ends a server's process or its machine's power.
    pub fn strike_server(&self, sim: &mut Sim<'_>, server: usize, fault: Fault, seed: u64) {
        let machine = &self.servers[server];
        machine.network.crash(sim, &Cluster::server_host(server));
        let disk = machine.disk();
        disk.storage.crash(fault == Fault::PowerLoss, seed);
        if fault == Fault::PowerLoss {
            disk.index.crash_power_loss();
            machine.boot.fetch_add(1, Ordering::Relaxed);
        }
        // The journal of its index is damaged as well, and a repair had it go back: the log has the
        // rest.
        if seed.is_multiple_of(3) {
            disk.index.lose_journal(seed / 3);
        }
    }

    /// The store of a machine as it asks to join, and its server.
    pub(crate) fn joining(&self, machine: usize) -> JoinServerRequest {
        let store = self.servers[machine].disk().number;
        JoinServerRequest {
            address: format!("{}:{PORT}", Cluster::server_host(machine)),
            store: store.to_le_bytes().to_vec().into(),
            server: Some((machine % self.servers()) as u32),
            ..JoinServerRequest::default()
        }
    }

    /// Ends a machine's process and gives it an empty disk.
    pub(crate) fn empty_machine(&self, sim: &mut Sim<'_>, machine: usize, seed: u64) {
        let this = &self.servers[machine];
        this.network.crash(sim, &Cluster::server_host(machine));
        let mut disk = this.disk.lock().unwrap_or_else(PoisonError::into_inner);
        *disk = Disk {
            storage: SimStorage::new(seed),
            index: Arc::new(MemKv::with_journal()),
            number: disk.number + 1000,
        };
    }

    /// Flips a bit of a random block on a server's disk, used or free. False if the disk has no
    /// blocks yet.
    pub fn rot(&self, server: usize, dice: u64) -> bool {
        let machine = &self.servers[server];
        let blocks = machine.disk().storage.blocks(BLOCKS_FILE);
        if blocks.is_empty() {
            return false;
        }
        let block = blocks[(dice % blocks.len() as u64) as usize];
        let bit = (dice >> 32) % (BLOCK * 8);
        machine.flip(block * BLOCK + bit / 8, (bit % 8) as u8)
    }

    /// Flips a bit wherever a server's disk holds these bytes; returns how many places.
    pub fn rot_bytes(&self, server: usize, bytes: &[u8]) -> usize {
        let machine = &self.servers[server];
        let all = machine
            .disk()
            .storage
            .bytes(BLOCKS_FILE)
            .unwrap_or_default();
        let places = all.windows(bytes.len().max(1)).enumerate();
        places
            .filter(|(_, found)| *found == bytes)
            .filter(|(at, _)| machine.flip(*at as u64, 3))
            .count()
    }

    /// Ends the metadata service's process or its machine's power.
    pub fn strike_meta(&self, sim: &mut Sim<'_>, fault: Fault) {
        self.network.crash(sim, Cluster::META_HOST);
        if fault == Fault::PowerLoss {
            self.namespace.crash_power_loss();
        }
    }

    /// Starts a server again.
    pub fn revive_server(&self, sim: &mut Sim<'_>, server: usize) {
        sim.bounce(Cluster::server_host(server));
    }

    /// Starts the metadata service again.
    pub fn revive_meta(&self, sim: &mut Sim<'_>) {
        sim.bounce(Cluster::META_HOST);
    }
}

/// The surroundings of a process that starts; `lives` counts all of them.
fn life_env(lives: &AtomicU64, network: &SimNetwork) -> Env {
    let life = lives.fetch_add(1, Ordering::Relaxed);
    env(life.wrapping_mul(0x9e37_79b9_7f4a_7c15), network.clone())
}

async fn serve(
    env: Env,
    name: &str,
    io: Option<IoRole>,
    meta: Option<MetaRole>,
) -> Result<(), NodeError> {
    let config = NodeConfig {
        identity: Identity {
            key: KEY,
            volume: VOLUME,
            role: Role::Unspecified,
            client: 0,
            wire: Wire::Mac,
        },
        address: format!("0.0.0.0:{PORT}"),
        public_address: Some(format!("{name}:{PORT}")),
        io,
        meta,
        bounds: Bounds::default(),
    };
    let _node = Node::start(env, config).await?;
    std::future::pending().await
}
