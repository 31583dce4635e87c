//! The store beside raw direct I/O on the same disk, in the same run.
//!
//! `cargo run --release -p weft-store --example store_bench -- FOLDER [MiB]`
//!
//! Raw figures use the store's own storage seam (io_uring, direct I/O, pooled buffers) at the same
//! sizes and depth, on a file allocated the same way, so that the difference is the store.
#![allow(missing_docs)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use weft_kv::{FjallKv, FjallOptions, OrderedKv};
use weft_layout::{CellIndex, CellOffset, FileId};
use weft_store::{
    BLOCK, FileKind, FolderStorage, ForkKey, ForkName, INDEX_SPACES, Pool, Slice, Storage, Store,
    StoreConfig, Timestamp, Write,
};

const MIB: u64 = 1 << 20;
const DEPTH: usize = 8;

fn key(file: u64) -> ForkKey {
    ForkKey {
        file: FileId(file),
        cell: CellIndex(0),
        fork: ForkName::data(),
    }
}

fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / MIB as f64 / time.as_secs_f64()
}

/// Runs `count` operations with at most `depth` under way.
async fn at_depth<F: Future<Output = ()> + Send + 'static>(
    depth: usize,
    count: u64,
    operation: impl Fn(u64) -> F,
) {
    let mut running = FuturesUnordered::new();
    for n in 0..count {
        if running.len() >= depth {
            running.next().await;
        }
        running.push(tokio::spawn(operation(n)));
    }
    while running.next().await.is_some() {}
}

async fn raw_write(storage: &FolderStorage, name: &str, size: u64, total: u64) -> Duration {
    let pool = Pool::new();
    let file = storage.open(name, FileKind::Data).unwrap();
    file.allocate(total).unwrap();
    let buffers = |n: u64| -> Vec<Slice> {
        let unit = 16 * BLOCK as u64;
        (0..size / unit)
            .map(|_| {
                let mut buffer = pool.take(16);
                buffer[0] = n as u8;
                let length = buffer.len();
                Slice::new(Arc::new(buffer), 0..length)
            })
            .collect()
    };
    let warm: Vec<_> = (0..DEPTH as u64 * 2).map(buffers).collect();
    drop(warm);
    let start = Instant::now();
    at_depth(DEPTH, total / size, |n| {
        let (file, slices) = (Arc::clone(&file), buffers(n));
        async move { file.write_at(n * size, slices).await.unwrap() }
    })
    .await;
    file.sync().await.unwrap();
    start.elapsed()
}

async fn raw_read(storage: &FolderStorage, name: &str, size: u64, total: u64) -> Duration {
    let pool = Pool::new();
    let file = storage.open(name, FileKind::Data).unwrap();
    // Touched once, as the store's buffers have been.
    drop(
        (0..DEPTH as u64 * 2 * size.div_ceil(65536))
            .map(|_| pool.take(16))
            .collect::<Vec<_>>(),
    );
    let start = Instant::now();
    let unit = 16 * BLOCK as u64;
    at_depth(DEPTH, total / size, |n| {
        let file = Arc::clone(&file);
        let buffers = if size < unit {
            vec![pool.take(1)]
        } else {
            (0..size / unit).map(|_| pool.take(16)).collect()
        };
        async move { drop(file.read_at(n * size, buffers).await.unwrap()) }
    })
    .await;
    start.elapsed()
}

async fn store_write(store: &Store, file: u64, size: u64, total: u64) -> Duration {
    let data = Bytes::from(vec![7_u8; size as usize]);
    let start = Instant::now();
    at_depth(DEPTH, total / size, |n| {
        let (store, data) = (store.clone(), data.clone());
        async move {
            let write = Write {
                key: key(file),
                chunk: 256 << 10,
                offset: CellOffset(n * size),
                data,
            };
            store.write(vec![write], Timestamp(1)).await.unwrap();
        }
    })
    .await;
    store.sync().await.unwrap();
    start.elapsed()
}

async fn store_read(store: &Store, file: u64, size: u64, total: u64) -> Duration {
    let start = Instant::now();
    at_depth(DEPTH, total / size, |n| {
        let store = store.clone();
        async move {
            let read = store
                .read(&key(file), CellOffset(n * size), size)
                .await
                .unwrap();
            assert_eq!(read.iter().map(Bytes::len).sum::<usize>(), size as usize);
        }
    })
    .await;
    start.elapsed()
}

fn share(what: &str, bytes: u64, raw: Duration, store: Duration) {
    let (r, s) = (rate(bytes, raw), rate(bytes, store));
    println!(
        "{what:<34} raw {r:>7.0} MiB/s   store {s:>7.0} MiB/s   {:>4.0} %",
        s / r * 100.0
    );
}

async fn run(folder: &Path, total: u64) {
    let raw = FolderStorage::open(&folder.join("raw")).unwrap();
    let disk: Arc<dyn Storage> = Arc::new(FolderStorage::open(&folder.join("store")).unwrap());
    let index: Arc<dyn OrderedKv> =
        Arc::new(FjallKv::open(folder.join("index"), FjallOptions::default()).unwrap());
    let mut config = StoreConfig::new(disk, index, "bench".into());
    config.cache_bytes = 512 * MIB;
    let store = Store::open(config).await.unwrap();
    assert_eq!(INDEX_SPACES.len(), 4);

    let warm = 512 * MIB;
    println!(
        "warming: {:.0} MiB/s",
        rate(warm, store_write(&store, 1, MIB, warm).await)
    );
    for (round, size) in [(0, MIB), (1, 256 << 10), (2, MIB), (3, 256 << 10)] {
        let name = format!("data{round}");
        let r = raw_write(&raw, &name, size, total).await;
        let s = store_write(&store, 10 + round, size, total).await;
        share(
            &format!("write {} KiB depth 8 + sync", size >> 10),
            total,
            r,
            s,
        );
        store.drop_cache();
        let r = raw_read(&raw, &name, size, total).await;
        let s = store_read(&store, 10 + round, size, total).await;
        share(
            &format!("cold read {} KiB depth 8", size >> 10),
            total,
            r,
            s,
        );
        let _ = raw.remove(&name);
    }
    store.drop_cache();
    let some = 64 * MIB;
    raw_write(&raw, "small", MIB, some).await;
    let r = raw_read(&raw, "small", 4096, some).await;
    let s = store_read(&store, 10, 4096, some).await;
    share("cold read 4 KiB depth 8", some, r, s);
    let s = store_read(&store, 10, 4096, some).await;
    println!(
        "warm read 4 KiB: {:.2} µs each",
        s.as_secs_f64() * 1e6 / (some / 4096) as f64
    );
    let s = store_read(&store, 10, MIB, 64 * MIB).await;
    println!(
        "warm read 1 MiB: {:.2} µs each",
        s.as_secs_f64() * 1e6 / 64.0
    );
    small(&store).await;
    synced(&raw, &store).await;
    println!("{:?}", store.counters());
    println!("buffers {} MiB", store.buffer_bytes() / MIB);
    store.close().await.unwrap();
}

async fn small(store: &Store) {
    for (size, step, batch) in [
        (64_u64, 64, 1_u64),
        (64, 128, 64),
        (64, 128, 1024),
        (4096, 4096, 1),
    ] {
        let data = Bytes::from(vec![3_u8; size as usize]);
        let count = 60_000 / batch * batch;
        let start = Instant::now();
        for n in (0..count).step_by(batch as usize) {
            let writes = (n..n + batch).map(|i| Write {
                key: key(100 + size + batch),
                chunk: 256 << 10,
                offset: CellOffset(i * step),
                data: data.clone(),
            });
            store.write(writes.collect(), Timestamp(1)).await.unwrap();
        }
        let each = start.elapsed().as_secs_f64() * 1e6 / count as f64;
        println!("{size} byte writes unsynced, {batch} per batch: {each:.2} µs each");
    }
}

async fn synced(raw: &FolderStorage, store: &Store) {
    const WRITES: u64 = 4000;
    const LARGE: u64 = 256 * MIB;
    let pool = Pool::new();
    let file = raw.open("synced", FileKind::Data).unwrap();
    file.allocate(LARGE).unwrap();
    let mut rng = SmallRng::seed_from_u64(1);
    let places: Arc<Vec<u64>> = Arc::new(
        (0..WRITES)
            .map(|_| rng.random_range(0..LARGE / 4096) * 4096)
            .collect(),
    );
    let start = Instant::now();
    at_depth(16, WRITES, |n| {
        let (file, places, buffer) = (Arc::clone(&file), Arc::clone(&places), pool.take(1));
        async move {
            file.write_at(
                places[n as usize],
                vec![Slice::new(Arc::new(buffer), 0..BLOCK)],
            )
            .await
            .unwrap();
            file.sync().await.unwrap();
        }
    })
    .await;
    let r = start.elapsed();
    let data = Bytes::from(vec![9_u8; 4096]);
    let start = Instant::now();
    at_depth(16, WRITES, |n| {
        let (store, places, data) = (store.clone(), Arc::clone(&places), data.clone());
        async move {
            let write = Write {
                key: key(500),
                chunk: 256 << 10,
                offset: CellOffset(places[n as usize]),
                data,
            };
            store.write(vec![write], Timestamp(1)).await.unwrap();
            store.sync().await.unwrap();
        }
    })
    .await;
    let s = start.elapsed();
    let per = |t: Duration| WRITES as f64 / t.as_secs_f64();
    println!(
        "4 KiB random write + sync, depth 16: raw {:.0}/s   store {:.0}/s   {:.0} %",
        per(r),
        per(s),
        per(s) / per(r) * 100.0
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder on the disk to measure");
    let total = arguments
        .next()
        .map_or(1024, |n| n.parse().expect("a number of MiB"))
        * MIB;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run(Path::new(&folder), total));
}
