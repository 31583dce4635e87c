//! The counted cost of checkpoints: nothing grows with the file.
#![allow(missing_docs)]

use crate::common;

use common::{Machine, key, now, pattern, read, run, write};
use weft_layout::{CellOffset, FileId};
use weft_store::{CounterSnapshot, Store, StoreError};

const CHUNK: u32 = 65536;

/// Writes a block to each of so many chunks, applies them to the index and empties the cache.
async fn sparse(store: &Store, file: u64, chunks: u64) {
    for some in (0..chunks).collect::<Vec<_>>().chunks(512) {
        let pieces = some.iter().map(|n| {
            let at = n * u64::from(CHUNK);
            write(&key(file, 0), CHUNK, at, pattern(*n, 4096))
        });
        store.write(pieces.collect(), now()).await.unwrap();
    }
    store.apply().await.unwrap();
    store.drop_cache();
}

/// The disk reads, disk writes, log appends and log bytes that an operation adds to the counters.
async fn cost(store: &Store, work: impl Future<Output = Result<(), StoreError>>) -> [u64; 4] {
    let work_of = |c: CounterSnapshot| [c.disk_reads, c.disk_writes, c.log_appends, c.log_bytes];
    let before = work_of(store.counters());
    work.await.unwrap();
    let after = work_of(store.counters());
    std::array::from_fn(|i| after[i] - before[i])
}

#[test]
fn the_cost_of_checkpoint_and_rollback_does_not_grow_with_the_file() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        let mut costs = Vec::new();
        for (file, chunks) in [(1, 1), (2, 4000)] {
            sparse(&store, file, chunks).await;
            let file = FileId(file);
            let used = store.usage().used;
            costs.push([
                cost(&store, store.checkpoint(file, 1, now())).await,
                cost(&store, store.roll_back(file, 1, 2, now())).await,
                cost(&store, store.drop_checkpoint(file, 1, 3)).await,
            ]);
            assert_eq!(store.usage().used, used, "a checkpoint takes no block");
        }
        for (short, long) in costs[0].iter().zip(&costs[1]) {
            assert_eq!(short[..3], long[..3]);
            // Numbers have a variable length.
            assert!(short[3].abs_diff(long[3]) <= 16, "{costs:?}");
        }
        let [make, roll_back, drop] = costs[1];
        for [reads, writes, appends, bytes] in [make, roll_back, drop] {
            assert_eq!((reads, writes, appends), (0, 0, 1));
            assert!(bytes < 400, "{bytes} bytes of the log");
        }
    });
}

#[test]
fn a_checkpoint_takes_only_the_space_of_later_writes() {
    run(async {
        let machine = Machine::new(2);
        let store = machine.open().await.unwrap();
        let all = vec![write(&key(1, 0), CHUNK, 0, pattern(1, 1 << 20))];
        store.write(all, now()).await.unwrap();
        store.checkpoint(FileId(1), 1, now()).await.unwrap();
        let some = vec![write(&key(1, 0), CHUNK, 8192, pattern(2, 4096))];
        store.write(some, now()).await.unwrap();
        store.apply().await.unwrap();
        assert_eq!(store.usage().used, (1 << 20) + 4096);
        let fork = key(1, 0);
        let kept = store.read_checkpoint(&fork, 1, CellOffset(0), 1 << 20);
        assert!(kept.await.unwrap().concat() == pattern(1, 1 << 20));
        let now = read(&store, &key(1, 0), 0, 1 << 20).await.unwrap();
        assert!(now[8192..12288] == pattern(2, 4096) && now[..8192] == pattern(1, 1 << 20)[..8192]);
        store.drop_checkpoint(FileId(1), 1, 2).await.unwrap();
        store.reclaim().await.unwrap();
        assert_eq!(store.usage().used, 1 << 20);
        let gone = store.read_checkpoint(&fork, 1, CellOffset(0), 1);
        let (file, number) = (FileId(1), 1);
        assert_eq!(
            gone.await.unwrap_err(),
            StoreError::NoCheckpoint { file, number }
        );
    });
}
