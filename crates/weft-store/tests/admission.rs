//! Writers that need more dirty pages and log than the bounds allow: all of them end, and none
//! delays small writes.
#![allow(missing_docs)]

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use common::{Machine, key, now, pattern, read, run, write};
use tokio::task::JoinSet;
use weft_layout::CellOffset;
use weft_store::{Run, Scattered, Store};

const CHUNK: u32 = 65536;
const PIECE: usize = 8;
const STRIDE: u64 = 4096;

/// Pieces of 8 bytes, each in another block: `count` blocks become dirty.
fn sparse(file: u64, count: u64, data: &[u8]) -> Vec<Scattered> {
    let run = Run {
        offset: CellOffset(0),
        at: 0,
        length: PIECE as u64,
        count,
        stride: STRIDE,
    };
    vec![Scattered {
        key: key(file, 0),
        chunk: CHUNK,
        runs: vec![run],
        data: Bytes::copy_from_slice(data),
    }]
}

/// The number of largest writers that are still writing; the others go on until it is 0.
#[derive(Clone)]
struct LargestWriters(Arc<AtomicUsize>);

impl LargestWriters {
    /// Whether the other writers continue. They must not starve the largest ones.
    fn are_there(&self, round: u64) -> bool {
        assert!(round < 20_000, "the largest writers starve");
        self.0.load(Relaxed) > 0
    }
}

/// Writes the same blocks again and again; returns the number of the last round.
async fn write_sparse(store: Store, file: u64, count: u64, more: impl Fn(u64) -> bool) -> u64 {
    let mut round = 0;
    while more(round) {
        round += 1;
        let data = pattern(file + round, count as usize * PIECE);
        store
            .write_scattered(sparse(file, count, &data), now())
            .await
            .unwrap();
        tokio::task::yield_now().await;
    }
    round
}

/// Makes blocks dirty and clears them again: this frees dirty pages without a flush.
async fn write_and_clear(store: Store, file: u64, more: impl Fn(u64) -> bool) {
    let mut round = 0;
    while more(round) {
        round += 1;
        let some = vec![write(&key(file, 0), CHUNK, 0, pattern(round, 20_000))];
        store.write(some, now()).await.unwrap();
        store
            .clear(&[(key(file, 0), 0..65536)], now())
            .await
            .unwrap();
        tokio::task::yield_now().await;
    }
}

#[test]
fn writers_that_exceed_the_bounds_finish_beside_others_and_lose_nothing() {
    for seed in 1..=4 {
        run(async {
            // 512 KiB of dirty pages, 1 MiB of log.
            let machine = Machine::new(seed);
            let store = machine.open().await.unwrap();
            let largest = LargestWriters(Arc::new(AtomicUsize::new(3)));
            let (mut sparse, mut clearing) = (JoinSet::new(), JoinSet::new());
            for file in 0..3 {
                // 800 KiB of dirty pages each, beyond the bound; 200 KiB; 40 KiB.
                let (store, left) = (store.clone(), largest.clone());
                let (s, l) = (store.clone(), left.clone());
                sparse.spawn(async move {
                    let last = write_sparse(s, 10 + file, 200, |round| round < 20).await;
                    l.0.fetch_sub(1, Relaxed);
                    (10 + file, 200, last)
                });
                for (file, count) in [(20 + file, 50), (30 + file, 10)] {
                    let (s, l) = (store.clone(), left.clone());
                    sparse.spawn(async move {
                        let last = write_sparse(s, file, count, |round| l.are_there(round)).await;
                        (file, count, last)
                    });
                }
                clearing.spawn(async move {
                    write_and_clear(store, 40 + file, |round| left.are_there(round)).await;
                });
            }
            // The clock advances only while no task can run.
            let ended = tokio::time::timeout(Duration::from_hours(1), async {
                clearing.join_all().await;
                sparse.join_all().await
            });
            for (file, count, last) in ended.await.expect("a writer never finishes") {
                let expected = pattern(file + last, count as usize * PIECE);
                let length = (count - 1) * STRIDE + PIECE as u64;
                let found = read(&store, &key(file, 0), 0, length).await.unwrap();
                let found: Vec<u8> = found
                    .chunks(STRIDE as usize)
                    .flat_map(|block| &block[..PIECE])
                    .copied()
                    .collect();
                assert_eq!(found, expected, "file {file}");
            }
            store.close().await.unwrap();
        });
    }
}

#[test]
fn small_writes_overtake_large_ones_that_wait_for_admission() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        let mut large = JoinSet::new();
        for file in 0..8 {
            large.spawn(write_sparse(store.clone(), 10 + file, 100, |round| {
                round < 20
            }));
        }
        let mut small = 0;
        while !large.is_empty() {
            tokio::select! {
                biased;
                done = large.join_next() => assert_eq!(done.unwrap().unwrap(), 20),
                done = store.write(vec![write(&key(1, 0), CHUNK, small * 10, vec![7; 10])], now()) => {
                    done.unwrap();
                    small += 1;
                    tokio::task::yield_now().await;
                }
            }
        }
        // Each large write fills most of the bound.
        assert!(small > 160, "{small} small writes beside 160 large ones");
        store.close().await.unwrap();
    });
}
