//! Truncations of files of many chunks: they take effect at one moment, and the chunks are emptied
//! in steps.
#![allow(missing_docs)]

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Machine, key, now, pattern, read, run, write};
use weft_layout::{CellOffset, FileId};
use weft_store::{Store, StoreError};

const CHUNK: u32 = 4096;
const CHUNKS: u64 = 300;

/// A machine whose truncations empty few chunks in a step.
fn machine(seed: u64) -> Machine {
    let mut machine = Machine::new(seed);
    machine.truncate_chunks = 16;
    machine
}

async fn fill(store: &Store, mark: u64, chunks: u64) -> Result<(), StoreError> {
    for n in (0..chunks).step_by(50) {
        let count = (chunks - n).min(50) as usize;
        let bytes = pattern(mark + n, count * CHUNK as usize);
        let one = write(&key(1, 0), CHUNK, n * u64::from(CHUNK), bytes);
        store.write(vec![one], now()).await?;
    }
    Ok(())
}

/// The bytes that [`fill`] writes.
fn filled(mark: u64, chunks: u64) -> Vec<u8> {
    let pieces = (0..chunks).step_by(50).map(|n| {
        let count = (chunks - n).min(50) as usize;
        pattern(mark + n, count * CHUNK as usize)
    });
    pieces.collect::<Vec<_>>().concat()
}

async fn truncate(store: &Store, length: u64, op: u64) -> Result<(), StoreError> {
    let lengths = vec![(key(1, 0), length)];
    store.truncate(FileId(1), lengths, op, now()).await
}

async fn whole(store: &Store) -> Vec<u8> {
    read(store, &key(1, 0), 0, 1 << 24).await.unwrap()
}

#[test]
fn a_long_truncation_is_visible_at_once_and_its_space_is_freed_in_the_background() {
    run(async {
        let machine = machine(1);
        let store = machine.open().await.unwrap();
        fill(&store, 1, CHUNKS).await.unwrap();
        store.apply().await.unwrap();
        store.drop_cache();
        truncate(&store, 10_000, 1).await.unwrap();
        let used = store.usage().used;
        assert!(
            used > 100 * u64::from(CHUNK),
            "{used}: nothing was deferred"
        );
        assert!(whole(&store).await == filled(1, CHUNKS)[..10_000]);
        let runs = store.data_runs(&key(1, 0), None, CellOffset(0), 1000).await;
        let runs = runs.unwrap().runs;
        assert!(runs.len() == 1 && runs[0] == (0..10_000), "{runs:?}");
        // An extension shows zeros, although the truncation is deferred.
        store
            .extend(&key(1, 0), CHUNK, 800_000, now())
            .await
            .unwrap();
        let mut expected = filled(1, CHUNKS)[..10_000].to_vec();
        expected.resize(800_000, 0);
        assert!(whole(&store).await == expected);
        store.apply().await.unwrap();
        assert_eq!(store.usage().used, 3 * u64::from(CHUNK));

        fill(&store, 2, CHUNKS).await.unwrap();
        truncate(&store, 5_000, 2).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        store.apply().await.unwrap();
        assert_eq!(store.usage().used, 2 * u64::from(CHUNK));
    });
}

#[test]
fn a_checkpoint_during_a_deferred_truncation_holds_the_truncated_file() {
    run(async {
        let machine = machine(2);
        let store = machine.open().await.unwrap();
        fill(&store, 1, CHUNKS).await.unwrap();
        store.checkpoint(FileId(1), 1, now()).await.unwrap();
        truncate(&store, 9_000, 2).await.unwrap();
        store.checkpoint(FileId(1), 3, now()).await.unwrap();
        fill(&store, 2, CHUNKS).await.unwrap();
        truncate(&store, 600_000, 4).await.unwrap();
        truncate(&store, 700_000, 5).await.unwrap();
        let check = async |store: &Store| {
            let kept = async |number| {
                let fork = key(1, 0);
                let found = store.read_checkpoint(&fork, number, CellOffset(0), 1 << 24);
                found.await.unwrap().concat()
            };
            assert!(kept(1).await == filled(1, CHUNKS));
            assert!(kept(3).await == filled(1, CHUNKS)[..9_000]);
            let mut now = filled(2, CHUNKS)[..600_000].to_vec();
            now.resize(700_000, 0);
            assert!(whole(store).await == now);
        };
        check(&store).await;
        drop(store);
        machine.kill(2);
        let store = machine.open().await.unwrap();
        check(&store).await;
        store.reclaim().await.unwrap();
        check(&store).await;
        store.roll_back(FileId(1), 3, 6, now()).await.unwrap();
        assert!(whole(&store).await == filled(1, CHUNKS)[..9_000]);
        for number in [1, 3] {
            let op = 6 + number;
            store.drop_checkpoint(FileId(1), number, op).await.unwrap();
        }
        store.reclaim().await.unwrap();
        assert_eq!(store.usage().used, 3 * u64::from(CHUNK));
        store.delete_file(FileId(1)).await.unwrap();
        store.reclaim().await.unwrap();
        assert_eq!(store.usage().used, 0);
    });
}

/// Truncates, extends and truncates again until the process dies at operation `at`; returns the
/// states, the index of the last synced one, and whether it died.
async fn story(machine: &Machine, at: u64) -> (Vec<Vec<u8>>, usize, bool) {
    let store = machine.open().await.unwrap();
    let mut states = vec![filled(1, 120)];
    fill(&store, 1, 120).await.unwrap();
    store.apply().await.unwrap();
    store.drop_cache();
    machine.disk.die_at(machine.disk.operations() + at);
    let mut synced = 0;
    for step in 0..6 {
        let mut next = states.last().unwrap().clone();
        let done = match step {
            0 => {
                next.truncate(10_000);
                truncate(&store, 10_000, 1).await
            }
            1 => store.sync().await,
            2 => store.apply().await,
            3 => {
                let bytes = pattern(77, 9_000);
                next.resize(200_000, 0);
                next.extend(&bytes);
                let one = write(&key(1, 0), CHUNK, 200_000, bytes);
                store.write(vec![one], now()).await
            }
            4 => {
                next.truncate(3_000);
                truncate(&store, 3_000, 2).await
            }
            _ => {
                next.resize(400_000, 0);
                store.extend(&key(1, 0), CHUNK, 400_000, now()).await
            }
        };
        states.push(next);
        if done.is_err() {
            return (states, synced, true);
        }
        if [1, 2].contains(&step) {
            synced = states.len() - 1;
        }
    }
    let died = machine.disk.is_dead();
    (states, synced, died)
}

#[test]
fn a_crash_at_any_operation_of_a_long_truncation_leaves_all_of_it_or_none() {
    for power in [false, true] {
        for at in 1.. {
            let machine = machine(at);
            let died = run(async {
                let (states, synced, died) = story(&machine, at).await;
                if power {
                    machine.lose_power(at);
                } else {
                    machine.kill(at);
                }
                let store = machine.open().await.unwrap();
                let found = whole(&store).await;
                let from = if power {
                    synced
                } else {
                    states.len() - 1 - usize::from(died)
                };
                let what = format!("at {at}, power {power}");
                assert!(states[from..].contains(&found), "{what}");
                // Beyond the length are zeros, and no block leaks.
                store
                    .extend(&key(1, 0), CHUNK, 600_000, now())
                    .await
                    .unwrap();
                let mut longer = found.clone();
                longer.resize(600_000, 0);
                assert!(whole(&store).await == longer, "{what}");
                truncate(&store, 0, 9).await.unwrap();
                store.reclaim().await.unwrap();
                assert_eq!(store.usage().used, 0, "{what}");
                died
            });
            if !died {
                assert!(at > 20, "{at}");
                break;
            }
        }
    }
}

/// A cache that holds fewer entries than the file has, and readers that evict them.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_truncation_larger_than_the_cache_completes_beside_readers() {
    let machine = Machine::new(4);
    let mut config = machine.config();
    config.cache_bytes = 1 << 20;
    config.log_bytes = 16 << 20;
    let store = Store::open(config).await.unwrap();
    fill(&store, 1, 12_000).await.unwrap();
    let other = vec![write(&key(2, 0), CHUNK, 0, pattern(9, 4 << 20))];
    store.write(other, now()).await.unwrap();
    store.apply().await.unwrap();
    store.drop_cache();
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2_u64)
        .map(|n| {
            let (store, stop) = (store.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut at = n * 40_000;
                while !stop.load(Ordering::Relaxed) {
                    at = (at + 70_001) % (4 << 20);
                    read(&store, &key(2, 0), at, 5_000).await.unwrap();
                }
            })
        })
        .collect();
    let truncated = tokio::time::timeout(Duration::from_mins(1), truncate(&store, 5_000, 1));
    truncated.await.expect("the truncation never ends").unwrap();
    assert!(whole(&store).await == filled(1, 50)[..5_000]);
    let fork = key(1, 0);
    let grown = store.extend(&fork, CHUNK, 1 << 20, now());
    let grown = tokio::time::timeout(Duration::from_mins(2), grown);
    grown
        .await
        .expect("the deferred truncation never ends")
        .unwrap();
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.unwrap();
    }
    let found = whole(&store).await;
    assert!(found[..5_000] == filled(1, 50)[..5_000] && found[5_000..].iter().all(|b| *b == 0));
}
