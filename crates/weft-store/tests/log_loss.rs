//! A log that lost frames or holds bytes that are not frames: reads never return zeros without an
//! error, the error names file and place, and a repair drops what cannot be read.
#![allow(missing_docs)]

use crate::common;

use common::{Machine, key, now, pattern, read, run, write};
use weft_layout::FileId;
use weft_store::{FileKind, RepairMode, Storage, Store, StoreError, repair_closed};

const CHUNK: u32 = 65536;
const FILES: u64 = 12;
const LENGTH: usize = 20_000;

/// Small writes that only the log has, in several segments; killed. Synced once, in the middle.
async fn filled(machine: &Machine) {
    let store = machine.open().await.unwrap();
    for file in 0..FILES {
        // Incomplete blocks go through the log.
        for at in (0..LENGTH).step_by(1000) {
            let data = pattern(file, LENGTH)[at..at + 1000].to_vec();
            let one = write(&key(file, 0), CHUNK, at as u64, data);
            store.write(vec![one], now()).await.unwrap();
        }
        if file == FILES / 2 {
            store.sync().await.unwrap();
        }
    }
    drop(store);
    machine.kill(3);
}

/// Segments that hold anything.
fn segments(machine: &Machine) -> Vec<String> {
    let names = machine.disk.names().into_iter();
    let held = |name: &String| {
        machine
            .disk
            .bytes(name)
            .is_some_and(|b| b.iter().any(|b| *b != 0))
    };
    names
        .filter(|n| n.starts_with("log."))
        .filter(held)
        .collect()
}

/// The number of whole files, from the first on; asserts that every other file holds a prefix of
/// its bytes.
async fn whole(store: &Store) -> u64 {
    let mut count = 0;
    for file in 0..FILES {
        let found = read(store, &key(file, 0), 0, 1 << 20)
            .await
            .unwrap_or_default();
        assert!(
            pattern(file, LENGTH).starts_with(&found),
            "wrong bytes in file {file}"
        );
        if found.len() == LENGTH {
            assert_eq!(
                count, file,
                "a file after one that lost bytes kept its bytes"
            );
            count += 1;
        }
    }
    count
}

type Damage = fn(&Machine);

fn change(machine: &Machine, segment: usize, change: impl FnOnce(&mut Vec<u8>)) {
    let name = segments(machine)[segment].clone();
    machine.disk.damage(&name, change);
}

const DAMAGES: [(&str, bool, Damage); 7] = [
    ("the first segment is gone", true, |m| {
        m.disk.remove(&segments(m)[0]).unwrap();
    }),
    ("all segments are gone", true, |m| {
        for name in segments(m) {
            m.disk.remove(&name).unwrap();
        }
    }),
    ("the last segment is gone", false, |m| {
        m.disk.remove(segments(m).last().unwrap()).unwrap();
    }),
    ("the first segment is truncated", true, |m| {
        change(m, 0, |bytes| bytes.truncate(bytes.len() / 2));
    }),
    ("the last segment is truncated", false, |m| {
        let last = segments(m).len() - 1;
        change(m, last, |bytes| {
            let held = bytes.iter().rposition(|b| *b != 0).unwrap();
            bytes.truncate(held / 4);
        });
    }),
    ("a flipped bit", true, |m| {
        change(m, 0, |bytes| bytes[50_000] ^= 4);
    }),
    ("a block of zeros", true, |m| {
        change(m, 0, |bytes| bytes[40_960..45_056].fill(0));
    }),
];

#[test]
fn a_damaged_log_is_reported_and_left_unchanged_until_it_is_repaired() {
    for (what, synced, damage) in DAMAGES {
        for power in [false, true] {
            if power && !synced {
                // Unsynced frames may be lost with the power.
                continue;
            }
            run(async {
                let machine = Machine::new(5);
                filled(&machine).await;
                assert!(segments(&machine).len() >= 2, "one segment is too few");
                damage(&machine);
                if power {
                    machine.lose_power_but_no_bytes();
                }
                let names = machine.disk.names();
                for _ in 0..2 {
                    let error = machine.open().await.err().expect(what);
                    assert!(
                        matches!(error, StoreError::LogDamaged { .. }),
                        "{what}: {error}"
                    );
                    assert!(error.to_string().contains("log."), "{what}: {error}");
                    assert!(error.to_string().contains("--offline"), "{what}: {error}");
                    assert!(machine.disk.names().is_superset(&names), "{what}");
                }
                let found = repair_closed(&machine.config(), RepairMode::Check)
                    .await
                    .unwrap();
                assert!(
                    !found.is_empty() && found.iter().all(|o| !o.repaired),
                    "{what}"
                );
                assert!(
                    machine.open().await.is_err(),
                    "{what}: a check changes nothing"
                );
                let obstacles = repair_closed(&machine.config(), RepairMode::Repair)
                    .await
                    .unwrap();
                assert!(
                    obstacles.iter().all(|o| o.repaired),
                    "{what}: {obstacles:?}"
                );
                assert_eq!(
                    repair_closed(&machine.config(), RepairMode::Repair)
                        .await
                        .unwrap(),
                    [],
                    "{what}"
                );
                let store = machine.open().await.unwrap();
                assert!(whole(&store).await < FILES, "{what}");
                let again = write(&key(1, 0), CHUNK, 0, pattern(9, 100));
                store.write(vec![again], now()).await.unwrap();
                store.sync().await.unwrap();
                drop(store);
                machine.kill(4);
                let store = machine.open().await.unwrap();
                let found = read(&store, &key(1, 0), 0, 100).await.unwrap();
                assert_eq!(found, pattern(9, 100), "{what}");
            });
        }
    }
}

#[test]
fn a_log_repair_names_the_files_that_dropped_frames_wrote_to() {
    run(async {
        let machine = Machine::new(5);
        filled(&machine).await;
        change(&machine, 0, |bytes| bytes[50_000] ^= 4);
        let before = machine.disk.bytes(&segments(&machine)[0]).unwrap();
        let name = segments(&machine)[0].clone();
        let obstacles = repair_closed(&machine.config(), RepairMode::Repair)
            .await
            .unwrap();
        let named = obstacles.iter().filter_map(|o| o.finding.as_ref());
        let files: Vec<u64> = named.map(|f| f.key.file.0).collect();
        assert!(
            files.contains(&(FILES - 1)) && !files.contains(&0),
            "{files:?}"
        );
        let kept = machine.disk.bytes(&format!("damaged.{name}")).unwrap();
        assert!(before.starts_with(&kept) && kept.len() > 50_000);
        assert!(whole(&machine.open().await.unwrap()).await > 0);
    });
}

/// A repair can die before the truncation of the log, and between the removal of `reached` and the
/// end of the truncation.
#[test]
fn a_log_repair_that_is_killed_anywhere_is_completed_by_the_next() {
    let (mut untruncated, mut unfinished) = (0, 0);
    for power in [false, true] {
        let (mut at, mut alive) = (0, false);
        while !alive {
            at += 1;
            run(async {
                let what = format!("death at {at}, power {power}");
                let machine = Machine::new(5);
                filled(&machine).await;
                change(&machine, 0, |bytes| bytes[50_000] ^= 4);
                let names = segments(&machine);
                let before = machine.disk.bytes(&names[0]).unwrap();
                machine.disk.die_at(machine.disk.operations() + at);
                alive = repair_closed(&machine.config(), RepairMode::Repair)
                    .await
                    .is_ok()
                    && !machine.disk.is_dead();
                if power {
                    machine.lose_power(at);
                } else {
                    machine.kill(at);
                }
                let copied = machine
                    .disk
                    .names()
                    .iter()
                    .any(|n| n.starts_with("damaged."));
                // The rest of the first segment, and a new one that records the doubt.
                let is_truncated = machine.disk.bytes(&names[0]).unwrap().len() < before.len()
                    && segments(&machine).len() == 2;
                let forgotten = !machine.disk.names().contains("reached");
                untruncated += u64::from(copied && !is_truncated);
                unfinished += u64::from(forgotten && !is_truncated);
                let mut obstacles = Vec::new();
                if !is_truncated {
                    let held = segments(&machine);
                    let error = machine.open().await.err();
                    let error = error.unwrap_or_else(|| panic!("{what}: {held:?}, {names:?}"));
                    assert!(
                        matches!(error, StoreError::LogDamaged { .. }),
                        "{what}: {error}"
                    );
                    obstacles = repair_closed(&machine.config(), RepairMode::Repair)
                        .await
                        .unwrap();
                    assert!(
                        !obstacles.is_empty() && obstacles.iter().all(|o| o.repaired),
                        "{what}: {obstacles:?}"
                    );
                }
                let kept = machine.disk.bytes(&format!("damaged.{}", names[0]));
                let kept = [kept, machine.disk.bytes(&format!("damaged.{}-1", names[0]))];
                let kept = kept
                    .iter()
                    .flatten()
                    .any(|k| k.len() > 50_000 && before.starts_with(k));
                assert!(kept, "{what}: there is no copy of the damaged segment");
                let store = machine.open().await.expect(&what);
                let whole = whole(&store).await;
                // Unsynced records of touched files may be lost with the power: then every file
                // is in doubt.
                let any =
                    |o: &weft_store::OpenBlocker| o.reason.contains("nothing says which files");
                let doubted = power && obstacles.iter().any(any);
                assert!(
                    (whole > 0 || doubted) && whole < FILES,
                    "{what}: {whole}, {obstacles:?}"
                );
            });
        }
    }
    assert!(
        untruncated > 0 && unfinished > 0,
        "{untruncated}, {unfinished}"
    );
}

#[test]
fn power_loss_may_drop_unsynced_frames_and_a_clean_close_needs_no_log() {
    for seed in 0..20 {
        run(async {
            let machine = Machine::new(seed);
            filled(&machine).await;
            machine.lose_power(seed);
            let store = machine.open().await.unwrap();
            assert!(whole(&store).await > FILES / 2, "synced files");
            store.close().await.unwrap();
            assert!(!machine.disk.names().contains("reached"));
            machine.lose_power(seed);
            assert!(whole(&machine.open().await.unwrap()).await > FILES / 2);
        });
    }
}

#[test]
fn a_data_file_missing_after_a_kill_costs_only_its_blocks() {
    run(async {
        let machine = Machine::new(5);
        let store = machine.open().await.unwrap();
        for file in 0..4 {
            let one = write(&key(file, 0), CHUNK, 0, pattern(file, CHUNK as usize));
            store.write(vec![one], now()).await.unwrap();
            if file == 1 {
                store.apply().await.unwrap();
            }
        }
        let small = write(&key(7, 0), CHUNK, 0, pattern(7, 100));
        store.write(vec![small], now()).await.unwrap();
        // Small pieces of lost blocks.
        for file in [1, 2] {
            let piece = write(&key(file, 0), CHUNK, 10, pattern(8, 100));
            store.write(vec![piece], now()).await.unwrap();
        }
        drop(store);
        machine.kill(1);
        machine.disk.remove("data").unwrap();
        assert!(machine.open().await.is_err());
        let obstacles = repair_closed(&machine.config(), RepairMode::Repair)
            .await
            .unwrap();
        assert!(!obstacles.is_empty() && obstacles.iter().all(|o| o.repaired));
        assert!(
            machine.open().await.is_err(),
            "logged bytes of a lost block are not dropped silently"
        );
        let mut config = machine.config();
        config.accept_loss = true;
        Store::open(config).await.unwrap().close().await.unwrap();
        let store = machine.open().await.unwrap();
        for file in 0..4 {
            assert!(
                read(&store, &key(file, 0), 0, 4096).await.is_err(),
                "file {file}"
            );
        }
        assert_eq!(
            read(&store, &key(7, 0), 0, 100).await.unwrap(),
            pattern(7, 100)
        );
    });
}

#[test]
fn without_space_for_a_segment_applied_changes_stay_applied() {
    run(async {
        let machine = Machine::new(6);
        let put = async |store: &Store, file: u64| {
            let one = write(&key(file, 0), CHUNK, 0, pattern(file, 1000));
            store.write(vec![one], now()).await.unwrap();
        };
        let store = machine.open().await.unwrap();
        put(&store, 0).await;
        store.apply().await.unwrap();
        let first = segments(&machine)[0].clone();
        let [bytes, reached] = [&first, "reached"].map(|name| machine.disk.bytes(name).unwrap());
        put(&store, 1).await;
        put(&store, 2).await;
        store.reclaim().await.unwrap();
        assert!(!machine.disk.names().contains(&first));
        drop(store);
        machine.kill(1);
        // Only the second of two removals of segments reached the disk, and nothing after the last
        // sync.
        for name in segments(&machine) {
            machine.disk.damage(&name, |bytes| bytes.fill(0));
        }
        machine.disk.damage("reached", |bytes| *bytes = reached);
        let back = machine.disk.open(&first, FileKind::Log).unwrap();
        back.write_buffered(0, &bytes).unwrap();
        machine.lose_power_but_no_bytes();
        machine.disk.set_capacity(1 << 30);
        let used = (1 << 30) - machine.disk.available().unwrap();
        machine.disk.set_capacity(used - (64 << 10));
        let store = machine.open().await.unwrap();
        store.delete_file(FileId(1)).await.unwrap();
        store.sync().await.unwrap();
        store.apply().await.unwrap();
        store.delete_file(FileId(2)).await.unwrap();
        store.sync().await.unwrap();
        drop(store);
        machine.kill(2);
        let store = machine.open().await.unwrap();
        let found = read(&store, &key(0, 0), 0, 4096).await.unwrap();
        assert!(found == pattern(0, 1000));
        assert!(!store.holds(FileId(1)) && !store.holds(FileId(2)));
    });
}
