//! Damaged blocks when they are overwritten, truncated or repaired.
#![allow(missing_docs)]

use crate::common;

use common::{Machine, key, now, pattern, read, run, write};
use weft_layout::FileId;
use weft_store::{CheckOptions, Fault, Finding, Store, StoreError};

const CHUNK: u32 = 16384;

/// A file of one chunk whose second block is bad and not in the cache.
async fn with_a_bad_block(machine: &Machine) -> Store {
    let store = machine.open().await.unwrap();
    let all = vec![write(&key(1, 0), CHUNK, 0, pattern(1, 16 << 10))];
    store.write(all, now()).await.unwrap();
    store.apply().await.unwrap();
    store.drop_cache();
    let blocks = machine.disk.blocks("data");
    assert!(machine.disk.flip("data", blocks[1] * 4096 + 7, 1));
    let bad = read(&store, &key(1, 0), 4096, 4096).await;
    assert!(matches!(bad, Err(StoreError::BadChecksum { .. })));
    store
}

#[test]
fn a_bad_block_is_good_again_when_one_piece_covers_it() {
    run(async {
        let machine = Machine::new(1);
        let store = with_a_bad_block(&machine).await;
        let over = vec![write(&key(1, 0), CHUNK, 4000, pattern(2, 4400))];
        store.write(over, now()).await.unwrap();
        let found = read(&store, &key(1, 0), 4000, 4400).await;
        assert_eq!(found.unwrap(), pattern(2, 4400));
    });
}

#[test]
fn a_bad_block_is_good_again_when_the_pieces_of_a_batch_cover_it_together() {
    run(async {
        let machine = Machine::new(1);
        let store = with_a_bad_block(&machine).await;
        let halves = [4096, 6144].map(|at| write(&key(1, 0), CHUNK, at, pattern(at, 2048)));
        store.write(halves.to_vec(), now()).await.unwrap();
        let right = [pattern(4096, 2048), pattern(6144, 2048)].concat();
        let found = read(&store, &key(1, 0), 4096, 4096).await;
        assert_eq!(found.unwrap(), right);
        for kill in [true, false] {
            store.sync().await.unwrap();
            if kill {
                machine.kill(3);
            } else {
                machine.lose_power(4);
            }
            let store = machine.open().await.unwrap();
            let found = read(&store, &key(1, 0), 4096, 4096).await;
            assert_eq!(found.unwrap(), right);
            let found = read(&store, &key(1, 0), 0, 4096).await;
            assert_eq!(found.unwrap(), pattern(1, 16 << 10)[..4096]);
        }
    });
}

#[test]
fn pieces_that_leave_a_byte_of_a_bad_block_are_refused() {
    run(async {
        let machine = Machine::new(1);
        let store = with_a_bad_block(&machine).await;
        let most = [(4096, 2048), (6145, 2047)];
        let most = most.map(|(at, length)| write(&key(1, 0), CHUNK, at, pattern(at, length)));
        let refused = store.write(most.to_vec(), now()).await;
        assert!(matches!(refused, Err(StoreError::BadChecksum { .. })));
    });
}

#[test]
fn a_truncation_inside_a_bad_block_succeeds() {
    run(async {
        let machine = Machine::new(1);
        let store = with_a_bad_block(&machine).await;
        let cut = vec![(key(1, 0), 5000)];
        store.truncate(FileId(1), cut, 1, now()).await.unwrap();
        let assert_cut = async |store: &Store| {
            let status = store.status(&key(1, 0)).await.unwrap();
            assert_eq!(status.map(|s| s.length), Some(5000));
            let before = read(store, &key(1, 0), 0, 4096).await;
            assert_eq!(before.unwrap(), pattern(1, 16 << 10)[..4096]);
            // The rest of the block is lost; it is not a hole.
            assert!(read(store, &key(1, 0), 4096, 904).await.is_err());
        };
        assert_cut(&store).await;
        machine.kill(1);
        let store = machine.open().await.unwrap();
        assert_cut(&store).await;
        store.sync().await.unwrap();
        machine.lose_power(2);
        let store = machine.open().await.unwrap();
        assert_cut(&store).await;
        store.apply().await.unwrap();
        machine.kill(3);
        let store = machine.open().await.unwrap();
        assert_cut(&store).await;
        // After another truncation and an extension the block is still not a hole.
        let cut = vec![(key(1, 0), 4500)];
        store.truncate(FileId(1), cut, 2, now()).await.unwrap();
        let longer = vec![(key(1, 0), 20_000)];
        store.truncate(FileId(1), longer, 3, now()).await.unwrap();
        assert!(read(&store, &key(1, 0), 4096, 100).await.is_err());
        let hole = read(&store, &key(1, 0), 8192, 4096).await;
        assert_eq!(hole.unwrap(), [0; 4096]);
        // A write makes the block good.
        let halves = [4096, 6144].map(|at| write(&key(1, 0), CHUNK, at, pattern(at, 2048)));
        store.write(halves.to_vec(), now()).await.unwrap();
        let found = read(&store, &key(1, 0), 4096, 2048).await;
        assert_eq!(found.unwrap(), pattern(4096, 2048));
        assert_eq!(checked(&store, false).await, []);
    });
}

/// The findings of a check with data, each with its repair.
async fn checked(store: &Store, repair: bool) -> Vec<(Finding, Option<String>)> {
    let (mut pass, mut findings) = (store.check_begin().await.unwrap(), Vec::new());
    loop {
        let step = store
            .check(&mut pass, CheckOptions { data: true, repair })
            .await
            .unwrap();
        findings.extend(step.findings);
        if step.done {
            return findings;
        }
    }
}

/// Lost bytes of the live fork.
fn lost_now(range: std::ops::Range<u64>) -> Fault {
    Fault::Lost {
        range,
        checkpoint: None,
    }
}

/// The findings of a check; asserts that they are only lost bytes.
async fn lost(store: &Store) -> Vec<Fault> {
    let found = checked(store, false).await.into_iter();
    let found: Vec<Fault> = found.map(|(finding, _)| finding.fault).collect();
    let only = found
        .iter()
        .all(|fault| matches!(fault, Fault::Lost { .. }));
    assert!(only, "{found:?}");
    found
}

#[test]
fn a_repair_marks_a_bad_block_as_lost_and_keeps_the_bytes_on_the_disk() {
    run(async {
        let machine = Machine::new(1);
        let store = with_a_bad_block(&machine).await;
        // A check only reports.
        for _ in 0..2 {
            let found = checked(&store, false).await;
            assert!(matches!(&found[..], [(_, None)]), "{found:?}");
        }
        let found = checked(&store, true).await;
        let [(finding, Some(done)), (lost, None)] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(finding.blocks, 1..2);
        assert_eq!(
            (&lost.fault, lost.blocks.clone()),
            (&lost_now(4096..8192), 1..2)
        );
        assert!(done.contains("marked as lost"), "{done}");
        let name = machine
            .disk
            .names()
            .into_iter()
            .find(|name| name.starts_with("damaged."));
        let name = name.unwrap();
        assert!(done.contains(&name), "{done}");
        let mut kept = machine.disk.bytes(&name).unwrap();
        kept[7] ^= 2;
        assert_eq!(kept, pattern(1, 16 << 10)[4096..8192]);
        // A second repair finds the loss, now and after a power loss; the lost bytes never become
        // a hole.
        let lost = vec![(lost.clone(), None)];
        assert_eq!(checked(&store, true).await, lost);
        machine.lose_power(5);
        let store = machine.open().await.unwrap();
        assert_eq!(checked(&store, true).await, lost);
        assert!(read(&store, &key(1, 0), 4096, 4096).await.is_err());
        for (at, length) in [(0, 4096), (8192, 8192)] {
            let found = read(&store, &key(1, 0), at, length).await.unwrap();
            assert_eq!(
                found,
                pattern(1, 16 << 10)[at as usize..][..length as usize]
            );
        }
    });
}

#[test]
fn a_repair_of_a_block_shared_with_a_checkpoint_marks_it_as_lost_in_both() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        let all = vec![write(&key(1, 0), CHUNK, 0, pattern(1, 16 << 10))];
        store.write(all, now()).await.unwrap();
        store.checkpoint(FileId(1), 1, now()).await.unwrap();
        // The live fork has a private entry, which shares three blocks.
        let first = vec![write(&key(1, 0), CHUNK, 0, pattern(2, 4096))];
        store.write(first, now()).await.unwrap();
        store.apply().await.unwrap();
        store.drop_cache();
        let shared = machine.disk.blocks("data")[1];
        assert!(machine.disk.flip("data", shared * 4096 + 7, 1));
        let found = checked(&store, true).await;
        assert_eq!(found.iter().filter(|(_, done)| done.is_some()).count(), 1);
        let mut faults: Vec<Fault> = lost(&store).await;
        assert_eq!(faults.len(), 2, "{faults:?}");
        machine.kill(5);
        let store = machine.open().await.unwrap();
        faults.sort_by_key(|fault| *fault == lost_now(4096..8192));
        let kept = Fault::Lost {
            range: 4096..8192,
            checkpoint: Some(1),
        };
        assert_eq!(faults, [kept, lost_now(4096..8192)]);
        assert_eq!(lost(&store).await.len(), 2);
        assert!(read(&store, &key(1, 0), 4096, 4096).await.is_err());
        let found = read(&store, &key(1, 0), 8192, 8192).await;
        assert_eq!(found.unwrap(), pattern(1, 16 << 10)[8192..]);
    });
}

#[test]
fn a_repair_rewrites_a_bad_block_from_the_cache() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        let all = vec![write(&key(1, 0), CHUNK, 0, pattern(1, 16 << 10))];
        store.write(all, now()).await.unwrap();
        store.apply().await.unwrap();
        let blocks = machine.disk.blocks("data");
        // A read ensures that the blocks are in the cache.
        read(&store, &key(1, 0), 0, 16 << 10).await.unwrap();
        assert!(machine.disk.flip("data", blocks[2] * 4096 + 7, 1));
        let found = checked(&store, true).await;
        let [(_, Some(done))] = &found[..] else {
            panic!("{found:?}");
        };
        assert!(done.contains("from the server's cache"), "{done}");
        store.sync().await.unwrap();
        store.apply().await.unwrap();
        assert_eq!(checked(&store, false).await, []);
        machine.lose_power(5);
        let store = machine.open().await.unwrap();
        assert_eq!(checked(&store, false).await, []);
        let found = read(&store, &key(1, 0), 0, 16 << 10).await;
        assert_eq!(found.unwrap(), pattern(1, 16 << 10));
    });
}

#[test]
fn a_rewritten_lost_block_that_is_truncated_or_cleared_survives_a_kill() {
    for punch in [false, true] {
        run(async {
            let machine = Machine::new(1);
            let store = with_a_bad_block(&machine).await;
            assert_eq!(checked(&store, true).await.len(), 2);
            let over = vec![write(&key(1, 0), CHUNK, 4096, pattern(5, 4096))];
            store.write(over, now()).await.unwrap();
            if punch {
                let range = vec![(key(1, 0), 5000..16 << 10)];
                store.clear(&range, now()).await.unwrap();
            } else {
                let cut = vec![(key(1, 0), 5000)];
                store.truncate(FileId(1), cut, 1, now()).await.unwrap();
                let longer = vec![(key(1, 0), 16 << 10)];
                store.truncate(FileId(1), longer, 2, now()).await.unwrap();
            }
            let mut right = pattern(5, 4096);
            right[904..].fill(0);
            let found = read(&store, &key(1, 0), 4096, 4096).await;
            assert_eq!(found.unwrap(), right);
            machine.kill(3);
            let store = machine.open().await.unwrap();
            let found = read(&store, &key(1, 0), 4096, 4096).await;
            assert_eq!(found.unwrap(), right, "punch {punch}");
        });
    }
}
