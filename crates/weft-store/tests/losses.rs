//! Lost bytes stay lost and are reported until they are written again, removed or accepted.
#![allow(missing_docs)]

use crate::common;

use common::{Machine, REPAIR_DATA, key, now, pattern, read, run, write};
use weft_layout::FileId;
use weft_store::{Losses, Store, StoreError};

const CHUNK: u32 = 16384;
const LENGTH: u64 = 40_000;
const ONE_LOSS: Losses = Losses {
    files: 1,
    ranges: 1,
    bytes: 8192,
    more: false,
};

async fn put(store: &Store, file: u64) {
    let all = vec![write(
        &key(file, 0),
        CHUNK,
        0,
        pattern(file, LENGTH as usize),
    )];
    store.write(all, now()).await.unwrap();
}

/// Two files; two blocks of the first are lost, in its second chunk.
async fn with_a_loss(machine: &Machine) -> Store {
    let store = machine.open().await.unwrap();
    put(&store, 1).await;
    store.apply().await.unwrap();
    let blocks = machine.disk.blocks("data");
    put(&store, 2).await;
    store.apply().await.unwrap();
    store.drop_cache();
    assert_eq!(store.losses().unwrap(), Losses::default());
    for block in &blocks[5..7] {
        assert!(machine.disk.flip("data", block * 4096 + 7, 1));
    }
    repair(&store).await;
    assert_eq!(store.losses().unwrap(), ONE_LOSS);
    store
}

async fn repair(store: &Store) {
    let mut pass = store.check_begin().await.unwrap();
    while !store.check(&mut pass, REPAIR_DATA).await.unwrap().done {}
}

async fn is_lost(store: &Store, at: u64) -> bool {
    match read(store, &key(1, 0), at, 100).await {
        Ok(_) => false,
        Err(StoreError::Lost { file, range, .. }) => {
            assert_eq!((file.0, range.contains(&at)), (1, true), "{range:?}");
            true
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_read_of_lost_bytes_names_the_file_and_the_whole_range() {
    run(async {
        let machine = Machine::new(1);
        let store = with_a_loss(&machine).await;
        for (at, length) in [(20_480, 1), (28_671, 1), (0, LENGTH)] {
            let error = read(&store, &key(1, 0), at, length).await.unwrap_err();
            let StoreError::Lost { file, range, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!((file.0, range.clone()), (1, 20_480..28_672));
            let words = "bytes 20480..28672 of cell 0, fork data of file 1 are lost";
            assert!(error.to_string().contains(words), "{error}");
        }
        for (at, length) in [(0, 20_480), (28_672, LENGTH - 28_672)] {
            let found = read(&store, &key(1, 0), at, length).await.unwrap();
            assert_eq!(
                found,
                pattern(1, LENGTH as usize)[at as usize..][..length as usize]
            );
        }
    });
}

#[test]
fn a_loss_is_remembered_after_a_kill_a_power_loss_and_a_clean_close() {
    run(async {
        let machine = Machine::new(2);
        let store = with_a_loss(&machine).await;
        machine.kill(1);
        let store = (drop(store), machine.open().await.unwrap()).1;
        assert_eq!(store.losses().unwrap(), ONE_LOSS);
        store.sync().await.unwrap();
        machine.lose_power(2);
        let store = (drop(store), machine.open().await.unwrap()).1;
        assert_eq!(store.losses().unwrap(), ONE_LOSS);
        store.close().await.unwrap();
        let store = (drop(store), machine.open().await.unwrap()).1;
        assert_eq!(store.losses().unwrap(), ONE_LOSS);
        assert!(is_lost(&store, 20_480).await);
    });
}

#[test]
fn rewriting_truncating_clearing_or_removing_lost_bytes_ends_the_loss() {
    for how in 0..4 {
        run(async {
            let machine = Machine::new(3);
            let store = with_a_loss(&machine).await;
            let one = key(1, 0);
            let left = match how {
                0 => {
                    let half = write(&one, CHUNK, 20_480, pattern(7, 4096));
                    store.write(vec![half], now()).await.unwrap();
                    Some(4096)
                }
                1 => {
                    let cut = vec![(one.clone(), 24_576)];
                    store.truncate(FileId(1), cut, 1, now()).await.unwrap();
                    let longer = vec![(one.clone(), LENGTH)];
                    store.truncate(FileId(1), longer, 2, now()).await.unwrap();
                    Some(4096)
                }
                2 => {
                    store
                        .clear(&[(one.clone(), 16_384..32_768)], now())
                        .await
                        .unwrap();
                    None
                }
                _ => {
                    store.delete_file(FileId(1)).await.unwrap();
                    None
                }
            };
            let expected = left.map(|bytes| Losses { bytes, ..ONE_LOSS });
            assert_eq!(
                store.losses().unwrap(),
                expected.unwrap_or_default(),
                "{how}"
            );
            machine.kill(4);
            let store = (drop(store), machine.open().await.unwrap()).1;
            assert_eq!(
                store.losses().unwrap(),
                expected.unwrap_or_default(),
                "{how}"
            );
        });
    }
}

#[test]
fn a_rollback_to_a_checkpoint_with_the_bytes_ends_a_loss() {
    run(async {
        let machine = Machine::new(4);
        let store = machine.open().await.unwrap();
        put(&store, 1).await;
        store.checkpoint(FileId(1), 1, now()).await.unwrap();
        let over = vec![write(&key(1, 0), CHUNK, 20_480, pattern(8, 8192))];
        store.write(over, now()).await.unwrap();
        store.apply().await.unwrap();
        store.drop_cache();
        let newest = machine.disk.blocks("data");
        let newest = &newest[newest.len() - 2..];
        for block in newest {
            assert!(machine.disk.flip("data", block * 4096 + 7, 1));
        }
        repair(&store).await;
        assert_eq!(store.losses().unwrap(), ONE_LOSS);
        assert!(is_lost(&store, 20_480).await);
        store.roll_back(FileId(1), 1, 5, now()).await.unwrap();
        assert!(!is_lost(&store, 20_480).await);
        assert_eq!(store.losses().unwrap(), Losses::default());
        let found = read(&store, &key(1, 0), 0, LENGTH).await.unwrap();
        assert!(found == pattern(1, LENGTH as usize));
    });
}

/// The contents of a file whose loss was accepted.
fn accepted() -> Vec<u8> {
    let mut right = pattern(1, LENGTH as usize);
    right[20_480..28_672].fill(0);
    right
}

#[test]
fn accepted_losses_read_as_zeros_in_the_file_and_its_checkpoints() {
    run(async {
        let machine = Machine::new(5);
        let store = machine.open().await.unwrap();
        put(&store, 1).await;
        store.apply().await.unwrap();
        let blocks = machine.disk.blocks("data");
        store.checkpoint(FileId(1), 1, now()).await.unwrap();
        // The live fork has a private entry, which shares the lost blocks.
        let near = vec![write(&key(1, 0), CHUNK, 16_384, pattern(8, 4096))];
        store.write(near, now()).await.unwrap();
        store.apply().await.unwrap();
        store.drop_cache();
        for block in &blocks[5..7] {
            assert!(machine.disk.flip("data", block * 4096 + 7, 1));
        }
        repair(&store).await;
        let status = store.status(&key(1, 0)).await.unwrap().unwrap();
        assert_eq!(
            store.losses().unwrap(),
            Losses {
                ranges: 2,
                bytes: 16_384,
                ..ONE_LOSS
            }
        );
        assert_eq!(
            store.accept_losses(FileId(2)).await.unwrap(),
            Losses::default()
        );
        let taken = store.accept_losses(FileId(1)).await.unwrap();
        assert_eq!((taken.ranges, taken.bytes), (2, 16_384));
        for round in 0..3 {
            assert_eq!(store.losses().unwrap(), Losses::default(), "{round}");
        }
        let mut right = accepted();
        right[16_384..20_480].copy_from_slice(&pattern(8, 4096));
        machine.lose_power(6);
        let store = (drop(store), machine.open().await.unwrap()).1;
        assert!(read(&store, &key(1, 0), 0, LENGTH).await.unwrap() == right);
        let after = store.status(&key(1, 0)).await.unwrap().unwrap();
        assert_eq!(
            (after.length, after.modified),
            (status.length, status.modified)
        );
        store.apply().await.unwrap();
        store.roll_back(FileId(1), 1, 5, now()).await.unwrap();
        assert!(read(&store, &key(1, 0), 0, LENGTH).await.unwrap() == accepted());
        assert_eq!(store.losses().unwrap(), Losses::default());
    });
}

#[test]
fn a_crash_during_the_acceptance_of_a_loss_leaves_the_loss_or_zeros() {
    for power in [false, true] {
        let mut at = 1;
        let mut seen = [false; 2];
        loop {
            let (died, zeros) = run(async {
                let machine = Machine::new(100 + at);
                let store = with_a_loss(&machine).await;
                machine.disk.die_at(machine.disk.operations() + at);
                let done = store.accept_losses(FileId(1)).await.is_ok();
                let died = machine.disk.is_dead();
                drop(store);
                if power {
                    machine.lose_power(at);
                } else {
                    machine.kill(at);
                }
                let store = machine.open().await.unwrap();
                let zeros = !is_lost(&store, 20_480).await;
                assert!(zeros || !done, "operation {at}: the call succeeded");
                assert_eq!(store.losses().unwrap() == Losses::default(), zeros);
                if zeros {
                    assert!(read(&store, &key(1, 0), 0, LENGTH).await.unwrap() == accepted());
                } else {
                    assert_eq!(store.losses().unwrap(), ONE_LOSS);
                }
                (died, zeros)
            });
            seen[usize::from(zeros)] = true;
            if !died {
                break;
            }
            at += 1;
        }
        assert_eq!(seen, [true; 2], "power loss {power}");
    }
}
