//! Checkpoints of several files in one call: a crash leaves all of them or none of them.
#![allow(missing_docs)]

use crate::common;

use common::{Machine, key, now, pattern, read, run, write};
use weft_layout::{CellOffset, FileId};
use weft_store::{Store, StoreError};

const CHUNK: u32 = 65_536;
const FILES: [u64; 5] = [1, 2, 3, 7, 9];
const NUMBER: u64 = 20;

async fn fill(store: &Store, mark: u64) -> Result<(), StoreError> {
    for file in FILES {
        for cell in 0..3 {
            let one = write(&key(file, cell), CHUNK, 0, pattern(mark + file, 9_000));
            store.write(vec![one], now()).await?;
        }
    }
    store.sync().await
}

/// The number of files with the checkpoint; asserts that it has their contents of that time.
async fn kept(store: &Store) -> usize {
    let mut count = 0;
    for file in FILES {
        let made = store.checkpoints(FileId(file)).unwrap();
        count += usize::from(made.iter().any(|(number, _)| *number == NUMBER));
        for cell in (0..3).filter(|_| !made.is_empty()) {
            let fork = key(file, cell);
            let kept = store.read_checkpoint(&fork, NUMBER, CellOffset(0), 1 << 20);
            assert!(kept.await.unwrap().concat() == pattern(100 + file, 9_000));
        }
    }
    count
}

/// The number of files with their contents of the checkpoint.
async fn rolled_back(store: &Store) -> usize {
    let mut count = 0;
    for file in FILES {
        let mut cells = Vec::new();
        for cell in 0..3 {
            cells.push(read(store, &key(file, cell), 0, 1 << 20).await.unwrap());
        }
        let all = |mark| cells.iter().all(|c| *c == pattern(mark + file, 9_000));
        assert!(all(100) || all(200), "file {file}");
        count += usize::from(all(100));
    }
    count
}

fn files() -> Vec<FileId> {
    FILES.map(FileId).to_vec()
}

/// Makes a checkpoint or rolls back to it, and dies at operation `at` of that; returns whether
/// that operation was reached.
async fn die_at(at: u64, power: bool, back: bool) -> bool {
    let machine = Machine::new(at);
    let store = machine.open().await.unwrap();
    fill(&store, 100).await.unwrap();
    if back {
        store
            .checkpoint_files(&files(), NUMBER, now())
            .await
            .unwrap();
        fill(&store, 200).await.unwrap();
    }
    machine.disk.die_at(machine.disk.operations() + at);
    let made = if back {
        store
            .roll_back_files(&files(), NUMBER, NUMBER + 1, now())
            .await
    } else {
        store.checkpoint_files(&files(), NUMBER, now()).await
    };
    let synced = store.sync().await;
    let died = machine.disk.is_dead();
    drop(store);
    if power {
        machine.lose_power(at);
    } else {
        machine.kill(at);
    }
    let store = machine.open().await.unwrap();
    let found = if back {
        rolled_back(&store).await
    } else {
        kept(&store).await
    };
    assert!(
        [0, FILES.len()].contains(&found),
        "{found} files, at {at}, power {power}, back {back}"
    );
    let must = if power { synced.is_ok() } else { made.is_ok() };
    assert!(!must || found > 0, "at {at}, power {power}, back {back}");
    // Repeating the call completes it.
    if back {
        store
            .roll_back_files(&files(), NUMBER, NUMBER + 1, now())
            .await
            .unwrap();
        assert_eq!(rolled_back(&store).await, FILES.len());
    } else {
        store
            .checkpoint_files(&files(), NUMBER, now())
            .await
            .unwrap();
        assert_eq!(kept(&store).await, FILES.len());
    }
    died
}

#[test]
fn a_crash_at_any_operation_leaves_a_checkpoint_of_all_files_or_of_none() {
    for power in [false, true] {
        for back in [false, true] {
            let mut at = 1;
            while run(die_at(at, power, back)) {
                at += 1;
            }
            assert!(at > 3, "{at}");
        }
    }
}

#[test]
fn a_call_with_a_deleted_file_or_a_missing_checkpoint_changes_no_file() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        fill(&store, 100).await.unwrap();
        store.checkpoint(FileId(1), 5, now()).await.unwrap();
        let refused = store.roll_back_files(&files(), 5, 6, now()).await;
        let (file, number) = (FileId(2), 5);
        assert_eq!(refused, Err(StoreError::NoCheckpoint { file, number }));
        store.delete_file(FileId(9)).await.unwrap();
        let refused = store.checkpoint_files(&files(), NUMBER, now()).await;
        assert_eq!(refused, Err(StoreError::Stale { file: FileId(9) }));
        assert_eq!(store.checkpoints(FileId(1)).unwrap().len(), 1);
        assert_eq!(store.checkpoints(FileId(2)).unwrap(), []);
        // Nothing was recorded as done.
        store
            .checkpoint_files(&files()[..4], NUMBER, now())
            .await
            .unwrap();
        assert_eq!(store.checkpoints(FileId(2)).unwrap().len(), 1);
    });
}
