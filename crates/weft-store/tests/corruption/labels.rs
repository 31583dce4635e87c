//! Damage to labels and records of disks, to the store's record and to notes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::common::{Machine, key, now, pattern, run, write};
use super::{NOTE, agrees, blocks, config, history, open};
use weft_store::{
    DiskConfig, DiskState, RepairMode, Store, StoreConfig, StoreError, repair_closed,
};

/// Three labelled disks beside the store's folder.
fn three(machine: &Machine, new: bool) -> StoreConfig {
    let mut config = machine.config();
    config.owner = "server-1 of volume 07".into();
    config.capacity = 0;
    for name in ["a", "b", "c"] {
        config.disks.push(DiskConfig {
            path: format!("/mnt/{name}"),
            storage: Ok(Arc::new(machine.disk.disk(name))),
            new,
            capacity: 4 << 20,
            reserve: 0,
        });
    }
    config
}

const FILES: u64 = 12;

async fn filled(machine: &Machine) {
    let store = Store::open(three(machine, true)).await.unwrap();
    for file in 0..FILES {
        let one = write(&key(file, 0), 65_536, 0, pattern(file, 100_000));
        store.write(vec![one], now()).await.unwrap();
    }
    store.close().await.unwrap();
    assert!(store.disks().iter().all(|d| d.number == 0 || d.used > 0));
}

async fn assert_whole(store: &Store, what: &str) {
    for disk in &store.disks()[1..] {
        let path = ["/mnt/a", "/mnt/b", "/mnt/c"][usize::from(disk.number) - 1];
        assert_eq!(
            (disk.path.as_str(), disk.state),
            (path, DiskState::InUse),
            "{what}"
        );
    }
    for file in 0..FILES {
        let found = super::read(store, &key(file, 0), 0, 1 << 20).await.unwrap();
        assert!(found == pattern(file, 100_000), "{what}: file {file}");
    }
}

#[test]
fn an_unreadable_label_is_rewritten_if_the_disk_can_be_identified() {
    let label = run(async {
        let machine = Machine::new(1);
        filled(&machine).await;
        machine.disk.disk("b").bytes("label").unwrap()
    });
    for at in 0..label.len() {
        run(async {
            let what = format!("byte {at}");
            let machine = Machine::new(1);
            filled(&machine).await;
            let b = machine.disk.disk("b");
            assert!(b.damage("label", |bytes| bytes[at] ^= 0x20));
            let bad = b.bytes("label");
            let refused = Store::open(three(&machine, false))
                .await
                .err()
                .expect(&what);
            assert!(matches!(refused, StoreError::Disk { .. }), "{refused}");
            assert!(refused.to_string().contains("--repair"), "{refused}");
            let found = repair_closed(&three(&machine, false), RepairMode::Check)
                .await
                .unwrap();
            assert_eq!((found.len(), found[0].repaired), (1, false), "{found:?}");
            assert!(found[0].reason.contains("it is disk 2"), "{found:?}");
            assert_eq!(b.bytes("label"), bad, "a check changes nothing");
            let obstacles = repair_closed(&three(&machine, false), RepairMode::Repair)
                .await
                .unwrap();
            assert_eq!(
                (obstacles.len(), obstacles[0].repaired),
                (1, true),
                "{obstacles:?}"
            );
            assert_eq!(b.bytes("label").unwrap(), label, "{what}");
            assert_eq!(
                repair_closed(&three(&machine, false), RepairMode::Repair)
                    .await
                    .unwrap(),
                []
            );
            let store = Store::open(three(&machine, false)).await.unwrap();
            assert_whole(&store, &what).await;
        });
    }
}

/// In each case nothing is written to a disk that is not identified.
#[test]
fn the_label_of_an_unidentified_disk_is_never_rewritten() {
    type Case = (&'static str, fn(&Machine) -> bool, &'static str);
    let cases: [Case; 3] = [
        (
            "two labels",
            |m| m.disk.disk("c").damage("label", |bytes| bytes[0] ^= 1),
            "2 disks have no label that can be read",
        ),
        (
            "other bytes",
            |m| m.disk.disk("b").damage("data", |bytes| bytes.reverse()),
            "as they were written",
        ),
        (
            "too short",
            |m| {
                m.disk
                    .disk("b")
                    .damage("data", |bytes| bytes.truncate(8192))
            },
            "this one 2",
        ),
    ];
    for (what, change, why) in cases {
        run(async {
            let machine = Machine::new(2);
            filled(&machine).await;
            let b = machine.disk.disk("b");
            b.damage("label", |bytes| bytes[9] ^= 1);
            assert!(change(&machine));
            let bad = b.bytes("label");
            let obstacles = repair_closed(&three(&machine, false), RepairMode::Repair)
                .await
                .unwrap();
            assert!(
                !obstacles.is_empty() && obstacles.iter().all(|o| !o.repaired),
                "{what}: {obstacles:?}"
            );
            assert!(obstacles[0].reason.contains(why), "{what}: {obstacles:?}");
            assert!(
                obstacles[0].reason.contains("take the disk out"),
                "{what}: {obstacles:?}"
            );
            assert_eq!(b.bytes("label"), bad, "{what}");
            assert!(Store::open(three(&machine, false)).await.is_err(), "{what}");
            // The advice works: everything else can be read.
            if what != "two labels" {
                let mut without = three(&machine, false);
                without.disks.remove(1);
                let store = Store::open(without).await.unwrap();
                assert_eq!(store.disks()[2].state, DiskState::Missing, "{what}");
            }
        });
    }
}

#[test]
fn a_label_repair_that_is_killed_anywhere_is_completed_by_the_next() {
    let (mut at, mut alive) = (0, false);
    while !alive {
        at += 1;
        for power in [false, true] {
            run(async {
                let what = format!("death at {at}, power {power}");
                let machine = Machine::new(at);
                filled(&machine).await;
                let b = machine.disk.disk("b");
                b.damage("label", |bytes| bytes[4] ^= 1);
                machine.disk.die_at(machine.disk.operations() + at);
                alive = repair_closed(&three(&machine, false), RepairMode::Repair)
                    .await
                    .is_ok()
                    && !machine.disk.is_dead();
                if power {
                    machine.lose_power(at);
                } else {
                    machine.kill(at);
                }
                repair_closed(&three(&machine, false), RepairMode::Repair)
                    .await
                    .unwrap();
                let store = Store::open(three(&machine, false)).await.expect(&what);
                assert_whole(&store, &what).await;
            });
        }
    }
    assert!(at > 3, "{at} operations");
}

/// Flips a bit in each value of the index, one after the other.
#[test]
fn each_record_of_the_index_is_verified_before_use() {
    let (mut n, mut count, mut seen) = (0, 1, BTreeSet::new());
    while n < count {
        run(async {
            let machine = Machine::new(7);
            let states = history(&machine).await;
            count = ["files", "forks", "chunks", "store"]
                .iter()
                .map(|s| machine.index.count(s))
                .sum();
            let space = machine.index.damage_nth(n, |value| {
                let middle = value.len() / 2;
                value[middle] ^= 8;
            });
            let what = format!("value {n} of the index, in {space}");
            let store = match open(&machine).await {
                Ok(store) => {
                    let note = store.note("scrub");
                    assert!(
                        matches!(note, Err(StoreError::Corrupt { .. })),
                        "{what}: {note:?}"
                    );
                    seen.insert("note");
                    store.set_note("scrub", &NOTE).unwrap();
                    assert_eq!(store.note("scrub").unwrap().unwrap(), NOTE);
                    Some(store)
                }
                Err(error) => {
                    assert!(
                        matches!(error, StoreError::Corrupt { .. }),
                        "{what}: {error}"
                    );
                    let named = error.to_string();
                    let obstacles = repair_closed(&config(&machine, false), RepairMode::Repair)
                        .await
                        .unwrap();
                    assert!(!obstacles.is_empty(), "{what}");
                    let mut store = open(&machine).await.ok();
                    if store.is_none() {
                        // The log may have bytes of a lost block: then they are lost, too.
                        let mut config = config(&machine, false);
                        config.accept_loss = true;
                        store = Store::open(config).await.ok();
                    }
                    for (word, kind, mended) in [
                        ("a disk's record", "disk", true),
                        ("the store's record", "store", false),
                        ("a fork's record", "fork", false),
                        ("chunk", "chunk", true),
                        ("checkpoint", "checkpoint", true),
                        ("file", "file", true),
                    ] {
                        if named.contains(word) {
                            seen.insert(kind);
                            assert_eq!(store.is_some(), mended, "{what}: {named}");
                            break;
                        }
                    }
                    store
                }
            };
            if let Some(store) = store {
                let read = blocks(&store).await;
                assert!(agrees(&read, states.last().unwrap()), "{what}");
            }
        });
        n += 1;
    }
    let all = [
        "checkpoint",
        "chunk",
        "disk",
        "file",
        "fork",
        "note",
        "store",
    ];
    assert!(seen.iter().eq(&all), "{seen:?}");
}
