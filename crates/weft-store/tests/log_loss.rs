//! A log that lost frames which it had, or holds what is no frame: never zeros without an error,
//! told with its file and place, and a repair goes on without what cannot be read.
#![allow(missing_docs)]

use crate::common;

use common::{Machine, key, now, pattern, read, run, write};
use weft_layout::FileId;
use weft_store::{FileKind, Storage, Store, StoreError, repair_closed};

const CHUNK: u32 = 65536;
const FILES: u64 = 12;
const LENGTH: usize = 20_000;

/// Small writes that only the log has, in several segments; killed. Synced once, in the middle.
async fn filled(machine: &Machine) {
    let store = machine.open().await.unwrap();
    for file in 0..FILES {
        // Parts of blocks: bytes for the log.
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

/// Files that are as they were written, from the first on, and whether the rest is empty or a
/// beginning of what was written.
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
            assert_eq!(count, file, "files behind one that lost bytes lose theirs");
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
    ("the first segment is cut", true, |m| {
        change(m, 0, |bytes| bytes.truncate(bytes.len() / 2));
    }),
    ("the last segment is cut", false, |m| {
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
fn what_a_log_lacks_is_told_and_nothing_changed_until_a_repair_goes_on_without() {
    for (what, synced, damage) in DAMAGES {
        for power in [false, true] {
            if power && !synced {
                // What was not synced may go with the power.
                continue;
            }
            run(async {
                let machine = Machine::new(5);
                filled(&machine).await;
                assert!(segments(&machine).len() >= 2, "one segment is too easy");
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
                let looked = repair_closed(&machine.config(), false).await.unwrap();
                assert!(
                    !looked.is_empty() && looked.iter().all(|o| !o.repaired),
                    "{what}"
                );
                assert!(
                    machine.open().await.is_err(),
                    "{what}: looking changes nothing"
                );
                let told = repair_closed(&machine.config(), true).await.unwrap();
                assert!(told.iter().all(|o| o.repaired), "{what}: {told:?}");
                assert_eq!(
                    repair_closed(&machine.config(), true).await.unwrap(),
                    [],
                    "{what}"
                );
                let store = machine.open().await.unwrap();
                assert!(whole(&store).await < FILES, "{what}");
                let anew = write(&key(1, 0), CHUNK, 0, pattern(9, 100));
                store.write(vec![anew], now()).await.unwrap();
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
fn the_files_are_named_that_frames_wrote_to_which_go() {
    run(async {
        let machine = Machine::new(5);
        filled(&machine).await;
        change(&machine, 0, |bytes| bytes[50_000] ^= 4);
        let before = machine.disk.bytes(&segments(&machine)[0]).unwrap();
        let name = segments(&machine)[0].clone();
        let told = repair_closed(&machine.config(), true).await.unwrap();
        let named = told.iter().filter_map(|o| o.finding.as_ref());
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

/// Where a repair can die: before the log is cut, and between the removal of `reached` and the end
/// of the cut.
#[test]
fn a_repair_that_dies_anywhere_is_made_again_by_the_next() {
    let (mut uncut, mut unfinished) = (0, 0);
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
                alive =
                    repair_closed(&machine.config(), true).await.is_ok() && !machine.disk.is_dead();
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
                // What is left of the first segment, and a new one that says what is in doubt.
                let is_cut = machine.disk.bytes(&names[0]).unwrap().len() < before.len()
                    && segments(&machine).len() == 2;
                let forgotten = !machine.disk.names().contains("reached");
                uncut += u64::from(copied && !is_cut);
                unfinished += u64::from(forgotten && !is_cut);
                let mut said = Vec::new();
                if !is_cut {
                    let held = segments(&machine);
                    let error = machine.open().await.err();
                    let error = error.unwrap_or_else(|| panic!("{what}: {held:?}, {names:?}"));
                    assert!(
                        matches!(error, StoreError::LogDamaged { .. }),
                        "{what}: {error}"
                    );
                    let told = repair_closed(&machine.config(), true).await.unwrap();
                    assert!(
                        !told.is_empty() && told.iter().all(|o| o.repaired),
                        "{what}: {told:?}"
                    );
                    said = told;
                }
                let kept = machine.disk.bytes(&format!("damaged.{}", names[0]));
                let kept = [kept, machine.disk.bytes(&format!("damaged.{}-1", names[0]))];
                let kept = kept
                    .iter()
                    .flatten()
                    .any(|k| k.len() > 50_000 && before.starts_with(k));
                assert!(kept, "{what}: nothing is beside the log of what it was");
                let store = machine.open().await.expect(&what);
                let whole = whole(&store).await;
                // What frames that were not synced said of others may have gone with the power:
                // then every file is in doubt.
                let any = |o: &weft_store::Obstacle| o.reason.contains("nothing says which files");
                let doubted = power && said.iter().any(any);
                assert!(
                    (whole > 0 || doubted) && whole < FILES,
                    "{what}: {whole}, {said:?}"
                );
            });
        }
    }
    assert!(uncut > 0 && unfinished > 0, "{uncut}, {unfinished}");
}

#[test]
fn what_was_not_synced_may_go_with_the_power_and_a_clean_close_needs_no_log() {
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
fn a_data_file_that_is_gone_after_a_kill_costs_what_lay_in_it() {
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
        // Parts of blocks that are gone.
        for file in [1, 2] {
            let part = write(&key(file, 0), CHUNK, 10, pattern(8, 100));
            store.write(vec![part], now()).await.unwrap();
        }
        drop(store);
        machine.kill(1);
        machine.disk.remove("data").unwrap();
        assert!(machine.open().await.is_err());
        let told = repair_closed(&machine.config(), true).await.unwrap();
        assert!(!told.is_empty() && told.iter().all(|o| o.repaired));
        assert!(
            machine.open().await.is_err(),
            "what the log has of a block is not given up by itself"
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
fn without_room_for_a_segment_what_is_applied_is_not_set_back() {
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
        // Of the removals of two segments only the second one reached the disk, and nothing that
        // came after the last sync.
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
