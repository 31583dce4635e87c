//! Clearing ranges of forks: space is freed, lengths stay, and a cleared range survives crashes as
//! a write does.
#![allow(missing_docs)]

use crate::common;

use common::{Machine, key, now, pattern, read, run, write};
use weft_layout::{CellOffset, FileId};
use weft_store::{Store, StoreError};

const CHUNK: u32 = 65536;
const LENGTH: usize = 300_000;

async fn filled(machine: &Machine) -> Store {
    let store = machine.open().await.unwrap();
    let data = pattern(1, LENGTH);
    let all = vec![write(&key(1, 0), CHUNK, 0, data)];
    store.write(all, now()).await.unwrap();
    store
}

async fn runs(store: &Store) -> Vec<std::ops::Range<u64>> {
    let found = store.data_runs(&key(1, 0), None, CellOffset(0), 1000).await;
    found.unwrap().runs
}

#[test]
fn whole_blocks_become_holes_and_their_space_is_freed() {
    run(async {
        let machine = Machine::new(1);
        let store = filled(&machine).await;
        store.sync().await.unwrap();
        let used = store.usage().used;
        let range = 5000..200_000;
        store
            .clear(&[(key(1, 0), range.clone())], now())
            .await
            .unwrap();
        let mut expected = pattern(1, LENGTH);
        expected[5000..200_000].fill(0);
        assert_eq!(
            read(&store, &key(1, 0), 0, 1 << 20).await.unwrap(),
            expected
        );
        // Blocks 2..48 lie in the range; the blocks at its ends stay and are zeroed in part.
        assert_eq!(runs(&store).await, [0..8192, 48 * 4096..LENGTH as u64]);
        let status = store.status(&key(1, 0)).await.unwrap().unwrap();
        assert_eq!(status.length, LENGTH as u64);
        store.apply().await.unwrap();
        assert_eq!(used - store.usage().used, 46 * 4096);
        store.drop_cache();
        assert_eq!(
            read(&store, &key(1, 0), 0, 1 << 20).await.unwrap(),
            expected
        );
    });
}

#[test]
fn clearing_beyond_the_end_frees_all_blocks_and_keeps_the_length() {
    run(async {
        let machine = Machine::new(2);
        let store = filled(&machine).await;
        let all = [(key(1, 0), 0..u64::MAX >> 1)];
        store.clear(&all, now()).await.unwrap();
        assert_eq!(runs(&store).await, []);
        let zeros = read(&store, &key(1, 0), 0, 1 << 20).await.unwrap();
        assert_eq!(zeros, vec![0; LENGTH]);
        store.clear(&all, now()).await.unwrap();
        store.close().await.unwrap();
        let store = machine.open().await.unwrap();
        assert_eq!(store.usage().used, 0);
        let status = store.status(&key(1, 0)).await.unwrap().unwrap();
        assert_eq!((status.length, status.stored), (LENGTH as u64, 0));
        // A missing fork is zeros already, and is not made.
        store.clear(&[(key(9, 0), 0..10)], now()).await.unwrap();
        assert_eq!(store.status(&key(9, 0)).await.unwrap(), None);
    });
}

#[test]
fn an_acknowledged_clear_survives_a_kill_and_a_synced_one_survives_power_loss() {
    for power in [false, true] {
        for seed in 0..10 {
            run(async {
                let machine = Machine::new(seed);
                let store = filled(&machine).await;
                store.sync().await.unwrap();
                let ranges = [
                    (key(1, 0), 100..70_000),
                    (key(1, 0), 131_000..131_080),
                    (key(1, 0), 250_000..400_000),
                ];
                store.clear(&ranges, now()).await.unwrap();
                if power {
                    store.sync().await.unwrap();
                    machine.lose_power(seed);
                } else {
                    machine.kill(seed);
                }
                let mut expected = pattern(1, LENGTH);
                for (_, r) in &ranges {
                    let end = LENGTH.min(r.end as usize);
                    expected[r.start as usize..end].fill(0);
                }
                let store = machine.open().await.unwrap();
                let found = read(&store, &key(1, 0), 0, 1 << 20).await.unwrap();
                assert!(found == expected, "seed {seed}, power {power}");
                assert_eq!(
                    runs(&store).await,
                    [0..4096, 69_632..253_952],
                    "seed {seed}, power {power}"
                );
            });
        }
    }
}

#[test]
fn clearing_frees_space_on_a_full_disk() {
    run(async {
        let machine = Machine::new(3);
        let mut config = machine.config();
        config.capacity = 4 << 20;
        let store = Store::open(config).await.unwrap();
        let put = |file| {
            let all = vec![write(&key(file, 0), CHUNK, 0, pattern(file, 100_000))];
            store.write(all, now())
        };
        let mut full = 0;
        while full < 200 && put(full).await.is_ok() {
            full += 1;
        }
        assert!(full < 200, "the disk was not filled");
        assert!(matches!(put(full).await, Err(StoreError::NoSpace { .. })));
        for file in 0..4 {
            let range = [(key(file, 0), 10..99_990)];
            store.clear(&range, now()).await.unwrap();
        }
        for file in 1000..1003 {
            put(file).await.unwrap();
        }
        let mut expected = pattern(2, 100_000);
        expected[10..99_990].fill(0);
        let found = read(&store, &key(2, 0), 0, 1 << 20).await.unwrap();
        assert!(found == expected);
    });
}

#[test]
fn an_extension_adds_a_hole_and_never_shrinks_a_fork() {
    run(async {
        let machine = Machine::new(4);
        let store = filled(&machine).await;
        for (length, expected) in [(10, 300_000), (1 << 40, 1 << 40), (5, 1 << 40)] {
            store
                .extend(&key(1, 0), CHUNK, length, now())
                .await
                .unwrap();
            let status = store.status(&key(1, 0)).await.unwrap().unwrap();
            assert_eq!(status.length, expected);
        }
        store.extend(&key(1, 1), CHUNK, 77, now()).await.unwrap();
        machine.kill(1);
        let store = machine.open().await.unwrap();
        let long = store.status(&key(1, 0)).await.unwrap().unwrap();
        let made = store.status(&key(1, 1)).await.unwrap().unwrap();
        assert_eq!((long.length, made.length, made.stored), (1 << 40, 77, 0));
        assert_eq!(
            read(&store, &key(1, 0), 0, LENGTH as u64).await.unwrap(),
            pattern(1, LENGTH)
        );
    });
}

/// A truncation that removed no bytes gave the fork a private entry of a chunk: the index must have
/// it when the log is gone.
#[test]
fn a_cleared_range_of_a_chunk_that_replay_made_private_stays_cleared() {
    for truncate_chunks in [1, 1024] {
        run(async {
            let mut machine = Machine::new(11);
            machine.truncate_chunks = truncate_chunks;
            let store = machine.open().await.unwrap();
            let (fork, bytes) = (key(1, 0), pattern(1, 24_576));
            let one = vec![write(&fork, 65_536, 0, bytes.clone())];
            store.write(one, now()).await.unwrap();
            store.extend(&fork, 65_536, 40_000, now()).await.unwrap();
            store.apply().await.unwrap();
            store.checkpoint(FileId(1), 100, now()).await.unwrap();
            let length = vec![(fork.clone(), 24_576)];
            store.truncate(FileId(1), length, 101, now()).await.unwrap();
            drop(store);
            machine.kill(1);
            let store = machine.open().await.unwrap();
            store.apply().await.unwrap();
            let pieces = [(fork.clone(), 3712..24_576)];
            store.clear(&pieces, now()).await.unwrap();
            drop(store);
            machine.kill(2);
            let store = machine.open().await.unwrap();
            let mut wanted = bytes;
            wanted[3712..].fill(0);
            assert!(read(&store, &fork, 0, 1 << 20).await.unwrap() == wanted);
        });
    }
}
