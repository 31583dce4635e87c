//! Blocks whose bytes other servers can compute: coded, read, written over, and brought back.
#![allow(missing_docs)]

use crate::common;

use common::{CHECK_DATA, Machine, key, now, pattern, read, run, write};
use weft_layout::{CellOffset, FileId};
use weft_store::{Restored, Store, StoreError};

const CHUNK: u32 = 65536;
const FILE: FileId = FileId(1);
/// Three chunks, and a part of a fourth that ends within a block.
const LENGTH: usize = 3 * CHUNK as usize + 5000;

/// A file of which checkpoint 1 is coded.
async fn coded(store: &Store) -> Vec<u8> {
    let bytes = pattern(1, LENGTH);
    let whole = write(&key(1, 0), CHUNK, 0, bytes.clone());
    store.write(vec![whole], now()).await.unwrap();
    store.checkpoint(FILE, 1, now()).await.unwrap();
    let refused = store.code_blocks(FILE, Some(1), &|| false).await.unwrap();
    assert_eq!(refused, 0, "its server may have become primary");
    let coded = store.code_blocks(FILE, Some(1), &|| true).await.unwrap();
    assert_eq!(coded, LENGTH.next_multiple_of(4096) as u64);
    bytes
}

fn is_coded<T>(result: Result<T, StoreError>) {
    let error = result.map(drop).expect_err("its bytes are not here");
    assert!(
        matches!(error, StoreError::Coded { file: FILE, .. }),
        "{error}"
    );
}

async fn read_all(store: &Store) -> Result<Vec<u8>, StoreError> {
    read(store, &key(1, 0), 0, LENGTH as u64).await
}

/// A check of all blocks finds nothing.
async fn check(store: &Store) {
    let mut pass = store.check_begin().await.unwrap();
    loop {
        let step = store.check(&mut pass, CHECK_DATA).await.unwrap();
        assert!(step.findings.is_empty(), "{:?}", step.findings);
        if step.done {
            return;
        }
    }
}

/// Gives all blocks back.
async fn restore(store: &Store, bytes: &[u8]) -> Restored {
    let restored = store.restore_coded(&key(1, 0), CellOffset(0), bytes).await;
    restored.unwrap()
}

#[test]
fn coded_blocks_take_no_space_are_never_shown_and_come_back_as_they_were() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        let bytes = coded(&store).await;
        store.sync().await.unwrap();
        assert_eq!(store.usage().used, 0);
        is_coded(read_all(&store).await);
        let all = std::iter::once(0..LENGTH as u64).collect::<Vec<_>>();
        for checkpoint in [None, Some(1)] {
            for _ in 0..2 {
                let fork = key(1, 0);
                let found = store.data_runs(&fork, checkpoint, CellOffset(0), 64).await;
                assert_eq!(found.unwrap().runs, all, "coded bytes are data");
                store.apply().await.unwrap();
                store.drop_cache();
            }
        }
        let fork = key(1, 0);
        let kept = store.read_checkpoint(&fork, 1, CellOffset(0), 100);
        is_coded(kept.await);
        check(&store).await;
        assert_eq!(store.losses().unwrap().ranges, 0, "nothing is lost");

        let mut wrong = bytes.clone();
        wrong[5000] ^= 1;
        let restored = restore(&store, &wrong).await;
        let blocks = LENGTH.div_ceil(4096) as u64;
        assert_eq!(
            restored,
            Restored {
                blocks: blocks - 1,
                refused: 1
            }
        );
        is_coded(read_all(&store).await);
        assert_eq!(restore(&store, &bytes).await.blocks, 1);
        assert_eq!(restore(&store, &bytes).await, Restored::default());
        assert!(read_all(&store).await.unwrap() == bytes);
        check(&store).await;
    });
}

#[test]
fn a_crash_keeps_blocks_coded_and_what_was_written_over_them() {
    run(async {
        for (seed, power) in (0..8).flat_map(|seed| [(seed, false), (seed, true)]) {
            let machine = Machine::new(seed);
            let store = machine.open().await.unwrap();
            let mut bytes = coded(&store).await;
            // A part of a block is refused, until its block is back.
            let part = || vec![write(&key(1, 0), CHUNK, 100, pattern(2, 50))];
            is_coded(store.write(part(), now()).await);
            let block = &bytes[..4096];
            let restored = store.restore_coded(&key(1, 0), CellOffset(0), block).await;
            assert_eq!(restored.unwrap().blocks, 1);
            store.write(part(), now()).await.unwrap();
            bytes[100..150].copy_from_slice(&pattern(2, 50));
            // Whole blocks are written over coded ones as over any other.
            let large = write(&key(1, 0), CHUNK, 8192, pattern(3, 100 << 10));
            store.write(vec![large], now()).await.unwrap();
            bytes[8192..8192 + (100 << 10)].copy_from_slice(&pattern(3, 100 << 10));
            if power {
                store.sync().await.unwrap();
                machine.lose_power(seed);
            } else {
                machine.kill(seed);
            }
            drop(store);
            let store = machine.open().await.unwrap();
            let head = read(&store, &key(1, 0), 0, 4096).await.unwrap();
            assert!(head == bytes[..4096]);
            let written = read(&store, &key(1, 0), 8192, 100 << 10).await.unwrap();
            assert!(written == bytes[8192..8192 + (100 << 10)]);
            is_coded(read(&store, &key(1, 0), 4096, 1).await);
            restore(&store, &bytes).await;
            assert!(read_all(&store).await.unwrap() == bytes);
            check(&store).await;
        }
    });
}

#[test]
fn truncation_clearing_and_dropped_checkpoints_leave_coded_blocks_right() {
    run(async {
        let machine = Machine::new(3);
        let store = machine.open().await.unwrap();
        let bytes = coded(&store).await;
        let cut = |op| store.truncate(FILE, vec![(key(1, 0), 70_000)], op, now());
        is_coded(cut(2).await);
        let (fork, block) = (key(1, 0), CellOffset(65_536));
        let restored = store.restore_coded(&fork, block, &bytes[65_536..69_632 + 4096]);
        assert_eq!(restored.await.unwrap().blocks, 2);
        cut(2).await.unwrap();
        // The live fork gets the blocks of the checkpoint.
        store.drop_checkpoint(FILE, 1, 3).await.unwrap();
        store.reclaim().await.unwrap();
        check(&store).await;
        machine.kill(4);
        drop(store);
        let store = machine.open().await.unwrap();
        is_coded(read(&store, &key(1, 0), 0, 1).await);
        restore(&store, &bytes).await;
        let mut expected = bytes[..70_000].to_vec();
        assert!(read(&store, &key(1, 0), 0, 70_000).await.unwrap() == expected);
        // What was beyond the cut does not come back.
        let far = write(&key(1, 0), CHUNK, 80_000, vec![7]);
        store.write(vec![far], now()).await.unwrap();
        restore(&store, &bytes).await;
        expected.resize(80_000, 0);
        assert!(read(&store, &key(1, 0), 0, 80_000).await.unwrap() == expected);
        store.clear(&[(key(1, 0), 0..80_001)], now()).await.unwrap();
        store.sync().await.unwrap();
        assert_eq!(store.usage().used, 0);
        check(&store).await;
    });
}

#[test]
fn blocks_that_were_written_since_the_checkpoint_stay() {
    run(async {
        let machine = Machine::new(5);
        let store = machine.open().await.unwrap();
        let bytes = pattern(1, LENGTH);
        let whole = write(&key(1, 0), CHUNK, 0, bytes.clone());
        store.write(vec![whole], now()).await.unwrap();
        store.checkpoint(FILE, 1, now()).await.unwrap();
        let new = pattern(9, 4096);
        let fresh = write(&key(1, 0), CHUNK, 4096, new.clone());
        store.write(vec![fresh], now()).await.unwrap();
        store.code_blocks(FILE, Some(1), &|| true).await.unwrap();
        assert!(read(&store, &key(1, 0), 4096, 4096).await.unwrap() == new);
        is_coded(read(&store, &key(1, 0), 0, 4097).await);
        // A second checkpoint keeps what the first has not, and then has all of it.
        store.checkpoint(FILE, 2, now()).await.unwrap();
        assert_eq!(
            store.code_blocks(FILE, Some(2), &|| true).await.unwrap(),
            4096
        );
        store.drop_checkpoint(FILE, 1, 3).await.unwrap();
        store.reclaim().await.unwrap();
        let mut now = bytes;
        now[4096..8192].copy_from_slice(&new);
        restore(&store, &now).await;
        assert!(read_all(&store).await.unwrap() == now);
        check(&store).await;
        // The live forks of a file without checkpoints.
        store.drop_checkpoint(FILE, 2, 4).await.unwrap();
        store.reclaim().await.unwrap();
        store.code_blocks(FILE, None, &|| true).await.unwrap();
        store.sync().await.unwrap();
        assert_eq!(store.usage().used, 0);
        restore(&store, &now).await;
        assert!(read_all(&store).await.unwrap() == now);
    });
}
