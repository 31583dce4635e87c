//! A whole volume inside the test's process: real sockets on loopback, real stores in a temporary
//! folder.

#![allow(dead_code)] // each test file uses a part of it

pub mod budget;
pub mod linear;
pub mod stopping;

use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use weft_client::{ConnectOptions, Volume};
use weft_kv::{FjallKv, FjallOptions, OrderedKv};
use weft_layout::{ServerId, Storage};
use weft_meta::{Namespace, VolumeSettings};
use weft_net::{Bounds, Env, Identity, VolumeKey, Wire};
use weft_proto::session::Role;
use weft_server::{Blocking, IoRole, MetaRole, Node, NodeConfig};
use weft_store::{FolderStorage, StoreConfig};

pub const KEY: VolumeKey = VolumeKey([42; 32]);
pub const VOLUME: [u8; 16] = [1; 16];

pub struct TestVolume {
    pub meta: Option<Node>,
    pub servers: Vec<Option<Node>>,
    pub meta_address: String,
    pub addresses: Vec<String>,
    folder: TempDir,
    env: Env,
}

fn identity() -> Identity {
    Identity {
        key: KEY,
        volume: VOLUME,
        role: Role::Unspecified,
        client: 0,
        wire: Wire::Mac,
    }
}

fn config(address: &str, io: Option<IoRole>, meta: Option<MetaRole>) -> NodeConfig {
    NodeConfig {
        identity: identity(),
        address: address.to_owned(),
        public_address: None,
        io,
        meta,
        bounds: Bounds::default(),
    }
}

async fn start_meta(env: Env, folder: &Path, address: &str) -> Node {
    let kv = Arc::new(FjallKv::open(folder.join("meta"), FjallOptions::default()).unwrap());
    let role = MetaRole {
        alone: false,
        kv,
        blocking: Blocking::Threads,
    };
    Node::start(env, config(address, None, Some(role)))
        .await
        .unwrap()
}

async fn start_server(env: Env, folder: &Path, id: u32, address: &str, meta: &str) -> Node {
    let folder = folder.join(format!("server-{id}"));
    let index = Arc::new(FjallKv::open(folder.join("index"), FjallOptions::default()).unwrap());
    let storage = Arc::new(FolderStorage::open(&folder.join("store")).unwrap());
    let mut store = StoreConfig::new(storage, index, "this boot".into());
    store.cache_bytes = 64 << 20;
    store.growth_bytes = 16 << 20;
    store.reserve_bytes = 1 << 20;
    let role = IoRole {
        server: id,
        replica: 0,
        store,
        store_id: Vec::new(),
        rebuild_rate: 0,
        code_after: weft_server::CODE_AFTER,
        meta_address: meta.to_owned(),
        metrics_address: String::new(),
    };
    Node::start(env, config(address, Some(role), None))
        .await
        .unwrap()
}

/// A random loopback address with any port. Outgoing connections start from 127.0.0.1, so none
/// takes the port while a server restarts.
fn own_address() -> String {
    let bits = Env::system().random_u64();
    let [a, b, c, ..] = bits.to_le_bytes();
    format!("127.{}.{b}.{}:0", a | 1, c.clamp(1, 254))
}

/// A view of a file of one cell, which is on one server.
pub async fn one_cell(volume: &Volume, path: &str) -> weft_client::OpenView {
    let layout = weft_client::NewLayout {
        cells: Some(1),
        ..weft_client::NewLayout::default()
    };
    let access = weft_client::Access::read_write()
        .create(0o644)
        .layout(&layout);
    let file = volume.attach(path, access).await.unwrap();
    file.canonical().unwrap()
}

/// Whether files are addressed unless a test asks for something else.
pub fn addressed() -> bool {
    std::env::var("WEFT_TEST_STORAGE").is_ok_and(|storage| storage == "addressed")
}

/// Its folder is removed once nothing writes into it any more: the nodes end in the background.
impl Drop for TestVolume {
    fn drop(&mut self) {
        self.meta = None;
        self.servers.clear();
        for _ in 0..100 {
            match std::fs::remove_dir_all(self.folder.path()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                _ => return,
            }
        }
    }
}

impl TestVolume {
    pub async fn start(servers: u32) -> TestVolume {
        TestVolume::start_with(servers, Env::system()).await
    }

    /// The metadata service takes its timing from `env`.
    pub async fn start_with(servers: u32, env: Env) -> TestVolume {
        let folder = tempfile::Builder::new()
            .prefix("weft-client-")
            .tempdir()
            .unwrap();
        {
            let kv = FjallKv::open(folder.path().join("meta"), FjallOptions::default()).unwrap();
            let settings = VolumeSettings {
                id: VOLUME,
                name: "test".into(),
                servers: (0..servers)
                    .map(|i| (ServerId(i), "127.0.0.1:1".into()))
                    .collect(),
                replicas: Vec::new(),
                uid: 0,
                gid: 0,
                mode: 0o777,
                now: 0,
            };
            Namespace::format(&kv, &settings).unwrap();
            kv.sync().unwrap();
        }
        let here = own_address();
        let meta = start_meta(env.clone(), folder.path(), &here).await;
        let meta_address = meta.address().to_owned();
        let mut nodes = Vec::new();
        for id in 0..servers {
            let node = start_server(env.clone(), folder.path(), id, &here, &meta_address).await;
            nodes.push(Some(node));
        }
        let addresses = nodes
            .iter()
            .flatten()
            .map(|n: &Node| n.address().to_owned())
            .collect();
        let volume = TestVolume {
            meta: Some(meta),
            servers: nodes,
            meta_address,
            addresses,
            folder,
            env,
        };
        volume.wait_until_up().await;
        volume.set_storage().await;
        volume
    }

    /// Makes new files addressed if `WEFT_TEST_STORAGE` says so: what these tests promise holds of
    /// both kinds.
    async fn set_storage(&self) {
        if addressed() {
            let layout = weft_client::NewLayout {
                storage: Some(Storage::Addressed),
                ..weft_client::NewLayout::default()
            };
            let changes = weft_client::Changes {
                layout: Some(layout),
                ..weft_client::Changes::default()
            };
            let client = self.client().await;
            client.set_attributes("/", &changes).await.unwrap();
        }
    }

    async fn wait_until_up(&self) {
        let client = self.client().await;
        for _ in 0..1000 {
            let map = client.server_map().await.unwrap();
            if map
                .servers
                .iter()
                .all(|s| s.state == weft_client::ServerState::Up as i32)
            {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("the servers do not come up");
    }

    pub fn options(&self) -> ConnectOptions {
        let mut options = ConnectOptions::new(self.meta_address.clone(), KEY);
        options.volume = VOLUME;
        options
    }

    pub async fn client(&self) -> Volume {
        Volume::connect(self.options()).await.unwrap()
    }

    pub async fn stop_server(&mut self, id: usize) {
        self.servers[id].take().unwrap().stop().await.unwrap();
    }

    pub async fn start_server(&mut self, id: usize) {
        let address = self.addresses[id].clone();
        let node = start_server(
            self.env.clone(),
            self.folder.path(),
            id as u32,
            &address,
            &self.meta_address,
        )
        .await;
        self.servers[id] = Some(node);
    }

    pub async fn stop_meta(&mut self) {
        self.meta.take().unwrap().stop().await.unwrap();
    }

    pub async fn restart_meta(&mut self) {
        self.meta.take().unwrap().stop().await.unwrap();
        self.meta =
            Some(start_meta(self.env.clone(), self.folder.path(), &self.meta_address).await);
    }

    pub async fn stop(mut self) {
        for node in self.servers.iter_mut().filter_map(Option::take) {
            node.stop().await.unwrap();
        }
        if let Some(meta) = self.meta.take() {
            meta.stop().await.unwrap();
        }
    }
}
