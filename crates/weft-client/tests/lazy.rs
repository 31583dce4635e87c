//! Operations acknowledged before they survive power loss: when they become durable, and their
//! speed.

use crate::common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{KEY, TestVolume, VOLUME};
use futures_util::future::join_all;
use weft_client::{Access, ConnectOptions, Volume};
use weft_kv::MemKv;
use weft_layout::ServerId;
use weft_meta::{Namespace, VolumeSettings};
use weft_net::{Bounds, Env, Identity, Wire};
use weft_proto::session::Role;
use weft_server::{Blocking, MetaRole, Node, NodeConfig};

/// A metadata service and its engine, whose synced state a test can inspect.
async fn service() -> (Arc<MemKv>, Node) {
    let kv = Arc::new(MemKv::new());
    let settings = VolumeSettings {
        id: VOLUME,
        name: "lazy".into(),
        servers: vec![(ServerId(0), "127.0.0.1:1".into())],
        replicas: Vec::new(),
        uid: 0,
        gid: 0,
        mode: 0o777,
        now: 0,
    };
    Namespace::format(&*kv, &settings).unwrap();
    let config = NodeConfig {
        identity: Identity {
            key: KEY,
            volume: VOLUME,
            role: Role::Unspecified,
            client: 0,
            wire: Wire::Mac,
        },
        address: "127.0.0.1:0".into(),
        public_address: None,
        io: None,
        meta: Some(MetaRole {
            alone: false,
            kv: kv.clone(),
            blocking: Blocking::Threads,
        }),
        bounds: Bounds::default(),
    };
    let node = Node::start(Env::system(), config).await.unwrap();
    (kv, node)
}

async fn client(node: &Node, lazy: bool) -> Volume {
    let mut options = ConnectOptions::new(node.address(), KEY);
    options.lazy = lazy;
    Volume::connect(options).await.unwrap()
}

/// The files that would survive a power loss now.
fn survivors(kv: &MemKv) -> u64 {
    let after = Arc::new(kv.clone_synced());
    Namespace::open(after).unwrap().counts().unwrap().files
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lazy_client_loses_at_most_a_second_and_nothing_it_synced() {
    let (kv, node) = service().await;
    let lazy = client(&node, true).await;
    let before = survivors(&kv);
    for i in 0..10 {
        lazy.make_directory(format!("/d{i}"), 0o755).await.unwrap();
    }
    assert!(
        kv.unsynced() > 0,
        "a lazy call was acknowledged only after a sync"
    );
    assert_eq!(survivors(&kv), before);
    lazy.sync_namespace().await.unwrap();
    assert_eq!(survivors(&kv), before + 10);

    lazy.make_directory("/later", 0o755).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        survivors(&kv),
        before + 11,
        "the service syncs within a second"
    );

    let durable = client(&node, false).await;
    durable.make_directory("/now", 0o755).await.unwrap();
    assert_eq!(
        survivors(&kv),
        before + 12,
        "a durable call is synced before its reply"
    );
    node.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_lost_to_power_loss_never_shares_its_id_with_a_later_one() {
    let (kv, node) = service().await;
    let lazy = client(&node, true).await;
    let lost = lazy.make_directory("/lost", 0o755).await.unwrap();
    let after = Arc::new(kv.clone_synced());
    node.stop().await.unwrap();
    let namespace = Namespace::open(after).unwrap();
    let request = weft_proto::meta::MakeDirectoryRequest {
        who: weft_proto::meta::Credentials::default(),
        target: weft_proto::meta::Target {
            at: weft_proto::meta::ROOT,
            path: "new".into(),
            follow: false,
        },
        mode: 0o755,
        umask: 0,
        lease: false,
    };
    let new = namespace.make_directory(1, &request).unwrap();
    assert!(new.attributes.id > lost.id);
}

/// Files created per second by `depth` concurrent workers.
async fn creates_per_second(volume: &Volume, folder: &str, depth: usize, seconds: f64) -> f64 {
    volume.make_directory(folder, 0o755).await.unwrap();
    let started = Instant::now();
    let workers = (0..depth).map(|worker| async move {
        let mut made = 0_u32;
        while started.elapsed().as_secs_f64() < seconds {
            let path = format!("{folder}/{worker}-{made}");
            let access = Access::write().create_new(0o644);
            // The file is dropped, not closed: the end of the attachment is reported during the
            // next create.
            drop(volume.attach(&path, access).await.unwrap());
            made += 1;
        }
        made
    });
    let made: u32 = join_all(workers).await.into_iter().sum();
    f64::from(made) / started.elapsed().as_secs_f64()
}

/// A measurement: `cargo test --release -p weft-client --test all lazy:: -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn creates_per_second_lazy_and_durable() {
    let test = TestVolume::start(1).await;
    for lazy in [false, true] {
        let mut options = test.options();
        options.lazy = lazy;
        let volume = Volume::connect(options).await.unwrap();
        for depth in [1, 2, 8] {
            let folder = format!("/{lazy}-{depth}");
            let rate = creates_per_second(&volume, &folder, depth, 3.0).await;
            println!("lazy {lazy}, depth {depth}: {rate:.0} creates/s");
        }
    }
    test.stop().await;
}
