//! Failures in the background: waiting writers get an error or continue.
#![allow(missing_docs)]

use crate::common;

use std::io::ErrorKind;
use std::time::Duration;

use common::{CHECK_DATA, Machine, key, now, pattern, read, run, write};
use weft_layout::FileId;
use weft_store::{RepairMode, Store, StoreError, repair_closed};

const CHUNK: u32 = 65_536;
/// Several times the bound of the log.
const WRITES: u64 = 1_000;
const LENGTH: usize = 3_000;

async fn put(store: &Store, n: u64) -> Result<(), StoreError> {
    let one = write(&key(n % 50, 0), CHUNK, n * 100, pattern(n, LENGTH));
    let write = store.write(vec![one], now());
    let done = tokio::time::timeout(Duration::from_mins(10), write).await;
    done.expect("a writer never finishes")
}

/// Writes while operation `at` fails; returns the number of operations, and whether a write got an
/// error.
async fn with_failure(at: u64) -> (u64, bool) {
    let machine = Machine::new(7);
    let store = machine.open().await.unwrap();
    let before = machine.disk.operations();
    machine.disk.fail_at(before + at, ErrorKind::Other);
    let mut failed = None;
    for n in 0..WRITES {
        if let Err(error) = put(&store, n).await {
            failed = Some((n, error));
            break;
        }
    }
    if let Some((n, error)) = &failed {
        let typed = matches!(error, StoreError::SyncFailed { .. } | StoreError::Io { .. });
        assert!(typed, "operation {at}: {error}");
        if matches!(error, StoreError::SyncFailed { .. }) {
            assert_eq!(
                put(&store, n + 1).await.unwrap_err(),
                *error,
                "operation {at}"
            );
        }
    }
    (machine.disk.operations() - before, failed.is_some())
}

#[test]
fn a_failed_operation_leaves_no_writer_waiting() {
    let (total, _) = run(with_failure(u64::MAX / 2));
    assert!(total > 1_000, "{total}");
    let (mut failed, mut went_on) = (0, 0);
    // Fail operations around the first application of the log, and samples after it.
    for at in (150..450).chain((450..total).step_by(41)) {
        let (_, error) = run(with_failure(at));
        failed += u32::from(error);
        went_on += u32::from(!error);
    }
    assert!(failed > 0 && went_on > 0, "{failed}, {went_on}");
}

#[test]
fn a_panic_of_the_background_task_closes_the_store_and_loses_nothing() {
    run(async {
        let machine = Machine::new(11);
        let store = machine.open().await.unwrap();
        machine.index.panic_once();
        let mut last = 0;
        let error = loop {
            match put(&store, last).await {
                Ok(()) => last += 1,
                Err(error) => break error,
            }
            assert!(last < WRITES, "no writer got the error");
        };
        assert!(matches!(error, StoreError::SyncFailed { .. }), "{error}");
        assert!(error.to_string().contains("panic"), "{error}");
        drop(store);
        machine.kill(11);
        let store = machine.open().await.unwrap();
        let found = read(&store, &key((last - 1) % 50, 0), (last - 1) * 100, 1 << 20).await;
        assert!(found.unwrap() == pattern(last - 1, LENGTH));
        put(&store, last).await.unwrap();
    });
}

#[test]
fn the_removal_of_a_segment_is_retried_and_blocks_no_writer() {
    run(async {
        let machine = Machine::new(8);
        let store = machine.open().await.unwrap();
        machine.disk.keep_files(true);
        for n in 0..WRITES {
            put(&store, n).await.unwrap();
        }
        let segments = |machine: &Machine| {
            let names = machine.disk.names();
            names.iter().filter(|n| n.starts_with("log.")).count()
        };
        let many = segments(&machine);
        assert!(many > 15, "{many}");
        machine.disk.keep_files(false);
        store.apply().await.unwrap();
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert!(segments(&machine) < 5, "{} of {many}", segments(&machine));
        drop(store);
        machine.kill(8);
        let store = machine.open().await.unwrap();
        let last = WRITES - 1;
        let found = read(&store, &key(last % 50, 0), last * 100, 1 << 20).await;
        assert!(found.unwrap() == pattern(last, LENGTH));
    });
}

#[test]
fn changes_reach_the_index_within_half_a_minute() {
    run(async {
        let machine = Machine::new(9);
        let store = machine.open().await.unwrap();
        let applies = || store.counters().applies;
        for round in 0..3_u64 {
            let one = vec![write(
                &key(1, 0),
                65_536,
                round * 5000,
                pattern(round, 5000),
            )];
            store.write(one, now()).await.unwrap();
            assert_eq!(
                applies(),
                round,
                "a small write alone does not cause an application"
            );
            tokio::time::sleep(Duration::from_secs(31)).await;
            assert_eq!(applies(), round + 1);
        }
        // Free blocks go back to the host.
        tokio::time::sleep(Duration::from_mins(1)).await;
        let operations = machine.disk.operations();
        tokio::time::sleep(Duration::from_mins(10)).await;
        assert_eq!(machine.disk.operations(), operations, "nothing changed");
        // The index holds everything now: damage the log.
        drop(store);
        machine.kill(9);
        for name in machine.disk.names() {
            if name.starts_with("log.") {
                machine.disk.damage(&name, |bytes| bytes.fill(7));
            }
        }
        let store = machine.open().await;
        assert!(store.is_err(), "the damage is reported");
        repair_closed(&machine.config(), RepairMode::Repair)
            .await
            .unwrap();
        let store = machine.open().await.unwrap();
        // The repair cannot know that the index held the whole log.
        assert!(read(&store, &key(1, 0), 0, 1 << 20).await.is_err());
        store.accept_unproven().await.unwrap();
        let found = read(&store, &key(1, 0), 0, 1 << 20).await.unwrap();
        let all = (0..3).flat_map(|round| pattern(round, 5000));
        assert!(found == all.collect::<Vec<_>>());
    });
}

#[test]
fn retained_segments_are_released_when_the_index_may_not_grow() {
    run(async {
        let machine = Machine::new(10);
        let store = machine.open().await.unwrap();
        let segments = || {
            let names = machine.disk.names();
            names.iter().filter(|n| n.starts_with("log.")).count()
        };
        for n in 0..5 {
            put(&store, n).await.unwrap();
            store.apply().await.unwrap();
        }
        assert!(segments() >= 7, "{} segments: none is retained", segments());
        machine.index.set_full(true);
        put(&store, 5).await.unwrap();
        tokio::time::sleep(Duration::from_secs(31)).await;
        // The active segment, a spare one, and one that could not be applied.
        assert!(segments() <= 3, "{} segments", segments());
        machine.index.set_full(false);
        tokio::time::sleep(Duration::from_mins(2)).await;
        drop(store);
        machine.kill(10);
        let store = machine.open().await.unwrap();
        for n in 0..6 {
            let found = read(&store, &key(n, 0), n * 100, 1 << 20).await;
            assert!(found.unwrap() == pattern(n, LENGTH));
        }
    });
}

#[test]
fn an_unreadable_index_blocks_no_writer_and_space_is_freed_later() {
    run(async {
        let machine = Machine::new(9);
        let store = machine.open().await.unwrap();
        let all = || vec![write(&key(100, 0), CHUNK, 0, pattern(1, 600_000))];
        store.write(all(), now()).await.unwrap();
        store.checkpoint(FileId(100), 1, now()).await.unwrap();
        store.write(all(), now()).await.unwrap();
        store.apply().await.unwrap();
        let used = store.usage().used;
        machine.index.set_unreadable(true);
        store.drop_checkpoint(FileId(100), 1, 2).await.unwrap();
        // Write to files that the index does not have.
        for n in 0..WRITES {
            let one = write(&key(1_000 + n, 0), CHUNK, 0, pattern(n, LENGTH));
            let write = store.write(vec![one], now());
            let done = tokio::time::timeout(Duration::from_mins(10), write).await;
            done.expect("a writer never finishes").unwrap();
        }
        machine.index.set_unreadable(false);
        for n in 0..WRITES {
            store.delete_file(FileId(1_000 + n)).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(200)).await;
        store.apply().await.unwrap();
        assert!(
            store.usage().used <= used - 600_000,
            "{}",
            store.usage().used
        );
    });
}

#[test]
fn operations_that_free_space_may_use_the_reserve_of_the_index() {
    run(async {
        let machine = Machine::new(11);
        let store = machine.open().await.unwrap();
        let wait = || tokio::time::sleep(Duration::from_mins(2));
        for file in 0..3 {
            let data = pattern(file, 1 << 20);
            let one = write(&key(file, 0), CHUNK, 0, data);
            store.write(vec![one], now()).await.unwrap();
        }
        store.apply().await.unwrap();
        store.drop_cache();
        machine.index.set_full(true);
        let used = || store.usage().used;
        let full = used();
        store.delete_file(FileId(0)).await.unwrap();
        wait().await;
        assert_eq!(used(), full, "the index cannot record it");
        machine.index.set_reserve(100);
        wait().await;
        assert!(used() <= full - (1 << 20), "{} of {full}", used());
        // An operation that adds more than it frees does not get the reserve.
        put(&store, 1).await.unwrap();
        store.delete_file(FileId(77)).await.unwrap();
        let added = store.apply().await.unwrap_err();
        assert!(matches!(added, StoreError::IndexFull { .. }), "{added}");
        // A check needs little space and was requested: it may use the reserve.
        store.check_begin().await.unwrap();
        store.close().await.unwrap();
    });
}

#[test]
fn a_removed_fork_of_many_chunks_leaves_the_index_in_steps() {
    run(async {
        let mut machine = Machine::new(12);
        machine.truncate_chunks = 1;
        let store = machine.open().await.unwrap();
        let empty = store.usage().used;
        for n in 0..100 {
            let one = write(&key(1, 0), 4_096, n * 4_096, pattern(n, 4_096));
            store.write(vec![one], now()).await.unwrap();
        }
        store.apply().await.unwrap();
        store.drop_cache();
        store.delete_file(FileId(1)).await.unwrap();
        let (steps, before) = (machine.index.steps(0).len(), store.usage().used);
        store.apply().await.unwrap();
        // One call frees all of it, eight chunks at a time.
        assert!(store.usage().used <= empty + 8_192, "{before}");
        assert!(machine.index.steps(0).len() - steps >= 100 / 8, "in steps");
        nothing_is_wrong(&store).await;
    });
}

#[test]
fn a_removal_that_exhausts_the_reserve_continues_later() {
    run(async {
        let mut machine = Machine::new(13);
        machine.truncate_chunks = 1;
        let store = machine.open().await.unwrap();
        let empty = store.usage().used;
        for file in 1..3 {
            for n in 0..100 {
                let one = write(&key(file, 0), 4_096, n * 4_096, pattern(n, 4_096));
                store.write(vec![one], now()).await.unwrap();
            }
        }
        store.apply().await.unwrap();
        store.drop_cache();
        let full = store.usage().used;
        machine.index.set_full(true);
        store.delete_file(FileId(1)).await.unwrap();
        // The application, and two steps of eight chunks.
        machine.index.set_reserve(3);
        tokio::time::sleep(Duration::from_secs(20)).await;
        let used = store.usage().used;
        assert_eq!(used, full - 16 * 4_096);
        store
            .write(
                vec![write(&key(1_000, 0), CHUNK, 0, pattern(5, LENGTH))],
                now(),
            )
            .await
            .unwrap();
        store.sync().await.unwrap();
        drop(store);
        machine.kill(13);
        // The remaining chunks belong to no fork; they are removed in steps, too.
        let store = machine.open().await.unwrap();
        assert!(store.usage().used <= empty + 100 * 4_096 + 8_192);
        let chunks = || machine.index.count("chunks");
        let before = chunks();
        assert!(before >= 184, "{before}");
        machine.index.set_reserve(3);
        store.check_begin().await.unwrap();
        assert_eq!(chunks(), before - 16 + 1, "with the chunk that was written");
        machine.index.set_full(false);
        store.apply().await.unwrap();
        nothing_is_wrong(&store).await;
        assert_eq!(chunks(), 101);
        let found = read(&store, &key(1_000, 0), 0, 1 << 20).await;
        assert!(found.unwrap() == pattern(5, LENGTH));
    });
}

async fn nothing_is_wrong(store: &Store) {
    let mut pass = store.check_begin().await.unwrap();
    loop {
        let found = store.check(&mut pass, CHECK_DATA).await.unwrap();
        assert_eq!(found.findings, [], "{found:?}");
        if found.done {
            break;
        }
    }
}

#[test]
fn a_full_index_leaves_everything_in_the_log_and_writers_get_an_error() {
    run(async {
        let machine = Machine::new(10);
        let store = machine.open().await.unwrap();
        put(&store, 0).await.unwrap();
        machine.index.set_full(true);
        let mut refused = None;
        for n in 1..WRITES {
            if let Err(error) = put(&store, n).await {
                refused = Some((n, error));
                break;
            }
        }
        let (first, error) = refused.expect("the log is shorter than the written data");
        assert!(matches!(error, StoreError::IndexFull { .. }), "{error}");
        // Calls that free space still succeed, and a close and a kill lose nothing.
        let (from, offset) = (first - 1, (first - 1) * 100);
        store.delete_file(FileId(first % 50)).await.unwrap();
        store.sync().await.unwrap();
        store.close().await.unwrap();
        drop(store);
        machine.kill(10);
        let store = machine.open().await.unwrap();
        let found = read(&store, &key(from % 50, 0), offset, 1 << 20).await;
        assert!(found.unwrap() == pattern(from, LENGTH));
        // Once there is space, the application resumes by itself.
        machine.index.set_full(false);
        for n in 0..WRITES {
            let one = write(&key(1_000 + n, 0), CHUNK, 0, pattern(n, LENGTH));
            let write = store.write(vec![one], now());
            let done = tokio::time::timeout(Duration::from_mins(10), write).await;
            done.expect("a writer never finishes").unwrap();
        }
        let found = read(&store, &key(from % 50, 0), offset, 1 << 20).await;
        assert!(found.unwrap() == pattern(from, LENGTH));
    });
}

#[test]
fn an_application_that_the_index_refuses_is_completed_later() {
    let mut refusals = 0;
    for after in 0.. {
        let refused = run(async {
            let machine = Machine::new(7);
            let store = machine.open().await.unwrap();
            let of = |file| common::key(file, 0);
            let put = async |file: u64, at: u64| {
                let data = common::pattern(file + at, 70_000);
                let one = common::write(&of(file), 65536, at, data);
                store.write(vec![one], common::now()).await.unwrap();
            };
            for file in 0..6 {
                put(file, 0).await;
            }
            store.apply().await.unwrap();
            for file in 0..3 {
                store.delete_file(FileId(file)).await.unwrap();
            }
            put(3, 70_000).await;
            machine.index.refuse_after(after);
            let apply = async || match store.apply().await {
                Ok(()) | Err(StoreError::IndexFull { .. }) => {}
                Err(error) => panic!("{error}"),
            };
            apply().await;
            // Later changes are not lost, and not overwritten by the refused ones.
            put(3, 0).await;
            put(4, 70_000).await;
            store.delete_file(FileId(5)).await.unwrap();
            apply().await;
            apply().await;
            let refused = !machine.index.refuse_is_due();
            machine.index.refuse_after(-1);
            store.apply().await.unwrap();
            let used = store.usage().used;
            drop(store);
            machine.kill(1);
            let store = machine.open().await.unwrap();
            assert_eq!(store.usage().used, used, "after {after} operations");
            for (file, at) in [(3, 0), (3, 70_000), (4, 0), (4, 70_000)] {
                let found = common::read(&store, &of(file), at, 70_000).await.unwrap();
                assert!(
                    found == common::pattern(file + at, 70_000),
                    "{after}: {file}"
                );
            }
            for file in [0, 1, 2, 5] {
                let gone = common::read(&store, &of(file), 0, 9).await;
                assert!(matches!(gone, Err(StoreError::Stale { .. })), "{gone:?}");
            }
            refused
        });
        if !refused {
            break;
        }
        refusals += 1;
    }
    assert!(refusals > 4, "{refusals}");
}
