//! Properties that only show at size: contiguity of files that grow side by side, and the time of a
//! restart.
#![allow(missing_docs)]

use crate::common;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{key, now, write};
use weft_kv::{FjallKv, FjallOptions};
use weft_store::{FolderStorage, INDEX_MEMTABLE, Store, StoreConfig, StoreError};

fn config(folder: &Path) -> Result<StoreConfig, StoreError> {
    let options = FjallOptions {
        memtable: INDEX_MEMTABLE,
        ..FjallOptions::default()
    };
    let index = FjallKv::open(folder.join("index"), options)?;
    let storage = FolderStorage::open(&folder.join("store"))?;
    let mut config = StoreConfig::new(Arc::new(storage), Arc::new(index), "boot".into());
    config.cache_bytes = 256 << 20;
    config.growth_bytes = 256 << 20;
    config.reserve_bytes = 0;
    Ok(config)
}

/// Appends to eight files in turn, 64 KiB at a time; returns the mean run on the disk, in bytes.
async fn side_by_side(each: u64) -> u64 {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Store::open(config(folder.path()).unwrap()).await.unwrap();
    let data = Bytes::from(vec![7; 65_536]);
    let writers = (0..8_u64).map(|file| {
        let (store, data) = (store.clone(), data.clone());
        tokio::spawn(async move {
            for n in 0..each / 65_536 {
                let piece = write(&key(file, 0), 262_144, n * 65_536, data.clone());
                store.write(vec![piece], now()).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let c = store.counters();
    c.placed_blocks * 4096 / c.placed_runs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_grow_side_by_side_stay_contiguous() {
    let mean = side_by_side(32 << 20).await;
    assert!(mean >= 4 << 20, "mean run: {mean} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes 8 GiB"]
async fn files_of_a_gibibyte_that_grow_side_by_side_stay_contiguous() {
    let mean = side_by_side(1 << 30).await;
    println!("mean run: {mean} bytes");
    assert!(mean >= 4 << 20, "mean run: {mean} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes 4 GiB"]
async fn a_store_of_a_million_chunks_opens_after_a_kill_in_two_seconds() {
    let chunks: u64 = std::env::var("WEFT_CHUNKS").map_or(1_000_000, |n| n.parse().unwrap());
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Store::open(config(folder.path()).unwrap()).await.unwrap();
    // The smallest chunks, to have many of them in few bytes.
    let data = Bytes::from(vec![7; 1 << 20]);
    let started = Instant::now();
    for n in 0..chunks / 256 {
        let piece = write(&key(n / 64, 0), 4096, (n % 64) << 20, data.clone());
        store.write(vec![piece], now()).await.unwrap();
    }
    store.sync().await.unwrap();
    let before = store.usage();
    let written = started.elapsed();
    // The store is neither closed nor applied, as after a kill.
    drop(store);
    let (index, took, store) = reopen(folder.path()).await;
    println!("{chunks} chunks, written in {written:?}: index {index:?}, all {took:?}");
    assert_eq!(store.usage().used, before.used);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures"]
async fn a_log_of_small_writes_is_replayed_in_two_seconds() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Store::open(config(folder.path()).unwrap()).await.unwrap();
    let mut log = 0;
    for (size, batch, count) in [(64_u64, 1024, 1 << 20), (4096, 16, 1 << 16)] {
        let data = Bytes::from(vec![3; size as usize]);
        for n in (0..count).step_by(batch as usize) {
            // An odd factor makes the order of blocks random.
            let at = |i: u64| (i * 40_503) % count * size * 2;
            let piece = |i| write(&key(size, 0), 262_144, at(i), data.clone());
            let pieces = (n..n + batch).map(piece).collect();
            store.write(pieces, now()).await.unwrap();
        }
        log = store.counters().log_bytes;
    }
    drop(store);
    let (index, took, _store) = reopen(folder.path()).await;
    println!("small writes, {log} bytes logged: index {index:?}, all {took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// Opens a store that was dropped; returns the time of the index, the whole time, and the store.
async fn reopen(folder: &Path) -> (Duration, Duration, Store) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let (config, started) = loop {
        let started = Instant::now();
        match config(folder) {
            Ok(config) => break (config, started),
            Err(_) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    };
    let index = started.elapsed();
    let store = Store::open(config).await.unwrap();
    (index, started.elapsed(), store)
}
