//! Crashes around the marks that record how a store ended: rows of the table in
//! `docs/design/0003-store.md` about `reached`, `running` and a clean close. Those about repairs
//! are in `log_loss.rs`.
#![allow(missing_docs)]

use crate::common;

use common::{CHECK_DATA, Machine, key, now, pattern, read, run, write};
use weft_store::{Store, StoreError};

const CHUNK: u32 = 65_536;
const FILES: u64 = 6;
const LENGTH: usize = 60_001;

/// Kills the process, or cuts the power.
fn end(machine: &Machine, power: bool, seed: u64) {
    if power {
        machine.lose_power(seed);
    } else {
        machine.kill(seed);
    }
}

/// Several segments of synced writes, small and large.
async fn filled(machine: &Machine) -> Store {
    let store = machine.open().await.unwrap();
    for file in 0..FILES {
        let data = pattern(file, LENGTH);
        let (first, rest) = data.split_at(20_000);
        let first = write(&key(file, 0), CHUNK, 0, first.to_vec());
        store.write(vec![first], now()).await.unwrap();
        let rest = write(&key(file, 0), CHUNK, 20_000, rest.to_vec());
        store.write(vec![rest], now()).await.unwrap();
        for at in (0..20_000).step_by(700) {
            let again = write(&key(file, 0), CHUNK, at as u64, data[at..at + 500].to_vec());
            store.write(vec![again], now()).await.unwrap();
        }
    }
    store.sync().await.unwrap();
    store
}

async fn assert_whole(store: &Store, what: &str) {
    for file in 0..FILES {
        let found = read(store, &key(file, 0), 0, 1 << 20).await;
        assert!(
            found.unwrap() == pattern(file, LENGTH),
            "{what}: file {file}"
        );
    }
}

/// The damage beside chunks that a check reports; asserts that it finds no fault of a chunk.
async fn marks(store: &Store) -> Vec<String> {
    let (mut pass, mut marks) = (store.check_begin().await.unwrap(), Vec::new());
    loop {
        let step = store.check(&mut pass, CHECK_DATA).await.unwrap();
        assert_eq!(step.findings, []);
        marks.extend(step.marks);
        if step.done {
            return marks;
        }
    }
}

#[test]
fn a_clean_close_that_is_killed_anywhere_loses_nothing() {
    // How often all, some or none of the segments of the log are left.
    let mut seen = [0; 3];
    for power in [false, true] {
        let (mut at, mut alive, mut most) = (0, false, 0);
        while !alive {
            at += 1;
            run(async {
                let what = format!("death at {at}, power {power}");
                let machine = Machine::new(7);
                let store = filled(&machine).await;
                let from = machine.disk.operations();
                machine.disk.die_at(from + at);
                alive = store.close().await.is_ok() && !machine.disk.is_dead();
                drop(store);
                let names = machine.disk.names();
                let segments: Vec<&String> =
                    names.iter().filter(|n| n.starts_with("log.")).collect();
                if !names.contains("reached") && names.contains("running") {
                    most = most.max(segments.len());
                    let which = match segments.len() {
                        0 => 2,
                        n => usize::from(n < most),
                    };
                    seen[which] += 1;
                }
                end(&machine, power, at);
                let store = machine.open().await.expect(&what);
                assert_whole(&store, &what).await;
                assert_eq!(marks(&store).await, Vec::<String>::new(), "{what}");
                let new = write(&key(FILES, 0), CHUNK, 0, pattern(9, 50_000));
                store.write(vec![new], now()).await.unwrap();
                store.close().await.unwrap();
                assert!(!machine.disk.names().contains("running"));
                assert_whole(&machine.open().await.unwrap(), &what).await;
            });
        }
    }
    assert!(
        seen.iter().all(|n| *n > 0),
        "after `reached` was gone: {seen:?}"
    );
}

type Damage = (&'static str, bool, fn(&mut Vec<u8>));

/// A kind of damage, whether a crash can leave a new file so, and how to do it.
const DAMAGES: [Damage; 5] = [
    ("empty", true, Vec::clear),
    ("zeros", true, |bytes| bytes.fill(0)),
    ("half of it", true, |bytes| bytes.truncate(11)),
    ("a flipped bit", false, |bytes| bytes[3] ^= 4),
    ("a later version", false, |bytes| bytes[0] = 9),
];

#[test]
fn without_the_reached_mark_only_a_loss_at_the_end_of_the_log_goes_unnoticed() {
    for power in [false, true] {
        for (what, harmless, damage) in DAMAGES {
            run(async {
                let machine = Machine::new(3);
                drop(filled(&machine).await);
                end(&machine, power, 3);
                assert!(machine.disk.damage("reached", damage));
                let store = machine.open().await.expect(what);
                assert_whole(&store, what).await;
                let reports = marks(&store).await;
                assert_eq!(reports.is_empty(), harmless, "{what}: {reports:?}");
                let named = reports.iter().all(|report| report.contains("reached"));
                assert!(named, "{reports:?}");
                lost_later(&machine, store, power, what).await;
            });
        }
        run(async {
            let machine = Machine::new(3);
            drop(filled(&machine).await);
            end(&machine, power, 3);
            machine.disk.damage("reached", Vec::clear);
            weft_store::Storage::remove(&machine.disk, "reached").unwrap();
            let store = machine.open().await.unwrap();
            assert_whole(&store, "gone").await;
            assert_eq!(marks(&store).await, Vec::<String>::new());
            lost_later(&machine, store, power, "gone").await;
        });
    }
}

/// The next sync writes the mark, so the later loss of the log is noticed.
async fn lost_later(machine: &Machine, store: Store, power: bool, what: &str) {
    let small = write(&key(FILES, 0), CHUNK, 0, pattern(9, 500));
    store.write(vec![small], now()).await.unwrap();
    store.sync().await.unwrap();
    drop(store);
    machine.kill(4);
    if power {
        machine.lose_power_but_no_bytes();
    }
    for name in machine.disk.names() {
        if name.starts_with("log.") {
            weft_store::Storage::remove(&machine.disk, &name).unwrap();
        }
    }
    let refused = machine.open().await.err();
    assert!(
        matches!(refused, Some(StoreError::LogDamaged { .. })),
        "{what}, power {power}: {refused:?}"
    );
}
