//! Several disks: the spread of data, the cost of a lost disk, and the state after a crash.
#![allow(missing_docs)]

use crate::common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Machine, key, now, pattern, read, run, write};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_store::{DiskConfig, DiskState, Store, StoreConfig, StoreError};

const CHUNK: u32 = 65_536;

/// Disks of a machine by name and capacity, none of them a power of two.
fn config(machine: &Machine, disks: &[(&str, u64)], new: bool) -> StoreConfig {
    let mut config = machine.config();
    config.owner = "server-1 of volume 07".into();
    config.capacity = 1_000_000;
    for (name, capacity) in disks {
        config.disks.push(DiskConfig {
            path: format!("/mnt/{name}"),
            storage: Ok(Arc::new(machine.disk.disk(name))),
            new,
            capacity: *capacity,
            reserve: 0,
        });
    }
    config
}

const THREE: [(&str, u64); 3] = [("a", 3_000_000), ("b", 1_700_001), ("c", 2_222_222)];

async fn fill(store: &Store, file: u64, pieces: u64) {
    for n in 0..pieces {
        let data = pattern(file * 1000 + n, 60_000);
        let piece = write(&key(file, 0), CHUNK, n * 60_000, data);
        store.write(vec![piece], now()).await.unwrap();
    }
}

async fn check(store: &Store, file: u64, pieces: u64) -> Vec<StoreError> {
    let mut errors = Vec::new();
    for n in 0..pieces {
        match read(store, &key(file, 0), n * 60_000, 60_000).await {
            Ok(found) => assert!(found == pattern(file * 1000 + n, 60_000), "{file}, {n}"),
            Err(error) => errors.push(error),
        }
    }
    errors
}

#[test]
fn data_spreads_over_disks_by_their_free_space() {
    run(async {
        let machine = Machine::new(1);
        let store = Store::open(config(&machine, &THREE, true)).await.unwrap();
        for file in 0..40 {
            fill(&store, file, 2).await;
        }
        store.close().await.unwrap();
        // The labels identify the disks, not their order in the configuration.
        let turned = [THREE[2], THREE[0], THREE[1]];
        let store = Store::open(config(&machine, &turned, false)).await.unwrap();
        let disks = store.disks();
        assert_eq!(disks.len(), 4);
        assert_eq!(disks[1].path, "/mnt/a");
        for disk in &disks {
            let share = disk.used as f64 / (disk.used + disk.available) as f64;
            assert!((0.3..0.9).contains(&share), "{disk:?}");
            assert_eq!(disk.state, DiskState::InUse, "{disk:?}");
        }
        for file in 0..40 {
            assert_eq!(check(&store, file, 2).await, []);
        }
    });
}

#[test]
fn a_failed_disk_gets_no_new_data_and_writes_continue() {
    run(async {
        let machine = Machine::new(2);
        let store = Store::open(config(&machine, &THREE, true)).await.unwrap();
        for file in 10..30 {
            fill(&store, file, 2).await;
        }
        // After this, partly dirty pages are only in the cache.
        store.apply().await.unwrap();
        machine.disk.disk("b").set_broken(true);
        // Large pieces are written directly, small ones through the log and a flush.
        fill(&store, 2, 20).await;
        for n in 0..40 {
            let data = pattern(n, 5000);
            let piece = write(&key(3, 0), CHUNK, n * 5000, data);
            store.write(vec![piece], now()).await.unwrap();
        }
        assert_eq!(check(&store, 2, 20).await, []);
        let b = &store.disks()[2];
        assert_eq!((b.state, b.available), (DiskState::Failed, 0), "{b:?}");
        assert!(b.reason.contains("broken") && b.errors > 0, "{b:?}");
        // Reads of its blocks fail with an error that names their place. Other blocks are readable.
        store.drop_cache();
        let mut errors = Vec::new();
        for file in 10..30 {
            errors.extend(check(&store, file, 2).await);
        }
        assert!(!errors.is_empty() && errors.len() < 20, "{errors:?}");
        for error in &errors {
            let StoreError::DiskFailed {
                file, disk, shown, ..
            } = error
            else {
                panic!("{error}")
            };
            assert!((10..30).contains(&file.0) && *disk == 2, "{error}");
            assert_eq!(shown, "disk 2 (/mnt/b)");
        }
        assert_eq!(check(&store, 2, 20).await, []);
        assert!(
            small_pieces(&store).await,
            "pieces that went through the log and a flush"
        );
    });
}

/// Whether file 3 has its forty pieces of 5,000 bytes.
async fn small_pieces(store: &Store) -> bool {
    let mut right = true;
    for n in 0..40 {
        let found = read(store, &key(3, 0), n * 5000, 5000).await;
        right &= found.is_ok_and(|found| found == pattern(n, 5000));
    }
    right
}

/// Each operation of a flush fails once. If it is a write of pages, they stay dirty and go to
/// another disk.
#[test]
fn a_disk_that_fails_during_a_flush_loses_no_dirty_page() {
    let (mut failed, mut at) = (0, 0);
    loop {
        at += 1;
        let done = run(async {
            let machine = Machine::new(2);
            let store = Store::open(config(&machine, &THREE, true)).await.unwrap();
            fill(&store, 2, 4).await;
            store.apply().await.unwrap();
            for n in 0..40 {
                let piece = write(&key(3, 0), CHUNK, n * 5000, pattern(n, 5000));
                store.write(vec![piece], now()).await.unwrap();
            }
            let last = machine.disk.operations() + at;
            machine.disk.fail_at(last, std::io::ErrorKind::Other);
            let applied = store.apply().await;
            let disks = store.disks();
            let bad = disks.iter().find(|d| d.state == DiskState::Failed);
            if let Some(bad) = bad.filter(|d| d.reason.starts_with("write")) {
                failed += 1;
                applied.unwrap();
                let used: u64 = disks.iter().map(|d| d.used).sum();
                assert!(used >= 200_000 && bad.errors == 1, "{disks:?}");
                store.drop_cache();
                assert!(small_pieces(&store).await, "failure at {at}");
                drop(store);
                machine.kill(at);
                let store = Store::open(config(&machine, &THREE, false)).await.unwrap();
                assert!(small_pieces(&store).await, "failure at {at}, opened again");
                assert_eq!(check(&store, 2, 4).await, []);
            }
            machine.disk.operations() < last
        });
        if done {
            break;
        }
    }
    assert!(failed > 0, "none of {at} operations was a write of pages");
}

#[test]
fn a_disk_missing_after_power_loss_truncates_the_log_before_its_unsynced_blocks() {
    let mut truncated_in_the_middle = 0;
    for seed in 0..10 {
        run(async {
            let machine = Machine::new(seed);
            let store = Store::open(config(&machine, &THREE, true)).await.unwrap();
            for file in 10..20 {
                fill(&store, file, 2).await;
            }
            store.sync().await.unwrap();
            for n in 0..seed {
                fill(&store, 50 + n, 1).await;
                store.sync().await.unwrap();
            }
            for file in 20..40 {
                fill(&store, file, 1).await;
            }
            drop(store);
            machine.kill(seed);
            machine.lose_power_but_no_bytes();
            let two = [THREE[0], THREE[2]];
            let store = Store::open(config(&machine, &two, false)).await.unwrap();
            assert_eq!(store.disks()[2].state, DiskState::Missing);
            // Synced files are kept; reads of bytes on the missing disk are errors.
            let mut errors = Vec::new();
            for file in 10..20 {
                errors.extend(check(&store, file, 2).await);
            }
            assert!(!errors.is_empty() && errors.len() < 20, "{errors:?}");
            let there = |e: &StoreError| matches!(e, StoreError::DiskFailed { disk: 2, .. });
            assert!(errors.iter().all(there), "{errors:?}");
            // Of the unsynced writes a prefix survives, none of it on the missing disk.
            let mut whole = 0;
            for file in 20..40 {
                if store.status(&key(file, 0)).await.unwrap().is_some() {
                    assert_eq!(check(&store, file, 1).await, []);
                    whole += 1;
                    assert_eq!(
                        whole,
                        file - 19,
                        "a file survives although an earlier one was dropped"
                    );
                }
            }
            assert!(whole < 20, "the log was not truncated");
            truncated_in_the_middle += u64::from(whole > 0);
            store.close().await.unwrap();
            let store = Store::open(config(&machine, &THREE, false)).await.unwrap();
            for file in 10..20 {
                assert_eq!(check(&store, file, 2).await, []);
            }
            for file in 20..20 + whole {
                assert_eq!(check(&store, file, 1).await, []);
            }
        });
    }
    assert!(
        truncated_in_the_middle > 0,
        "every log was truncated at its first frame"
    );
}

#[test]
fn a_missing_disk_costs_only_its_blocks_until_it_is_back() {
    run(async {
        let machine = Machine::new(3);
        let store = Store::open(config(&machine, &THREE, true)).await.unwrap();
        fill(&store, 1, 40).await;
        store.close().await.unwrap();
        let two = [THREE[0], THREE[2]];
        let store = Store::open(config(&machine, &two, false)).await.unwrap();
        assert_eq!(store.disks()[2].state, DiskState::Missing);
        let errors = check(&store, 1, 40).await;
        assert!(!errors.is_empty() && errors.len() < 40);
        fill(&store, 2, 10).await;
        // An empty disk, such as one that is not mounted, does not take its place.
        store.close().await.unwrap();
        let empty = [THREE[0], ("empty", 1_000_000), THREE[2]];
        let store = Store::open(config(&machine, &empty, false)).await.unwrap();
        assert_eq!(store.disks()[2].state, DiskState::Missing);
        store.close().await.unwrap();
        // A new disk gets a new number.
        let store = Store::open(config(&machine, &empty, true)).await.unwrap();
        let numbers: Vec<u16> = store.disks().iter().map(|d| d.number).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
        store.close().await.unwrap();
        let all = [THREE[0], THREE[1], THREE[2], ("empty", 1_000_000)];
        let store = Store::open(config(&machine, &all, false)).await.unwrap();
        assert_eq!(check(&store, 1, 40).await, []);
        assert_eq!(check(&store, 2, 10).await, []);
    });
}

#[test]
fn a_disk_of_another_store_is_refused() {
    run(async {
        let machine = Machine::new(4);
        let store = Store::open(config(&machine, &THREE, true)).await.unwrap();
        store.close().await.unwrap();
        let mut other = config(&machine, &THREE, true);
        other.owner = "server-2 of volume 07".into();
        let refused = Store::open(other).await.map(drop);
        assert!(
            matches!(refused, Err(StoreError::Disk { .. })),
            "{refused:?}"
        );
    });
}

#[test]
fn a_store_of_one_disk_can_grow_to_several() {
    run(async {
        let machine = Machine::new(5);
        let store = Store::open(config(&machine, &[], false)).await.unwrap();
        fill(&store, 1, 10).await;
        store.close().await.unwrap();
        let store = Store::open(config(&machine, &THREE, true)).await.unwrap();
        fill(&store, 2, 60).await;
        assert_eq!(check(&store, 1, 10).await, []);
        assert_eq!(check(&store, 2, 60).await, []);
    });
}

/// Adding disks dies at every operation; the store then opens with every disk once.
#[test]
fn after_a_crash_while_disks_are_added_the_next_opening_adds_them() {
    for at in 1..40 {
        for power in [false, true] {
            run(async {
                let machine = Machine::new(at);
                let store = Store::open(config(&machine, &[], false)).await.unwrap();
                fill(&store, 1, 5).await;
                store.close().await.unwrap();
                machine.disk.die_at(machine.disk.operations() + at);
                let opened = Store::open(config(&machine, &THREE, true)).await;
                drop(opened);
                if power {
                    machine.lose_power(at);
                } else {
                    machine.kill(at);
                }
                let store = Store::open(config(&machine, &THREE, true)).await.unwrap();
                assert_eq!(store.disks().len(), 4, "death at {at}, power {power}");
                assert_eq!(check(&store, 1, 5).await, []);
                fill(&store, 2, 20).await;
                assert_eq!(check(&store, 2, 20).await, []);
            });
        }
    }
}

/// Writes at random places on three disks, with kills, power losses and failing disks.
#[test]
fn crashes_of_a_store_of_several_disks_leave_a_prefix_of_its_writes() {
    let cases = std::env::var("WEFT_CASES").map_or(20, |n| n.parse().unwrap());
    let from = std::env::var("WEFT_SEED").map_or(0, |n| n.parse().unwrap());
    for seed in from..from + cases {
        run(lives(seed));
    }
}

type State = BTreeMap<u64, u64>;

async fn lives(seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let machine = Machine::new(seed);
    let mut states: Vec<State> = vec![State::new()];
    for life in 0..4_u64 {
        machine.disk.disk("a").set_broken(false);
        let store = Store::open(config(&machine, &THREE, true)).await.unwrap();
        let mut synced = states.len() - 1;
        machine
            .disk
            .die_at(machine.disk.operations() + rng.random_range(1..150));
        let breaks = rng.random_range(0..120);
        for n in 0..60_u64 {
            if n == breaks {
                machine.disk.disk("a").set_broken(true);
            }
            let mark = seed * 10_000 + life * 100 + n;
            let slot = rng.random_range(0..30_u64);
            let length = if rng.random_bool(0.5) { 60_000 } else { 700 };
            let piece = write(&key(1, 0), CHUNK, slot * 60_000, pattern(mark, length));
            let mut next = states.last().unwrap().clone();
            next.insert(slot, mark * 2 + u64::from(length == 700));
            let done = store.write(vec![piece], now()).await;
            if done.is_ok() || machine.disk.is_dead() {
                states.push(next);
            }
            if done.is_err() {
                break;
            }
            if rng.random_bool(0.1) {
                if store.sync().await.is_err() {
                    break;
                }
                synced = states.len() - 1;
            }
        }
        drop(store);
        machine.disk.disk("a").set_broken(false);
        let power = rng.random_bool(0.5);
        if power {
            machine.lose_power(rng.random());
        } else {
            machine.kill(rng.random());
        }
        let store = Store::open(config(&machine, &THREE, true)).await.unwrap();
        let from = if power {
            synced
        } else {
            states.len().saturating_sub(2)
        };
        let mut fits = None;
        for (i, state) in states.iter().enumerate().skip(from).rev() {
            if holds(&store, state, &states[..=i]).await {
                fits = Some(i);
                break;
            }
        }
        let fits = fits.unwrap_or_else(|| panic!("seed {seed}, life {life}, power {power}"));
        states.truncate(fits + 1);
        store.close().await.unwrap();
    }
}

/// Whether the store shows this state, where short pieces overwrite the start of earlier long ones.
async fn holds(store: &Store, state: &State, before: &[State]) -> bool {
    for slot in state.keys() {
        let found = read(store, &key(1, 0), slot * 60_000, 60_000).await;
        let mut found = found.unwrap();
        // Otherwise a fork that is too short would compare equal.
        found.resize(60_000, 0);
        let mut expected = vec![0; 60_000];
        let mut last = None;
        for earlier in before {
            let now = earlier.get(slot).copied();
            if now != last
                && let Some(mark) = now
            {
                let length = if mark % 2 == 1 { 700 } else { 60_000 };
                expected[..length].copy_from_slice(&pattern(mark / 2, length));
            }
            last = now;
        }
        if expected != found {
            return false;
        }
    }
    true
}
