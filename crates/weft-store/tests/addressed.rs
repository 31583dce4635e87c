//! Chunks that are named by the hash of their contents.
#![allow(missing_docs)]

use crate::common;

use std::collections::BTreeMap;

use bytes::Bytes;
use common::{CHECK_DATA, Machine, now, pattern, run};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_layout::FileId;
use weft_store::{ADDRESSED, ChunkName, Store, StoreError};

fn chunk(mark: u64, length: usize) -> (ChunkName, Bytes) {
    let data = Bytes::from(pattern(mark, length));
    (ChunkName::of(&data), data)
}

async fn got(store: &Store, name: &ChunkName) -> Result<Option<Vec<u8>>, StoreError> {
    let pieces = store.get_chunk(name).await?;
    Ok(pieces.map(|pieces| pieces.concat()))
}

/// All listed chunks, read page by page.
fn listed(store: &Store) -> Vec<(ChunkName, u64)> {
    let mut all: Vec<(ChunkName, u64)> = Vec::new();
    loop {
        let (page, more) = store.list_chunks(all.last().map(|(name, _)| name), 3);
        all.extend(page);
        if !more {
            return all;
        }
    }
}

/// Asserts that the used blocks are those of the listed chunks and no others.
async fn assert_no_leak(store: &Store, what: &str) {
    store.reclaim().await.unwrap();
    store.sync().await.unwrap();
    let listed = listed(store);
    let blocks = listed
        .iter()
        .map(|(_, length)| length.next_multiple_of(4096));
    assert_eq!(store.usage().used, blocks.sum::<u64>(), "{what}");
}

#[test]
fn equal_chunks_of_any_size_are_stored_once() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        let sizes = [1, 4095, 4096, 4097, 100_000, 256 << 10, 700_001];
        for (mark, size) in (0..).zip(sizes) {
            let (name, data) = chunk(mark, size);
            assert_eq!(got(&store, &name).await.unwrap(), None);
            assert!(store.put_chunk(&name, data.clone(), now()).await.unwrap());
            store.apply().await.unwrap();
            let before = (store.usage().used, store.counters().write_bytes);
            assert!(!store.put_chunk(&name, data.clone(), now()).await.unwrap());
            store.apply().await.unwrap();
            let after = (store.usage().used, store.counters().write_bytes);
            assert_eq!(before, after, "{size} bytes were stored twice");
            assert_eq!(got(&store, &name).await.unwrap().unwrap(), data);
        }
        assert_eq!(listed(&store).len(), sizes.len());
        assert_no_leak(&store, "all").await;
        // Chunks are not cells: a comparison of the store with a namespace skips them.
        let cells = store.list_forks(FileId(0), None, 100).unwrap();
        assert_eq!(cells, (vec![], false));
        assert_eq!(
            store.list_forks(ADDRESSED, None, 9).unwrap(),
            (vec![], false)
        );
        for (name, _) in listed(&store) {
            store.remove_chunk(&name).await.unwrap();
            store.remove_chunk(&name).await.unwrap();
            assert_eq!(got(&store, &name).await.unwrap(), None);
        }
        assert_no_leak(&store, "none").await;
        assert_eq!(store.usage().used, 0);
    });
}

#[test]
fn bytes_that_do_not_match_their_name_are_refused() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        let (name, data) = chunk(1, 5000);
        let mut other = data.to_vec();
        other[4999] ^= 1;
        let refused = store.put_chunk(&name, other.into(), now()).await;
        assert!(matches!(refused, Err(StoreError::WrongName { given, .. }) if given == name));
        for size in [0, (16 << 20) + 1] {
            let data = Bytes::from(vec![0; size]);
            let refused = store.put_chunk(&ChunkName::of(&data), data, now()).await;
            assert!(matches!(refused, Err(StoreError::BadChunkSize { .. })));
        }
        assert_eq!(listed(&store), []);
        assert_eq!(ChunkName::from_bytes(*name.as_bytes()), name);
    });
}

#[test]
fn concurrent_puts_of_one_chunk_write_it_once() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        let (name, data) = chunk(1, 100_000);
        let puts = (0..20).map(|_| store.put_chunk(&name, data.clone(), now()));
        let put = futures_util::future::try_join_all(puts).await.unwrap();
        assert_eq!(put.iter().filter(|new| **new).count(), 1);
        assert_eq!(store.counters().write_bytes, 100_000);
        assert_eq!(got(&store, &name).await.unwrap().unwrap(), data);
    });
}

/// Puts and removes chunks at random; returns the chunks that must and must not exist.
async fn work(store: &Store, rng: &mut SmallRng, sync: bool) -> BTreeMap<ChunkName, Option<u64>> {
    let mut known: BTreeMap<ChunkName, Option<u64>> = BTreeMap::new();
    for _ in 0..24 {
        let mark = rng.random_range(0..8_u64);
        let size = [700, 4096, 40_000, 90_001][mark as usize % 4];
        let (name, data) = chunk(mark, size);
        let there = if rng.random_bool(0.6) {
            store
                .put_chunk(&name, data, now())
                .await
                .map(|_| Some(mark))
        } else {
            store.remove_chunk(&name).await.map(|()| None)
        };
        let done = match there {
            Ok(there) if sync => store.sync().await.map(|()| there),
            done => done,
        };
        // After an error the chunk may or may not exist.
        let Ok(there) = done else {
            known.remove(&name);
            return known;
        };
        known.insert(name, there);
        if rng.random_bool(0.2) && store.apply().await.is_err() {
            return known;
        }
    }
    known
}

async fn assert_known(store: &Store, known: &BTreeMap<ChunkName, Option<u64>>, what: &str) {
    for (name, there) in known {
        let found = got(store, name).await.unwrap();
        assert_eq!(found.is_some(), there.is_some(), "{what}");
    }
    // Every existing chunk is whole.
    for (name, length) in listed(store) {
        let found = got(store, &name).await.unwrap().unwrap();
        assert_eq!(found.len() as u64, length, "{what}");
        assert_eq!(ChunkName::of(&found), name, "{what}");
    }
    assert_no_leak(store, what).await;
}

#[test]
fn a_crash_at_any_operation_leaves_whole_chunks_and_leaks_no_blocks() {
    run(async {
        for power in [false, true] {
            let mut at = 1;
            loop {
                let machine = Machine::new(at);
                let store = machine.open().await.unwrap();
                let begun = machine.disk.operations();
                machine.disk.die_at(begun + at);
                let known = work(&store, &mut SmallRng::seed_from_u64(at), power).await;
                drop(store);
                let died = machine.disk.is_dead();
                if power {
                    machine.lose_power(at);
                } else {
                    machine.kill(at);
                }
                let store = machine.open().await.unwrap();
                let what = format!("power {power}, operation {at}");
                assert_known(&store, &known, &what).await;
                if !died {
                    assert!(at > 20, "{what}: the process did not die");
                    break;
                }
                at += 1;
            }
        }
    });
}

#[test]
fn a_damaged_chunk_is_an_error_until_it_is_put_again() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        let (name, data) = chunk(1, 40_000);
        store.put_chunk(&name, data.clone(), now()).await.unwrap();
        store.apply().await.unwrap();
        store.drop_cache();
        let block = machine.disk.blocks("data")[3];
        assert!(machine.disk.flip("data", block * 4096 + 9, 2));
        let bad = got(&store, &name).await;
        assert!(matches!(bad, Err(StoreError::BadChecksum { file, .. }) if file == ADDRESSED));
        let (mut pass, mut found) = (store.check_begin().await.unwrap(), Vec::new());
        loop {
            let step = store.check(&mut pass, CHECK_DATA).await.unwrap();
            found.extend(step.findings);
            if step.done {
                break;
            }
        }
        let [(finding, None)] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(finding.key.fork.as_str(), name.to_string());
        store.remove_chunk(&name).await.unwrap();
        assert!(store.put_chunk(&name, data.clone(), now()).await.unwrap());
        assert_eq!(got(&store, &name).await.unwrap().unwrap(), data);
    });
}

#[test]
fn a_chunk_that_does_not_fit_leaves_nothing_behind() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        machine.disk.set_capacity(4 << 20);
        let mut put = Vec::new();
        let full = loop {
            let (name, data) = chunk(put.len() as u64, 300_000);
            match store.put_chunk(&name, data, now()).await {
                Ok(_) => put.push(name),
                Err(error) => break error,
            }
        };
        assert!(matches!(full, StoreError::NoSpace { .. }), "{full}");
        assert_eq!(listed(&store).len(), put.len());
        assert!(put.len() > 2);
        store.remove_chunk(&put[0]).await.unwrap();
        store.reclaim().await.unwrap();
        store.sync().await.unwrap();
        let (name, data) = chunk(77, 250_000);
        assert!(store.put_chunk(&name, data, now()).await.unwrap());
    });
}
