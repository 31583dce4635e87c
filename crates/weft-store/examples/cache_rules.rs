//! What each rule of the cache does to the programs it is for: the same work with the rule and
//! without it, in turns.
//!
//! `cargo run --release -p weft-store --example cache_rules -- FOLDER [RULE]`
//!
//! The table of `docs/caching.md`. The cache has 128 MiB; each turn is a new store.
#![allow(missing_docs)]

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::task::JoinSet;
use weft_kv::{FjallKv, FjallOptions};
use weft_layout::{CellIndex, CellOffset, FileId};
use weft_store::{
    CacheRules, FolderStorage, ForkKey, ForkName, INDEX_MEMTABLE, Run, Scattered, Store,
    StoreConfig, Timestamp, Write,
};

const MIB: u64 = 1 << 20;
const CACHE: u64 = 128 * MIB;
const CHUNK: u32 = 1 << 20;
const BLOCK: u64 = 4096;
const PAGE: u64 = 64 << 10;
const TURNS: usize = 3;

/// What was measured: a name with its unit, and the figure.
type Figures = Vec<(&'static str, f64)>;
type Work = Pin<Box<dyn Future<Output = Figures> + Send>>;

struct Case {
    rule: &'static str,
    program: &'static str,
    without: CacheRules,
    work: fn(Store) -> Work,
}

fn key(file: u64) -> ForkKey {
    ForkKey {
        file: FileId(file),
        cell: CellIndex(0),
        fork: ForkName::data(),
    }
}

async fn write(store: &Store, file: u64, offset: u64, data: Bytes) {
    let write = Write {
        key: key(file),
        chunk: CHUNK,
        offset: CellOffset(offset),
        data,
    };
    store.write(vec![write], Timestamp(1)).await.unwrap();
}

async fn read(store: &Store, file: u64, offset: u64, length: u64) {
    let read = store.read(&key(file), CellOffset(offset), length).await;
    let bytes: usize = read.unwrap().iter().map(Bytes::len).sum();
    assert_eq!(bytes as u64, length);
}

/// A file on the disk, and nothing of it in the cache.
async fn cold(store: &Store, file: u64, length: u64) {
    let data = Bytes::from(vec![5; MIB as usize]);
    for offset in (0..length).step_by(MIB as usize) {
        write(store, file, offset, data.clone()).await;
    }
    store.sync().await.unwrap();
    store.drop_cache();
}

fn rate(bytes: u64, since: Instant) -> f64 {
    bytes as f64 / MIB as f64 / since.elapsed().as_secs_f64()
}

fn longest(times: &[Duration]) -> f64 {
    let longest = times.iter().max().copied().unwrap_or_default();
    longest.as_secs_f64() * 1e3
}

/// A table of 32 MiB of which some of each page is looked up, while a large file streams by.
fn tables_beside_streams(store: Store) -> Work {
    Box::pin(async move {
        const TABLE: u64 = 32 * MIB;
        const STREAM: u64 = 1024 * MIB;
        cold(&store, 1, TABLE).await;
        cold(&store, 2, STREAM).await;
        let mut rng = SmallRng::seed_from_u64(1);
        for page in 0..TABLE / PAGE {
            read(&store, 1, page * PAGE + BLOCK, BLOCK).await;
        }
        let (mut lookups, mut spent, mut missed) = (0_u64, Duration::ZERO, 0);
        let start = Instant::now();
        for offset in (0..STREAM).step_by(2 * MIB as usize) {
            read(&store, 2, offset, 2 * MIB).await;
            let (before, began) = (store.counters().cache_misses, Instant::now());
            let page = rng.random_range(0..TABLE / PAGE);
            read(&store, 1, page * PAGE + BLOCK, BLOCK).await;
            lookups += 1;
            spent += began.elapsed();
            missed += store.counters().cache_misses - before;
        }
        vec![
            (
                "look-ups that miss, %",
                missed as f64 * 100.0 / lookups as f64,
            ),
            ("µs a look-up", spent.as_secs_f64() * 1e6 / lookups as f64),
            ("stream, MiB/s", rate(STREAM, start)),
        ]
    })
}

fn small_records_in_order(store: Store) -> Work {
    Box::pin(async move {
        const LENGTH: u64 = 48 * MIB;
        let data = Bytes::from(vec![7; BLOCK as usize]);
        let start = Instant::now();
        for offset in (0..LENGTH).step_by(BLOCK as usize) {
            write(&store, 1, offset, data.clone()).await;
        }
        let written = rate(LENGTH, start);
        // As a server does it when a client wants its pages gone.
        let settle = Instant::now();
        store.release(&key(1), CellOffset(0), LENGTH).await.unwrap();
        vec![
            ("MiB/s", written),
            (
                "then ms until all is in its place",
                settle.elapsed().as_secs_f64() * 1e3,
            ),
        ]
    })
}

fn small_writes_anywhere(store: Store) -> Work {
    Box::pin(async move {
        const LENGTH: u64 = 512 * MIB;
        const EACH: u64 = 16_000;
        cold(&store, 1, LENGTH).await;
        let data = Bytes::from(vec![7; BLOCK as usize]);
        let start = Instant::now();
        let writers = (0..4).map(|seed| {
            let (store, data) = (store.clone(), data.clone());
            tokio::spawn(async move {
                let mut rng = SmallRng::seed_from_u64(seed);
                let mut times = Vec::with_capacity(EACH as usize);
                for _ in 0..EACH {
                    let began = Instant::now();
                    let block = rng.random_range(0..LENGTH / BLOCK);
                    write(&store, 1, block * BLOCK, data.clone()).await;
                    times.push(began.elapsed());
                }
                times
            })
        });
        let times: Vec<_> = join_all(writers).await;
        let times: Vec<_> = times.into_iter().flat_map(Result::unwrap).collect();
        vec![
            (
                "writes/s",
                times.len() as f64 / start.elapsed().as_secs_f64(),
            ),
            ("longest, ms", longest(&times)),
        ]
    })
}

/// Large calls of many small pieces, more than there may be dirty, and small writes beside them.
fn small_beside_large(store: Store) -> Work {
    Box::pin(async move {
        const PIECES: u64 = 8192;
        const CALLS: u64 = 6;
        let mut large = JoinSet::new();
        for file in 0..4 {
            let store = store.clone();
            large.spawn(async move {
                for _ in 0..CALLS {
                    let run = Run {
                        offset: CellOffset(0),
                        at: 0,
                        length: 64,
                        count: PIECES,
                        stride: BLOCK,
                    };
                    let scattered = Scattered {
                        key: key(10 + file),
                        chunk: CHUNK,
                        runs: vec![run],
                        data: Bytes::from(vec![3; 64 * PIECES as usize]),
                    };
                    let written = store.write_scattered(vec![scattered], Timestamp(1));
                    written.await.unwrap();
                }
            });
        }
        let data = Bytes::from(vec![1; 64]);
        let (start, mut times) = (Instant::now(), Vec::new());
        while !large.is_empty() {
            let began = Instant::now();
            write(&store, 1, times.len() as u64 * 64, data.clone()).await;
            times.push(began.elapsed());
            while let Some(done) = large.try_join_next() {
                done.unwrap();
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        let jobs = 4 * CALLS * PIECES;
        vec![
            ("longest small write, ms", longest(&times)),
            ("small writes beside", times.len() as f64),
            (
                "pieces of the large, 1000/s",
                jobs as f64 / 1e3 / start.elapsed().as_secs_f64(),
            ),
        ]
    })
}

/// Four clients, each with every fourth record.
fn sweep_by_four(store: Store) -> Work {
    Box::pin(async move {
        const LENGTH: u64 = 256 * MIB;
        cold(&store, 1, LENGTH).await;
        let before = store.counters();
        let start = Instant::now();
        let readers = (0..4).map(|reader| {
            let store = store.clone();
            tokio::spawn(async move {
                for offset in (reader * 16_384..LENGTH).step_by(4 * 16_384) {
                    read(&store, 1, offset, 16_384).await;
                }
            })
        });
        join_all(readers).await.into_iter().for_each(Result::unwrap);
        let swept = rate(LENGTH, start);
        let reads = store.counters().disk_reads - before.disk_reads;
        vec![("MiB/s", swept), ("reads of the disk", reads as f64)]
    })
}

fn reads_anywhere(store: Store) -> Work {
    Box::pin(async move {
        const LENGTH: u64 = 512 * MIB;
        const EACH: u64 = 1_000;
        cold(&store, 1, LENGTH).await;
        let before = store.counters().disk_read_bytes;
        let start = Instant::now();
        let readers = (0..16).map(|seed| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut rng = SmallRng::seed_from_u64(seed);
                for _ in 0..EACH {
                    let block = rng.random_range(0..LENGTH / BLOCK);
                    read(&store, 1, block * BLOCK, BLOCK).await;
                }
            })
        });
        join_all(readers).await.into_iter().for_each(Result::unwrap);
        let all = (16 * EACH) as f64;
        let per_second = all / start.elapsed().as_secs_f64();
        let bytes = (store.counters().disk_read_bytes - before) as f64;
        vec![
            ("reads/s", per_second),
            (
                "bytes from the disk for each that is asked for",
                bytes / all / BLOCK as f64,
            ),
        ]
    })
}

/// Eight clients read the same file.
fn broadcast(store: Store) -> Work {
    Box::pin(async move {
        const LENGTH: u64 = 96 * MIB;
        cold(&store, 1, LENGTH).await;
        let before = store.counters().disk_read_bytes;
        let start = Instant::now();
        let readers = (0..8).map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                for offset in (0..LENGTH).step_by(256 << 10) {
                    read(&store, 1, offset, 256 << 10).await;
                }
            })
        });
        join_all(readers).await.into_iter().for_each(Result::unwrap);
        let read = rate(8 * LENGTH, start);
        let bytes = store.counters().disk_read_bytes - before;
        vec![
            ("MiB/s of all", read),
            ("times that the file is read", bytes as f64 / LENGTH as f64),
        ]
    })
}

/// 1 MiB at a time by four, then a sync.
fn large_writes(store: Store) -> Work {
    Box::pin(async move {
        const EACH: u64 = 96 * MIB;
        let start = Instant::now();
        let writers = (0..4).map(|file| {
            let store = store.clone();
            tokio::spawn(async move {
                let data = Bytes::from(vec![7; MIB as usize]);
                for offset in (0..EACH).step_by(MIB as usize) {
                    write(&store, file + 1, offset, data.clone()).await;
                }
                store.sync().await.unwrap();
            })
        });
        join_all(writers).await.into_iter().for_each(Result::unwrap);
        vec![("MiB/s", rate(4 * EACH, start))]
    })
}

fn cases() -> Vec<Case> {
    let all = CacheRules::default();
    let case = |rule, program, without, work| Case {
        rule,
        program,
        without,
        work,
    };
    vec![
        case(
            "hold",
            "a table of 32 MiB looked into while 1 GiB streams by, a look-up each 2 MiB",
            CacheRules { hold: false, ..all },
            tables_beside_streams,
        ),
        case(
            "write_behind",
            "48 MiB in records of 4 KiB in order",
            CacheRules {
                write_behind: false,
                ..all
            },
            small_records_in_order,
        ),
        case(
            "low_water",
            "64,000 writes of 4 KiB anywhere in 512 MiB, by four",
            CacheRules {
                low_water: false,
                ..all
            },
            small_writes_anywhere,
        ),
        case(
            "turns",
            "writes of 64 bytes beside four jobs of 49,152 pieces each, a block apart, 8,192 in a call",
            CacheRules {
                admission: false,
                ..all
            },
            small_beside_large,
        ),
        case(
            "prefetch",
            "256 MiB cold, records of 16 KiB, dealt out among four",
            CacheRules {
                prefetch: false,
                ..all
            },
            sweep_by_four,
        ),
        case(
            "prefetch",
            "16,000 cold reads of 4 KiB anywhere in 512 MiB, by sixteen",
            CacheRules {
                prefetch: false,
                ..all
            },
            reads_anywhere,
        ),
        case(
            "share",
            "eight read the same 96 MiB, cold, 256 KiB at a time",
            CacheRules {
                share_reads: false,
                ..all
            },
            broadcast,
        ),
        case(
            "direct",
            "384 MiB in writes of 1 MiB by four, each with a sync at its end",
            CacheRules {
                direct: false,
                ..all
            },
            large_writes,
        ),
    ]
}

async fn turn(base: &Path, rules: CacheRules, work: fn(Store) -> Work) -> Figures {
    let folder = tempfile::tempdir_in(base).unwrap();
    let options = FjallOptions {
        memtable: INDEX_MEMTABLE,
        ..FjallOptions::default()
    };
    let index = FjallKv::open(folder.path().join("index"), options).unwrap();
    let storage = FolderStorage::open(&folder.path().join("store")).unwrap();
    let mut config = StoreConfig::new(Arc::new(storage), Arc::new(index), "bench".into());
    config.cache_bytes = CACHE;
    config.growth_bytes = 256 * MIB;
    config.reserve_bytes = 0;
    config.rules = rules;
    let store = Store::open(config).await.unwrap();
    let figures = work(store.clone()).await;
    store.close().await.unwrap();
    figures
}

/// The middle one of the turns.
fn median(turns: &[Figures], figure: usize) -> f64 {
    let mut all: Vec<f64> = turns.iter().map(|turn| turn[figure].1).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

async fn run(base: &Path, wanted: Option<&str>) {
    let cases = cases();
    for case in cases.iter().filter(|c| wanted.is_none_or(|w| w == c.rule)) {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            with.push(turn(base, CacheRules::default(), case.work).await);
            without.push(turn(base, case.without, case.work).await);
        }
        println!("{}: {}", case.rule, case.program);
        for (n, (what, _)) in with[0].iter().enumerate() {
            let (with, without) = (median(&with, n), median(&without, n));
            println!("  {what}: {with:.1} with, {without:.1} without");
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder on the disk to measure");
    let rule = arguments.next();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run(Path::new(&folder), rule.as_deref()));
}
