//! Crashes during an application of the log: rows of the tables in `docs/design/0003-store.md` and
//! `0007-checkpoints.md`.
//!
//! The process may die at each write and each sync of the index, as at each operation of a disk.
#![allow(missing_docs)]

use crate::common;

use common::{CHECK_DATA, Machine, key, now, pattern, read, run, write};
use weft_layout::FileId;
use weft_store::Store;

/// Kills the process, or cuts the power.
fn end(machine: &Machine, power: bool, seed: u64) {
    if power {
        machine.lose_power(seed);
    } else {
        machine.kill(seed);
    }
}

async fn put(store: &Store, file: u64, length: usize) {
    let data = pattern(file, length);
    let one = vec![write(&key(file, 0), 65_536, 0, data)];
    store.write(one, now()).await.unwrap();
}

async fn holds(store: &Store, file: u64, bytes: &[u8]) -> bool {
    read(store, &key(file, 0), 0, 1 << 24).await.unwrap() == bytes
}

async fn assert_sound(store: &Store, what: &str) {
    let mut pass = store.check_begin().await.unwrap();
    loop {
        let step = store.check(&mut pass, CHECK_DATA).await.unwrap();
        assert_eq!(step.findings, [], "{what}");
        if step.done {
            return;
        }
    }
}

/// Dies at every operation of an application of the log, those of the index included.
fn apply_dies(power: bool) {
    let (mut at, mut alive) = (0, false);
    let (mut writes, mut syncs) = (0, 0);
    while !alive {
        at += 1;
        run(async {
            let machine = Machine::new(at);
            let store = machine.open().await.unwrap();
            put(&store, 1, 300_000).await;
            put(&store, 2, 5000).await;
            put(&store, 3, 5000).await;
            store.sync().await.unwrap();
            store.delete_file(FileId(3)).await.unwrap();
            machine.disk.die_at(machine.disk.operations() + at);
            alive = store.apply().await.is_ok() && !machine.disk.is_dead();
            let deaths = machine.index.deaths();
            writes += deaths.get("write").unwrap_or(&0);
            syncs += deaths.get("sync").unwrap_or(&0);
            end(&machine, power, at);
            let store = machine.open().await.unwrap();
            let all = [(1, 300_000), (2, 5000)];
            for (file, length) in all {
                assert!(holds(&store, file, &pattern(file, length)).await, "{at}");
            }
            store.apply().await.unwrap();
            store.drop_cache();
            for (file, length) in all {
                assert!(holds(&store, file, &pattern(file, length)).await, "{at}");
            }
            assert_sound(&store, &format!("death at {at}")).await;
        });
    }
    assert!(
        at > 10 && writes >= 2 && syncs >= 1,
        "{at}: {writes}, {syncs}"
    );
}

#[test]
fn a_killed_flush_or_application_is_repeated_with_the_same_result() {
    apply_dies(false);
}

#[test]
fn a_flush_or_application_cut_by_power_loss_is_repeated_with_the_same_result() {
    apply_dies(true);
}

const SMALL: u32 = 4096;
/// More chunks than a batch of the index holds and than a step of a merge moves.
const CHUNKS: u64 = 1100;

/// A file with a dropped checkpoint whose space is not yet freed; every second chunk was written
/// again after the checkpoint. Returns the file's bytes.
async fn dropped(store: &Store) -> Vec<u8> {
    let mut bytes = pattern(1, CHUNKS as usize * SMALL as usize);
    let all = vec![write(&key(1, 0), SMALL, 0, bytes.clone())];
    store.write(all, now()).await.unwrap();
    store.apply().await.unwrap();
    store.checkpoint(FileId(1), 100, now()).await.unwrap();
    let mut again = Vec::new();
    for n in (0..CHUNKS).step_by(2) {
        let at = n * u64::from(SMALL);
        let data = pattern(n + 2, 3000);
        bytes[at as usize..][..3000].copy_from_slice(&data);
        again.push(write(&key(1, 0), SMALL, at, data));
    }
    store.write(again, now()).await.unwrap();
    store.sync().await.unwrap();
    store.drop_checkpoint(FileId(1), 100, 101).await.unwrap();
    bytes
}

#[test]
fn a_merge_with_only_some_entries_in_the_index_is_repeated_with_the_same_result() {
    let steps = run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        dropped(&store).await;
        let from = machine.disk.operations();
        store.reclaim().await.unwrap();
        machine.index.steps(from + 1)
    });
    let mut between = 0;
    for at in &steps {
        for (power, seed) in [(false, 0), (true, 1), (true, 2), (true, 3)] {
            run(async {
                let what = format!("death at {at}, power {power}, seed {seed}");
                let machine = Machine::new(1);
                let store = machine.open().await.unwrap();
                let bytes = dropped(&store).await;
                machine.disk.die_at(*at);
                assert!(store.reclaim().await.is_err(), "{what}");
                let dead = machine.index.deaths();
                assert_eq!(dead.values().sum::<u64>(), 1, "{what}: {dead:?}");
                between += u64::from(dead.contains_key("write") && machine.index.unsynced() > 0);
                end(&machine, power, seed);
                let store = machine.open().await.unwrap();
                assert!(holds(&store, 1, &bytes).await, "{what}");
                assert_sound(&store, &what).await;
                // After a power loss the checkpoint may still be there.
                store.drop_checkpoint(FileId(1), 100, 102).await.unwrap();
                store.reclaim().await.unwrap();
                store.drop_cache();
                assert!(holds(&store, 1, &bytes).await, "{what}");
                assert_eq!(store.usage().used, CHUNKS * u64::from(SMALL), "{what}");
                assert_eq!(machine.index.count("chunks"), CHUNKS as usize, "{what}");
                assert_sound(&store, &what).await;
            });
        }
    }
    assert!(
        between >= 12,
        "{between} deaths between batches, of {} steps",
        steps.len()
    );
}
