//! The rows of "Crash or loss at step k" in `docs/design/0003-store.md`. Those about the index are
//! in `crash_index.rs`, those about marks and closing in `crash_marks.rs`.
#![allow(missing_docs)]

use crate::common;

use std::io::ErrorKind;
use std::sync::Arc;

use common::{Machine, key, now, pattern, read, run, write};
use weft_layout::FileId;
use weft_store::{Store, StoreError};

const CHUNK: u32 = 65536;

async fn put(store: &Store, file: u64, mark: u64, length: usize) -> Result<(), StoreError> {
    store
        .write(
            vec![write(&key(file, 0), CHUNK, 0, pattern(mark, length))],
            now(),
        )
        .await
}

async fn holds(store: &Store, file: u64, mark: u64, length: usize) -> bool {
    read(store, &key(file, 0), 0, 1 << 22).await.unwrap() == pattern(mark, length)
}

/// Kills the process, or cuts the power.
fn end(machine: &Machine, power: bool, seed: u64) {
    if power {
        machine.lose_power(seed);
    } else {
        machine.kill(seed);
    }
}

#[test]
fn blocks_of_a_direct_write_that_was_killed_before_its_map_are_free_again() {
    for power in [false, true] {
        run(async {
            let machine = Machine::new(1);
            let store = machine.open().await.unwrap();
            put(&store, 1, 1, 65536).await.unwrap();
            store.sync().await.unwrap();
            machine.disk.die_at(machine.disk.operations() + 1);
            assert!(put(&store, 1, 2, 65536).await.is_err());
            end(&machine, power, 9);
            let store = machine.open().await.unwrap();
            assert!(holds(&store, 1, 1, 65536).await);
            assert_eq!(store.usage().used, 65536);
        });
    }
}

#[test]
fn an_unsynced_direct_write_is_whole_or_absent_after_power_loss() {
    let mut kept = 0;
    for seed in 0..40 {
        run(async {
            let machine = Machine::new(seed);
            let store = machine.open().await.unwrap();
            put(&store, 1, 1, 65536).await.unwrap();
            store.sync().await.unwrap();
            put(&store, 1, 2, 65536).await.unwrap();
            end(&machine, true, seed);
            let store = machine.open().await.unwrap();
            let new = holds(&store, 1, 2, 65536).await;
            assert!(new || holds(&store, 1, 1, 65536).await);
            kept += u32::from(new);
        });
    }
    assert!(
        kept > 0 && kept < 40,
        "the disk kept {kept} of 40: only one outcome is tested"
    );
    run(async {
        let machine = Machine::new(77);
        let store = machine.open().await.unwrap();
        put(&store, 1, 2, 65536).await.unwrap();
        end(&machine, false, 7);
        assert!(holds(&machine.open().await.unwrap(), 1, 2, 65536).await);
    });
}

#[test]
fn logged_data_survives_a_kill_and_is_whole_or_absent_after_power_loss() {
    let mut kept = 0;
    for seed in 0..40 {
        for power in [false, true] {
            run(async {
                let machine = Machine::new(seed);
                let store = machine.open().await.unwrap();
                put(&store, 1, 1, 5000).await.unwrap();
                store.sync().await.unwrap();
                put(&store, 1, 2, 5000).await.unwrap();
                end(&machine, power, seed);
                let store = machine.open().await.unwrap();
                let new = holds(&store, 1, 2, 5000).await;
                assert!(new || (power && holds(&store, 1, 1, 5000).await));
                kept += u32::from(power && new);
            });
        }
    }
    assert!(
        kept > 0 && kept < 40,
        "the disk kept {kept} of 40: only one outcome is tested"
    );
}

#[test]
fn power_loss_during_a_sync_leaves_old_or_new_data_and_acknowledges_no_caller() {
    for step in 1..4 {
        for seed in 0..10 {
            run(async {
                let machine = Machine::new(seed);
                let store = machine.open().await.unwrap();
                put(&store, 1, 1, 65536).await.unwrap();
                store.sync().await.unwrap();
                put(&store, 1, 2, 65536).await.unwrap();
                machine.disk.die_at(machine.disk.operations() + step);
                let answered = store.sync().await.is_ok();
                end(&machine, true, seed);
                let store = machine.open().await.unwrap();
                let new = holds(&store, 1, 2, 65536).await;
                assert!(new || (!answered && holds(&store, 1, 1, 65536).await));
            });
        }
    }
}

#[test]
fn writes_covered_by_an_acknowledged_sync_survive_power_loss() {
    for seed in 0..40 {
        run(async {
            let machine = Machine::new(seed);
            let store = machine.open().await.unwrap();
            for round in 0..5 {
                put(&store, 1, round, 65536).await.unwrap();
                put(&store, 2, round, 777).await.unwrap();
                store.sync().await.unwrap();
            }
            put(&store, 3, 9, 65536).await.unwrap();
            end(&machine, true, seed);
            let store = machine.open().await.unwrap();
            assert!(holds(&store, 1, 4, 65536).await && holds(&store, 2, 4, 777).await);
        });
    }
}

#[test]
fn a_torn_frame_at_the_end_of_the_log_is_dropped() {
    for at in 1..6 {
        run(async {
            let machine = Machine::new(at);
            let store = machine.open().await.unwrap();
            put(&store, 1, 1, 3000).await.unwrap();
            machine.disk.die_at(machine.disk.operations() + 1);
            assert!(put(&store, 1, 2, 3000).await.is_err());
            end(&machine, false, at);
            let store = machine.open().await.unwrap();
            assert!(holds(&store, 1, 1, 3000).await || holds(&store, 1, 2, 3000).await);
            put(&store, 1, 3, 3000).await.unwrap();
            end(&machine, false, at);
            assert!(holds(&machine.open().await.unwrap(), 1, 3, 3000).await);
        });
    }
}

#[test]
fn a_tombstone_outlives_a_crash_and_recovery_frees_the_blocks() {
    for power in [false, true] {
        run(async {
            let machine = Machine::new(3);
            let store = machine.open().await.unwrap();
            put(&store, 1, 1, 300_000).await.unwrap();
            store.close().await.unwrap();
            let store = machine.open().await.unwrap();
            store.delete_file(FileId(1)).await.unwrap();
            store.sync().await.unwrap();
            end(&machine, power, 5);
            let store = machine.open().await.unwrap();
            assert_eq!(
                put(&store, 1, 1, 10).await,
                Err(StoreError::Stale { file: FileId(1) })
            );
            assert_eq!(store.usage().used, 0);
            store.close().await.unwrap();
            assert_eq!(
                (machine.index.count("forks"), machine.index.count("chunks")),
                (0, 0)
            );
        });
    }
}

#[test]
fn a_damaged_block_gives_a_typed_error_and_never_wrong_bytes() {
    run(async {
        let machine = Machine::new(4);
        let store = machine.open().await.unwrap();
        put(&store, 1, 1, 65536).await.unwrap();
        store.close().await.unwrap();
        assert!(machine.disk.damage("data", |bytes| bytes[5000] ^= 1));
        let store = machine.open().await.unwrap();
        let error = read(&store, &key(1, 0), 0, 65536).await.unwrap_err();
        let StoreError::BadChecksum {
            file,
            cell,
            fork,
            chunk,
            at,
            block,
            disk,
            expected,
            found,
        } = error
        else {
            panic!("another error: {error}");
        };
        assert_eq!(
            (file, cell.0, fork.as_str(), chunk, at, block, disk),
            (FileId(1), 0, "data", 0, 1, 1, 0)
        );
        assert_ne!(expected, found);
        // The neighbours are readable, and a write makes the block good.
        assert_eq!(
            read(&store, &key(1, 0), 8192, 100).await.unwrap(),
            pattern(1, 65536)[8192..8292]
        );
        put(&store, 1, 2, 65536).await.unwrap();
        assert!(holds(&store, 1, 2, 65536).await);
    });
}

#[test]
fn damage_in_the_middle_of_the_log_is_refused_and_never_gives_wrong_bytes() {
    for power in [false, true] {
        let total = run(async {
            let machine = Machine::new(5);
            filled(&machine, power).await;
            machine.disk.bytes(&log_name(&machine)).unwrap().len()
        });
        for at in (0..total).step_by(11) {
            run(async {
                let machine = Machine::new(5);
                filled(&machine, power).await;
                machine
                    .disk
                    .damage(&log_name(&machine), |bytes| bytes[at] ^= 0x10);
                match machine.open().await {
                    Ok(store) => {
                        for (file, length) in [(1, 3000), (2, 40_000), (3, 100)] {
                            let found = read(&store, &key(file, 0), 0, 1 << 20).await.unwrap();
                            assert!(
                                found == pattern(file, length),
                                "flip at {at} of {total}, power {power}: file {file}"
                            );
                        }
                    }
                    Err(StoreError::LogDamaged { .. } | StoreError::Version { .. }) => {}
                    Err(error) => panic!("flip at {at}: {error}"),
                }
            });
        }
    }
}

async fn filled(machine: &Machine, power: bool) {
    let store = machine.open().await.unwrap();
    for (file, length) in [(1, 3000), (2, 40_000), (3, 100)] {
        put(&store, file, file, length).await.unwrap();
    }
    // The second sync makes the first one's record durable.
    store.sync().await.unwrap();
    put(&store, 4, 4, 10).await.unwrap();
    store.sync().await.unwrap();
    end(machine, power, 1);
}

fn log_name(machine: &Machine) -> String {
    let names = machine.disk.names();
    let logs = names.iter().filter(|n| n.starts_with("log."));
    logs.max_by_key(|n| machine.disk.bytes(n).map(|b| b.len()))
        .unwrap()
        .clone()
}

#[test]
fn damage_in_the_index_is_refused() {
    for space in ["files", "forks", "chunks", "store"] {
        run(async {
            let machine = Machine::new(6);
            let store = machine.open().await.unwrap();
            put(&store, 1, 1, 65536).await.unwrap();
            store.delete_file(FileId(2)).await.unwrap();
            store.close().await.unwrap();
            assert!(
                machine
                    .index
                    .damage(space, |value| *value.last_mut().unwrap() ^= 1),
                "{space} is empty"
            );
            let refused = machine.open().await.map(drop);
            assert!(
                matches!(refused, Err(StoreError::Corrupt { .. })),
                "{space}: {refused:?}"
            );
        });
    }
}

#[test]
fn a_data_file_that_is_too_short_is_refused() {
    run(async {
        let machine = Machine::new(7);
        let store = machine.open().await.unwrap();
        put(&store, 1, 1, 65536).await.unwrap();
        store.close().await.unwrap();
        machine.disk.damage("data", |bytes| bytes.truncate(8192));
        let refused = machine.open().await.map(drop);
        assert!(
            matches!(refused, Err(StoreError::Corrupt { .. })),
            "{refused:?}"
        );
    });
}

#[test]
fn a_failed_sync_is_reported_to_all_callers_and_closes_the_store_to_writes() {
    run(async {
        let machine = Machine::new(8);
        let store = machine.open().await.unwrap();
        put(&store, 1, 1, 65536).await.unwrap();
        machine
            .disk
            .fail_at(machine.disk.operations() + 1, ErrorKind::Other);
        let (a, b) = futures_util::future::join(store.sync(), store.sync()).await;
        assert!(matches!(a, Err(StoreError::SyncFailed { .. })), "{a:?}");
        assert!(matches!(b, Err(StoreError::SyncFailed { .. })), "{b:?}");
        assert!(matches!(
            store.sync().await,
            Err(StoreError::SyncFailed { .. })
        ));
        assert!(matches!(
            put(&store, 1, 2, 10).await,
            Err(StoreError::SyncFailed { .. })
        ));
        assert!(holds(&store, 1, 1, 65536).await);
        drop(store);
        machine.kill(1);
        put(&machine.open().await.unwrap(), 1, 2, 10).await.unwrap();
    });
}

#[test]
fn a_failed_direct_write_changes_nothing() {
    run(async {
        let machine = Machine::new(9);
        let store = machine.open().await.unwrap();
        put(&store, 1, 1, 65536).await.unwrap();
        let used = store.usage().used;
        machine
            .disk
            .fail_at(machine.disk.operations() + 1, ErrorKind::Other);
        assert!(matches!(
            put(&store, 1, 2, 65536).await,
            Err(StoreError::Io { .. })
        ));
        assert!(holds(&store, 1, 1, 65536).await);
        assert_eq!(store.usage().used, used);
        put(&store, 1, 3, 65536).await.unwrap();
    });
}

#[test]
fn a_full_disk_refuses_writes_unharmed_and_deleting_frees_space() {
    run(async {
        let machine = Machine::new(10);
        let mut config = machine.config();
        config.capacity = 4 << 20;
        let store = Store::open(config).await.unwrap();
        let mut full = None;
        for file in 0..200 {
            let length = if file % 2 == 0 { 100_000 } else { 20_000 };
            match put(&store, file, file, length).await {
                Ok(()) => {}
                Err(error) => {
                    full = Some((file, error));
                    break;
                }
            }
        }
        let (first, error) = full.expect("the disk was filled");
        assert!(matches!(error, StoreError::NoSpace { .. }), "{error}");
        for file in 0..first {
            let length = if file % 2 == 0 { 100_000 } else { 20_000 };
            assert!(holds(&store, file, file, length).await);
        }
        assert_eq!(store.status(&key(first, 0)).await.unwrap(), None);
        store.sync().await.unwrap();
        store
            .truncate(FileId(1), vec![(key(1, 0), 5)], 1, now())
            .await
            .unwrap();
        for file in 2..8 {
            store.delete_file(FileId(file)).await.unwrap();
        }
        for file in 1000..1003 {
            put(&store, file, file, 100_000).await.unwrap();
        }
        store.close().await.unwrap();
        let store = machine.open().await.unwrap();
        assert!(holds(&store, 1002, 1002, 100_000).await && holds(&store, 0, 0, 100_000).await);
    });
}

#[test]
fn a_disk_filled_by_other_programs_refuses_writes() {
    run(async {
        let machine = Machine::new(11);
        machine.disk.set_capacity(3 << 20);
        let store = machine.open().await.unwrap();
        let mut refused = 0;
        for file in 0..60 {
            match put(&store, file, file, 100_000).await {
                Ok(()) => assert!(holds(&store, file, file, 100_000).await),
                Err(StoreError::NoSpace { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(refused > 0);
        store.sync().await.unwrap();
    });
}

#[test]
fn many_writers_share_one_sync() {
    run(async {
        let machine = Machine::new(12);
        let store = Arc::new(machine.open().await.unwrap());
        let before = store.counters();
        let all = (0..64).map(|file| {
            let store = Arc::clone(&store);
            async move {
                put(&store, file, file, 64).await.unwrap();
                store.sync().await.unwrap();
            }
        });
        futures_util::future::join_all(all).await;
        let after = store.counters();
        assert!(
            after.syncs - before.syncs <= 4,
            "{} syncs for 64 callers",
            after.syncs - before.syncs
        );
    });
}

#[test]
fn frames_synced_into_preallocated_zeros_survive_a_crash_at_any_operation() {
    let small = |n: u64| write(&key(n, 0), CHUNK, 0, pattern(n, 100));
    let (mut tried, mut last, mut without) = (0, false, 0);
    while !last {
        tried += 1;
        for power in [false, true] {
            run(async {
                let machine = Machine::new(tried);
                let store = machine.open().await.unwrap();
                machine.disk.die_at(machine.disk.operations() + tried);
                let (mut written, mut synced) = (0, 0);
                for n in 0..60 {
                    if store.write(vec![small(n)], now()).await.is_err() {
                        break;
                    }
                    written = n + 1;
                    if store.sync().await.is_err() {
                        break;
                    }
                    synced = n + 1;
                }
                last = synced == 60;
                let names = machine.disk.names();
                let logs = names.iter().filter(|n| n.starts_with("log."));
                let ahead = logs.filter(|n| machine.disk.bytes(n).unwrap().ends_with(&[0; 1024]));
                // The process may die while it preallocates zeros, with few of them left.
                without += u32::from(synced >= 2 && ahead.count() == 0);
                drop(store);
                end(&machine, power, tried);
                let store = machine.open().await.unwrap();
                let must = if power { synced } else { written };
                for n in 0..must {
                    assert!(
                        holds(&store, n, n, 100).await,
                        "{n} of {must}, died at {tried}"
                    );
                }
            });
        }
    }
    assert!(tried > 100, "{tried} operations");
    assert!(without <= 4, "{without} deaths without preallocated zeros");
}

#[test]
fn a_segment_of_only_preallocated_zeros_is_removed_at_the_next_opening() {
    run(async {
        let machine = Machine::new(3);
        for round in 0..4 {
            drop(machine.open().await.unwrap());
            let names = machine.disk.names();
            let logs: Vec<_> = names.iter().filter(|n| n.starts_with("log.")).collect();
            assert_eq!(
                logs.len(),
                2,
                "round {round}, an active and a spare segment: {names:?}"
            );
            let first = machine.disk.bytes(logs[0]).unwrap();
            assert!(first.len() > 4096 && first.iter().all(|b| *b == 0));
            machine.kill(round);
        }
    });
}
