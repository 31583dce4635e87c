//! The calls of a store without failures.
#![allow(missing_docs)]

use crate::common;

use bytes::Bytes;
use common::{Machine, key, now, pattern, read, run, write};
use weft_layout::{CellOffset, FileId, OFFSET_MAX};
use weft_store::{ForkName, ForkNameError, Scattered, StoreError};

#[test]
fn reads_return_what_was_written_at_every_size_and_offset() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        for chunk in [4096, 5000, 65536, 100_000, 262_144] {
            let k = key(u64::from(chunk), 0);
            let mut model = Vec::new();
            let sizes = [1, 64, 4095, 4096, 4097, 40_000, 65_536, 300_001];
            for (i, (length, offset)) in sizes
                .into_iter()
                .zip([0, 70, 4000, 8192, 100_000, 12_345, 65_536, 9])
                .enumerate()
            {
                let data = pattern(i as u64 + 1, length);
                if model.len() < offset + length {
                    model.resize(offset + length, 0);
                }
                model[offset..offset + length].copy_from_slice(&data);
                store
                    .write(vec![write(&k, chunk, offset as u64, data)], now())
                    .await
                    .unwrap();
                assert!(
                    read(&store, &k, 0, 1 << 22).await.unwrap() == model,
                    "chunk {chunk}, write {i}"
                );
            }
            store.sync().await.unwrap();
            store.apply().await.unwrap();
            store.drop_cache();
            assert!(
                read(&store, &k, 0, 1 << 22).await.unwrap() == model,
                "chunk {chunk}, cold"
            );
            assert_eq!(
                read(&store, &k, 5001, 70).await.unwrap(),
                &model[5001..5071]
            );
        }
    });
}

#[test]
fn lengths_and_holes_are_sparse_up_to_the_limit() {
    run(async {
        let machine = Machine::new(2);
        let store = machine.open().await.unwrap();
        let k = key(1, 0);
        store
            .write(vec![write(&k, 65536, 1 << 41, &b"far"[..])], now())
            .await
            .unwrap();
        let status = store.status(&k).await.unwrap().unwrap();
        assert_eq!((status.length, status.stored), ((1 << 41) + 3, 4096));
        assert_eq!(
            read(&store, &k, (1 << 41) - 2, 10).await.unwrap(),
            b"\0\0far"
        );
        assert_eq!(read(&store, &k, 7, 3).await.unwrap(), [0; 3]);
        assert!(read(&store, &k, (1 << 41) + 3, 3).await.unwrap().is_empty());
        let last = OFFSET_MAX - 1;
        store
            .write(vec![write(&k, 65536, last, &b"x"[..])], now())
            .await
            .unwrap();
        assert_eq!(store.status(&k).await.unwrap().unwrap().length, OFFSET_MAX);
        let past = store
            .write(vec![write(&k, 65536, last, &b"xy"[..])], now())
            .await;
        assert_eq!(
            past,
            Err(StoreError::PastLimit {
                offset: last,
                length: 2
            })
        );
        store.close().await.unwrap();
        let store = machine.open().await.unwrap();
        assert_eq!(read(&store, &k, last - 1, 9).await.unwrap(), b"\0x");
        assert_eq!(store.status(&k).await.unwrap().unwrap().stored, 8192);
    });
}

#[test]
fn warm_reads_share_the_cache_and_copy_nothing() {
    run(async {
        let machine = Machine::new(3);
        let store = machine.open().await.unwrap();
        let k = key(1, 0);
        store
            .write(vec![write(&k, 262_144, 0, pattern(1, 262_144))], now())
            .await
            .unwrap();
        let before = store.counters();
        let one = store.read(&k, CellOffset(0), 262_144).await.unwrap();
        let two = store.read(&k, CellOffset(0), 262_144).await.unwrap();
        assert!(one.iter().zip(&two).all(|(a, b)| a.as_ptr() == b.as_ptr()));
        let after = store.counters();
        assert_eq!(
            (before.copied_bytes, before.disk_reads),
            (after.copied_bytes, after.disk_reads)
        );
        // A later write does not change the bytes that a reader holds.
        store
            .write(vec![write(&k, 262_144, 0, pattern(2, 100))], now())
            .await
            .unwrap();
        assert_eq!(one.concat(), pattern(1, 262_144));
        assert_eq!(read(&store, &k, 0, 100).await.unwrap(), pattern(2, 100));
    });
}

#[test]
fn a_cold_read_of_one_block_reads_one_block() {
    run(async {
        let machine = Machine::new(4);
        let store = machine.open().await.unwrap();
        let k = key(1, 0);
        store
            .write(vec![write(&k, 262_144, 0, pattern(1, 262_144))], now())
            .await
            .unwrap();
        store.apply().await.unwrap();
        store.drop_cache();
        let before = store.counters();
        read(&store, &k, 40_960, 4096).await.unwrap();
        let after = store.counters();
        assert_eq!(after.disk_read_bytes - before.disk_read_bytes, 4096);
    });
}

#[test]
fn a_batch_of_small_records_is_one_append() {
    run(async {
        let machine = Machine::new(5);
        let store = machine.open().await.unwrap();
        let k = key(1, 0);
        let batch = (0..1000)
            .map(|i| write(&k, 65536, i * 128, pattern(i, 64)))
            .collect();
        let before = store.counters();
        store.write(batch, now()).await.unwrap();
        let after = store.counters();
        assert_eq!(after.log_appends - before.log_appends, 1);
        assert_eq!(after.disk_writes, before.disk_writes);
    });
}

#[test]
fn truncation_is_idempotent_and_leaves_zeros() {
    run(async {
        let machine = Machine::new(6);
        let store = machine.open().await.unwrap();
        let k = key(1, 3);
        let data = pattern(1, 200_000);
        store
            .write(vec![write(&k, 65536, 0, data.clone())], now())
            .await
            .unwrap();
        store.apply().await.unwrap();
        store.drop_cache();
        store
            .truncate(FileId(1), vec![(k.clone(), 70_001)], 5, now())
            .await
            .unwrap();
        store
            .truncate(FileId(1), vec![(k.clone(), 1)], 5, now())
            .await
            .unwrap();
        store
            .truncate(FileId(1), vec![(k.clone(), 2)], 4, now())
            .await
            .unwrap();
        store
            .truncate(
                FileId(1),
                vec![(k.clone(), 150_000), (key(1, 4), 99)],
                6,
                now(),
            )
            .await
            .unwrap();
        let mut model = data[..70_001].to_vec();
        model.resize(150_000, 0);
        assert!(read(&store, &k, 0, 1 << 20).await.unwrap() == model);
        assert_eq!(read(&store, &key(1, 4), 0, 1 << 20).await.unwrap(), [0; 99]);
        store
            .write(vec![write(&key(1, 4), 5000, 98, &b"ab"[..])], now())
            .await
            .unwrap();
        store.close().await.unwrap();
        let store = machine.open().await.unwrap();
        assert!(read(&store, &k, 0, 1 << 20).await.unwrap() == model);
        assert_eq!(store.status(&key(1, 4)).await.unwrap().unwrap().chunk, 5000);
        store
            .truncate(FileId(1), vec![(k.clone(), 0)], 6, now())
            .await
            .unwrap();
        assert_eq!(store.forks(FileId(1)).await.unwrap().len(), 2);
        assert_eq!(store.status(&k).await.unwrap().unwrap().length, 150_000);
    });
}

#[test]
fn a_deleted_file_refuses_all_later_calls_and_frees_its_space() {
    run(async {
        let machine = Machine::new(7);
        let store = machine.open().await.unwrap();
        let k = key(9, 0);
        store
            .write(vec![write(&k, 65536, 0, pattern(1, 1 << 20))], now())
            .await
            .unwrap();
        store.apply().await.unwrap();
        store.close().await.unwrap();
        let store = machine.open().await.unwrap();
        assert_eq!(store.usage().used, 1 << 20);
        store.delete_file(FileId(9)).await.unwrap();
        let late = store
            .write(vec![write(&k, 65536, 0, pattern(1, 10))], now())
            .await;
        assert_eq!(late, Err(StoreError::Stale { file: FileId(9) }));
        tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        assert_eq!(store.usage().used, 0);
        assert_eq!(machine.index.count("chunks"), 0);
        store.close().await.unwrap();
        let store = machine.open().await.unwrap();
        assert_eq!(
            store.status(&k).await,
            Err(StoreError::Stale { file: FileId(9) })
        );
    });
}

#[test]
fn a_removed_fork_is_gone_and_can_be_made_again() {
    run(async {
        let machine = Machine::new(8);
        let store = machine.open().await.unwrap();
        let k = key(1, 0);
        store
            .write(vec![write(&k, 65536, 0, pattern(1, 100_000))], now())
            .await
            .unwrap();
        store.apply().await.unwrap();
        // A caller that saw another state of the fork does not remove it.
        let seen = store.status(&k).await.unwrap().unwrap();
        for (length, modified) in [
            (seen.length + 1, seen.modified),
            (seen.length, weft_store::Timestamp(1)),
        ] {
            let removed = store.remove_unchanged_fork(&k, length, modified).await;
            assert!(!removed.unwrap());
        }
        assert_eq!(store.status(&k).await.unwrap(), Some(seen));
        let removed = store.remove_unchanged_fork(&k, seen.length, seen.modified);
        assert!(removed.await.unwrap());
        store.remove_fork(&k).await.unwrap();
        assert_eq!(store.status(&k).await.unwrap(), None);
        store.create_fork(&k, 4096, now()).await.unwrap();
        let made = store.status(&k).await.unwrap().unwrap();
        assert_eq!((made.length, made.modified), (0, now()));
        store
            .write(vec![write(&k, 4096, 10, &b"new"[..])], now())
            .await
            .unwrap();
        let mismatch = store
            .write(vec![write(&k, 8192, 0, &b"no"[..])], now())
            .await;
        assert_eq!(
            mismatch,
            Err(StoreError::ChunkMismatch {
                file: FileId(1),
                fixed: 4096,
                given: 8192
            })
        );
        machine.kill(3);
        drop(store);
        let store = machine.open().await.unwrap();
        assert_eq!(
            read(&store, &k, 0, 100).await.unwrap(),
            b"\0\0\0\0\0\0\0\0\0\0new"
        );
        assert_eq!(store.usage().used, 4096);
    });
}

#[test]
fn fork_names_are_checked() {
    assert!(ForkName::new("data").is_ok());
    assert_eq!(ForkName::new(""), Err(ForkNameError::Length { length: 0 }));
    assert_eq!(
        ForkName::new(&"x".repeat(256)),
        Err(ForkNameError::Length { length: 256 })
    );
    assert_eq!(
        ForkName::new("a/b"),
        Err(ForkNameError::Character { at: 1 })
    );
}

/// A batch of one disk is accepted before the disk has it; the commit waits, and fails if the disk
/// does. Batches that are dropped in between give their blocks back.
#[test]
fn a_batch_that_the_disk_does_not_take_fails_its_commit_and_changes_nothing() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        let file = key(1, 0);
        let old = pattern(1, 1 << 20);
        let first = vec![write(&file, 65_536, 0, old.clone())];
        store.write(first, now()).await.unwrap();
        let prepare = async |mark| {
            let data = Bytes::from(pattern(mark, 1 << 20));
            let sums = weft_sum::Sums::of(&data);
            let writes = vec![Scattered::from(write(&file, 65_536, 0, data))];
            store.prepare(writes, sums, now()).await.unwrap()
        };
        let used = store.usage().used;
        for mark in 2..40 {
            drop(prepare(mark).await);
        }
        store.sync().await.unwrap();
        assert_eq!(store.usage().used, used);
        machine
            .disk
            .fail_at(machine.disk.operations() + 1, std::io::ErrorKind::Other);
        let batch = prepare(50).await;
        let refused = store.commit_prepared(vec![batch], Vec::new(), now()).await;
        assert!(matches!(refused, Err(StoreError::Io { .. })), "{refused:?}");
        assert_eq!(read(&store, &file, 0, 1 << 20).await.unwrap(), old);
    });
}
