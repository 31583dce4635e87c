//! Free space is returned to the host without losing data.
#![allow(missing_docs)]

use crate::common;

use std::time::Duration;

use common::{Machine, key, now, pattern, read, run, write};
use weft_layout::FileId;
use weft_store::{Store, StoreConfig, StoreError};

const CHUNK: u32 = 1 << 20;
const MIB: u64 = 1 << 20;
/// Bytes of a file.
const LENGTH: u64 = 2 * MIB;
const SPARE: u64 = MIB;

fn config(machine: &Machine) -> StoreConfig {
    let mut config = machine.config();
    config.spare_bytes = SPARE;
    config
}

async fn open(machine: &Machine) -> Store {
    Store::open(config(machine)).await.unwrap()
}

async fn put(store: &Store, file: u64) -> Result<(), StoreError> {
    let one = write(&key(file, 0), CHUNK, 0, pattern(file, LENGTH as usize));
    store.write(vec![one], now()).await
}

async fn expect(store: &Store, file: u64, when: &str) {
    let found = read(store, &key(file, 0), 0, LENGTH).await;
    let found = found.unwrap_or_else(|error| panic!("{when}: file {file}: {error}"));
    assert!(
        found == pattern(file, LENGTH as usize),
        "{when}: file {file}"
    );
}

/// Writes twelve files and deletes eight of them.
async fn fill_and_delete(store: &Store) {
    for file in 1..=12 {
        put(store, file).await.unwrap();
    }
    for file in (1..=12).filter(|file| file % 3 != 0) {
        store.delete_file(FileId(file)).await.unwrap();
    }
    store.sync().await.unwrap();
}

async fn expect_rest(store: &Store, when: &str) {
    for file in [3, 6, 9, 12] {
        expect(store, file, when).await;
    }
}

/// The most bytes that the host may hold: those stored, a twentieth of them, and the spare for the
/// next writes.
fn bound(store: &Store) -> u64 {
    let used = store.usage().used;
    used + used / 20 + SPARE
}

fn held(machine: &Machine) -> u64 {
    machine.disk.held("data").unwrap()
}

#[test]
fn free_blocks_are_returned_to_the_host_a_minute_after_the_last_change() {
    run(async {
        let machine = Machine::new(1);
        let store = open(&machine).await;
        fill_and_delete(&store).await;
        assert!(held(&machine) > 24 * MIB, "there is no space to return");
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(store.usage().used, 4 * LENGTH);
        let held = held(&machine);
        assert!(held <= bound(&store), "{held} of {}", bound(&store));
        expect_rest(&store, "a minute later").await;
        for file in 21..=32 {
            put(&store, file).await.unwrap();
        }
        for file in 21..=32 {
            expect(&store, file, "written into returned blocks").await;
        }
        expect_rest(&store, "after new writes").await;
    });
}

#[test]
fn trim_returns_free_blocks_at_once() {
    run(async {
        let machine = Machine::new(2);
        let store = open(&machine).await;
        fill_and_delete(&store).await;
        let trimmed = store.trim().await.unwrap();
        assert_eq!(trimmed.held, held(&machine));
        assert!(trimmed.bytes >= 14 * MIB, "{trimmed:?}");
        assert!(trimmed.held <= bound(&store), "{trimmed:?}");
        let again = store.trim().await.unwrap();
        assert_eq!(again.bytes, 0, "everything was already returned");
        expect_rest(&store, "after a trim").await;
    });
}

#[test]
fn many_small_free_extents_are_returned_too() {
    run(async {
        let machine = Machine::new(8);
        let store = open(&machine).await;
        // Blocks of two files in turns, so that no two of one file are adjacent.
        for at in 0..512 {
            for file in [1, 2] {
                let data = pattern(at, 32 << 10);
                let one = write(&key(file, 0), CHUNK, at * (32 << 10), data);
                store.write(vec![one], now()).await.unwrap();
            }
        }
        store.delete_file(FileId(1)).await.unwrap();
        store.trim().await.unwrap();
        let held = held(&machine);
        assert!(held <= bound(&store), "{held} of {}", bound(&store));
    });
}

#[test]
fn returned_blocks_count_as_available_only_while_the_host_has_space() {
    run(async {
        let machine = Machine::new(3);
        machine.disk.set_capacity(64 * MIB);
        let store = open(&machine).await;
        let before = store.usage();
        fill_and_delete(&store).await;
        store.trim().await.unwrap();
        let after = store.usage();
        assert_eq!(after.used, 4 * LENGTH);
        assert!(
            after.capacity.abs_diff(before.capacity) <= MIB,
            "{before:?} {after:?}"
        );
        // Other programs take the host's space.
        machine.disk.set_capacity(held(&machine) + 2 * MIB);
        assert!(
            store.usage().available <= SPARE + 3 * MIB,
            "{:?}",
            store.usage()
        );
        let mut stored = Vec::new();
        let refused = loop {
            let file = 40 + stored.len() as u64;
            match put(&store, file).await {
                Ok(()) => stored.push(file),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, StoreError::NoSpace { .. }), "{refused}");
        for file in stored {
            expect(&store, file, "on a full host").await;
        }
        expect_rest(&store, "on a full host").await;
        machine.disk.set_capacity(64 * MIB);
        put(&store, 60).await.unwrap();
    });
}

/// Dies at an operation of a trim, or of the writes into the blocks that it returned; returns
/// false if there was no such operation.
async fn crash_at(at: u64, power: bool) -> bool {
    let machine = Machine::new(1000 + at);
    let store = open(&machine).await;
    fill_and_delete(&store).await;
    let begun = machine.disk.operations();
    machine.disk.die_at(begun + at);
    // Either fails once the process is dead.
    let mut written = Vec::new();
    if store.trim().await.is_ok() {
        for file in 21..=24 {
            if put(&store, file).await.is_err() || store.sync().await.is_err() {
                break;
            }
            written.push(file);
        }
    }
    let died = machine.disk.is_dead();
    drop(store);
    if power {
        machine.lose_power(at);
    } else {
        machine.kill(at);
    }
    let when = format!("operation {at}, power loss {power}");
    let store = open(&machine).await;
    expect_rest(&store, &when).await;
    for file in written {
        expect(&store, file, &when).await;
    }
    for file in 31..=36 {
        put(&store, file).await.unwrap();
        expect(&store, file, &when).await;
    }
    store.trim().await.unwrap();
    let held = held(&machine);
    assert!(held <= bound(&store), "{when}: {held} of {}", bound(&store));
    for file in 31..=36 {
        expect(&store, file, &when).await;
    }
    expect_rest(&store, &when).await;
    died
}

#[test]
fn a_crash_at_every_operation_of_a_trim_loses_nothing() {
    for power in [false, true] {
        let mut at = 1;
        while run(crash_at(at, power)) {
            at += 1;
        }
        assert!(at > 20, "only {at} operations");
    }
}

#[test]
fn a_trimmed_store_opens_with_the_same_available_space() {
    run(async {
        let machine = Machine::new(5);
        machine.disk.set_capacity(64 * MIB);
        let store = open(&machine).await;
        fill_and_delete(&store).await;
        store.trim().await.unwrap();
        let before = store.usage();
        store.close().await.unwrap();
        drop(store);
        let store = open(&machine).await;
        let after = store.usage();
        assert_eq!(after.used, before.used);
        let difference = after.available.abs_diff(before.available);
        assert!(difference <= MIB, "{before:?} {after:?}");
        assert!(held(&machine) <= bound(&store));
        expect_rest(&store, "opened again").await;
        for file in 21..=32 {
            put(&store, file).await.unwrap();
            expect(&store, file, "opened again").await;
        }
    });
}

#[test]
fn a_truncation_and_dirty_pages_find_blocks_when_the_host_is_full_at_opening() {
    run(async {
        let machine = Machine::new(6);
        let store = open(&machine).await;
        fill_and_delete(&store).await;
        store.trim().await.unwrap();
        let small = write(&key(3, 0), CHUNK, 100, pattern(9, 700));
        store.write(vec![small], now()).await.unwrap();
        drop(store);
        machine.kill(6);
        machine.disk.set_capacity(held(&machine) + 4 * MIB);
        let store = open(&machine).await;
        assert_eq!(
            read(&store, &key(3, 0), 100, 700).await.unwrap(),
            pattern(9, 700)
        );
        store.apply().await.unwrap();
        store
            .truncate(FileId(6), vec![(key(6, 0), 1_000_001)], 1, now())
            .await
            .unwrap();
        let found = read(&store, &key(6, 0), 0, 1_000_001).await.unwrap();
        assert!(found == pattern(6, LENGTH as usize)[..1_000_001]);
    });
}
