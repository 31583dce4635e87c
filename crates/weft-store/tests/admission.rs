//! Writers that want more dirty pages and log than there may be: all of them end, and none holds up the small ones.
#![allow(missing_docs)]

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{Machine, key, now, pattern, read, run, write};
use tokio::task::JoinSet;
use weft_layout::CellOffset;
use weft_store::{Run, Scattered, Store};

const CHUNK: u32 = 65536;
const PIECE: usize = 8;
const STRIDE: u64 = 4096;

/// Pieces of 8 bytes, each in a block of its own: `count` blocks become dirty.
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

async fn write_sparse(store: Store, file: u64, count: u64, times: u64) {
    for round in 0..times {
        let data = pattern(file + round, count as usize * PIECE);
        store
            .write_scattered(sparse(file, count, &data), now())
            .await
            .unwrap();
        tokio::task::yield_now().await;
    }
}

/// Makes dirty blocks and takes them away again: room that comes without a flush.
async fn write_and_clear(store: Store, file: u64) {
    for round in 0..200 {
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
fn writers_that_want_more_than_all_the_room_end_beside_others_and_lose_nothing() {
    for seed in 1..=8 {
        run(async {
            // 512 KiB of dirty pages, 1 MiB of log.
            let machine = Machine::new(seed);
            let store = machine.open().await.unwrap();
            let mut all = JoinSet::new();
            for file in 0..3 {
                // 800 KiB of dirty pages each, more than there may be; 200 KiB; 40 KiB.
                all.spawn(write_sparse(store.clone(), 10 + file, 200, 20));
                all.spawn(write_sparse(store.clone(), 20 + file, 50, 80));
                all.spawn(write_sparse(store.clone(), 30 + file, 10, 300));
                all.spawn(write_and_clear(store.clone(), 40 + file));
            }
            // Time passes only while nobody has anything to do.
            let ended = tokio::time::timeout(Duration::from_hours(1), async {
                while let Some(done) = all.join_next().await {
                    done.unwrap();
                }
            });
            ended.await.expect("nobody waits for ever");
            for (first, count, last) in [(10, 200, 19), (20, 50, 79), (30, 10, 299)] {
                for file in first..first + 3 {
                    let length = count as usize * PIECE;
                    let expected = pattern(file + last, length);
                    let length = (count - 1) * STRIDE + PIECE as u64;
                    let found = read(&store, &key(file, 0), 0, length).await.unwrap();
                    let found: Vec<u8> = found
                        .chunks(STRIDE as usize)
                        .flat_map(|block| &block[..PIECE])
                        .copied()
                        .collect();
                    assert_eq!(found, expected, "file {file}");
                }
            }
            store.close().await.unwrap();
        });
    }
}

#[test]
fn small_writes_pass_large_ones_that_wait_for_room() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        let mut large = JoinSet::new();
        for file in 0..8 {
            large.spawn(write_sparse(store.clone(), 10 + file, 100, 20));
        }
        let mut small = 0;
        while !large.is_empty() {
            tokio::select! {
                biased;
                done = large.join_next() => done.unwrap().unwrap(),
                done = store.write(vec![write(&key(1, 0), CHUNK, small * 10, vec![7; 10])], now()) => {
                    done.unwrap();
                    small += 1;
                    tokio::task::yield_now().await;
                }
            }
        }
        // Each of the large ones fills most of what there may be.
        assert!(small > 160, "{small} small writes beside 160 large ones");
        store.close().await.unwrap();
    });
}
