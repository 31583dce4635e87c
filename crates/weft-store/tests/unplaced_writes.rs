//! Small writes that have no block on the disks yet because none is free: they stay as they were
//! acknowledged, whatever happens to their forks.
#![allow(missing_docs)]

use crate::common;

use std::sync::Arc;

use common::{Machine, key, now, pattern, read, run, write};
use weft_layout::FileId;
use weft_store::{DiskConfig, Store, StoreConfig, StoreError};

const CHUNK: u32 = 65_536;
const FILES: u64 = 60;
const LENGTH: usize = 20_480;

async fn put(store: &Store, file: u64, length: usize) -> Result<(), StoreError> {
    let one = write(&key(file, 0), CHUNK, 0, pattern(file, length));
    store.write(vec![one], now()).await
}

async fn truncate(store: &Store, file: u64, length: u64, op: u64) -> Result<(), StoreError> {
    let lengths = vec![(key(file, 0), length)];
    store.truncate(FileId(file), lengths, op, now()).await
}

fn small(machine: &Machine) -> StoreConfig {
    let mut config = machine.config();
    config.capacity = 4 << 20;
    config
}

/// A store on a disk without a free block, with files whose last blocks are only on the disk.
async fn full(machine: &Machine) -> Store {
    let store = Store::open(small(machine)).await.unwrap();
    for file in 1..=FILES {
        put(&store, file, LENGTH).await.unwrap();
    }
    store.close().await.unwrap();
    let store = Store::open(small(machine)).await.unwrap();
    let mut file = 1000;
    while put(&store, file, 4096).await.is_ok() {
        file += 1;
    }
    assert!(file > 1100, "{file}");
    store
}

#[test]
fn a_truncation_on_a_full_disk_outlives_a_dropped_checkpoint() {
    for power in [false, true] {
        run(async {
            let machine = Machine::new(1);
            let store = full(&machine).await;
            for file in 1..=FILES {
                truncate(&store, file, 20_000, 1).await.unwrap();
            }
            for file in 1..=FILES {
                store.checkpoint(FileId(file), 2, now()).await.unwrap();
                store.drop_checkpoint(FileId(file), 2, 3).await.unwrap();
            }
            store.reclaim().await.unwrap();
            for file in 1..=FILES {
                truncate(&store, file, 20_480, 4).await.unwrap();
            }
            store.sync().await.unwrap();
            let mut expected: Vec<Vec<u8>> = (1..=FILES).map(|f| pattern(f, LENGTH)).collect();
            for bytes in &mut expected {
                bytes[20_000..].fill(0);
            }
            let check = async |store: &Store| {
                for (file, bytes) in (1..).zip(&expected) {
                    let found = read(store, &key(file, 0), 0, 1 << 20).await.unwrap();
                    assert!(found == *bytes, "file {file}, power {power}");
                }
            };
            check(&store).await;
            drop(store);
            if power {
                machine.lose_power(1);
            } else {
                machine.kill(1);
            }
            let store = Store::open(small(&machine)).await.unwrap();
            check(&store).await;
            for file in (1..=FILES).chain(1000..2000) {
                store.delete_file(FileId(file)).await.unwrap();
            }
            store.reclaim().await.unwrap();
            assert_eq!(store.usage().used, 0);
        });
    }
}

#[test]
fn writes_left_without_a_block_by_a_failed_disk_outlive_a_dropped_checkpoint() {
    run(async {
        let machine = Machine::new(2);
        let config = |new| {
            let mut config = machine.config();
            config.capacity = 200_000;
            config.dirty_bytes = 1 << 20;
            config.disks.push(DiskConfig {
                path: "/mnt/a".into(),
                storage: Ok(Arc::new(machine.disk.disk("a"))),
                new,
                capacity: 3_000_000,
                reserve: 0,
            });
            config
        };
        let store = Store::open(config(true)).await.unwrap();
        put(&store, 900, 400_000).await.unwrap();
        store.apply().await.unwrap();
        store.drop_cache();
        // Incomplete blocks: they go to the log, and reserve more blocks than one disk has.
        for file in 1..=FILES {
            put(&store, file, 5_000).await.unwrap();
        }
        // After a failed read the disk gets no new data, and its free blocks cannot be used.
        machine.disk.disk("a").set_broken(true);
        read(&store, &key(900, 0), 0, 1 << 20).await.unwrap_err();
        machine.disk.disk("a").set_broken(false);
        for file in 1..=FILES {
            store.checkpoint(FileId(file), 1, now()).await.unwrap();
            store.drop_checkpoint(FileId(file), 1, 2).await.unwrap();
        }
        store.reclaim().await.unwrap();
        for round in 0..2 {
            for file in 1..=FILES {
                let found = read(&store, &key(file, 0), 0, 1 << 20).await.unwrap();
                assert!(found == pattern(file, 5_000), "file {file}, round {round}");
            }
            tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        }
        drop(store);
        machine.kill(2);
        let store = Store::open(config(false)).await.unwrap();
        for file in 1..=FILES {
            let found = read(&store, &key(file, 0), 0, 1 << 20).await.unwrap();
            assert!(found == pattern(file, 5_000), "file {file}");
            store.delete_file(FileId(file)).await.unwrap();
        }
        store.delete_file(FileId(900)).await.unwrap();
        store.reclaim().await.unwrap();
        assert_eq!(store.usage().used, 0);
    });
}

#[test]
fn a_truncation_without_a_free_block_is_refused_and_others_succeed() {
    run(async {
        let machine = Machine::new(3);
        let store = full(&machine).await;
        // Each keeps the old block for the checkpoint and needs a new one: more than the reserve
        // has.
        for file in 1..=FILES {
            store.checkpoint(FileId(file), 1, now()).await.unwrap();
        }
        let mut refused = 0;
        for file in 1..=FILES {
            let (length, mut bytes) = match truncate(&store, file, 20_000, 2).await {
                Ok(()) => (20_000, pattern(file, LENGTH)),
                Err(StoreError::NoSpace { .. }) => {
                    refused += 1;
                    (LENGTH, pattern(file, LENGTH))
                }
                Err(error) => panic!("{error}"),
            };
            bytes.truncate(length);
            let found = read(&store, &key(file, 0), 0, 1 << 20).await.unwrap();
            assert!(found == bytes, "file {file}");
        }
        assert!((1..FILES).contains(&refused), "{refused}");
        for file in 1..=FILES {
            // A length at a block's boundary needs no block.
            truncate(&store, file, 0, 3).await.unwrap();
            assert_eq!(read(&store, &key(file, 0), 0, 100).await.unwrap(), []);
        }
        for file in 1..=FILES {
            store.delete_file(FileId(file)).await.unwrap();
        }
        put(&store, 5000, 200_000).await.unwrap();
    });
}
