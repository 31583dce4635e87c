//! The data ranges that a store reports.
#![allow(missing_docs)]

use crate::common;

use std::ops::Range;

use common::{Machine, key, now, pattern, run, write};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_layout::{CellOffset, FileId};
use weft_store::{ForkKey, Store, StoreError};

/// All runs from `from` on, read in steps of `limit`; adjacent runs are joined.
async fn runs(store: &Store, key: &ForkKey, from: u64, limit: usize) -> Vec<Range<u64>> {
    let (mut out, mut from): (Vec<Range<u64>>, _) = (Vec::new(), CellOffset(from));
    loop {
        let found = store.data_runs(key, None, from, limit).await.unwrap();
        for run in found.runs {
            assert!(run.start < run.end && from.0 <= run.start);
            assert!(found.next.is_none_or(|next| run.end <= next.0));
            match out.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                last => {
                    assert!(last.is_none_or(|l| l.end < run.start));
                    out.push(run);
                }
            }
        }
        let Some(next) = found.next else { return out };
        assert!(next > from, "no progress at {from}");
        from = next;
    }
}

#[test]
fn data_runs_skip_holes_of_any_size() {
    run(async {
        let machine = Machine::new(31);
        let store = machine.open().await.unwrap();
        let k = key(1, 0);
        assert_eq!(runs(&store, &k, 0, 8).await, []);
        let far = 1 << 41;
        for (offset, length) in [(0, 10), (8192, 4096), (12_288, 1), (far + 5, 100)] {
            let data = pattern(offset, length);
            store
                .write(vec![write(&k, 65536, offset, data)], now())
                .await
                .unwrap();
        }
        let expected = [0..4096, 8192..16_384, far..far + 105];
        for again in 0..3 {
            assert_eq!(runs(&store, &k, 0, 1).await, expected, "{again}");
            assert_eq!(runs(&store, &k, 0, 100).await, expected, "{again}");
            assert_eq!(
                runs(&store, &k, 9000, 1).await,
                [9000..16_384, far..far + 105]
            );
            assert_eq!(runs(&store, &k, far + 105, 1).await, []);
            store.apply().await.unwrap();
            store.drop_cache();
        }
        let lengths = vec![(k.clone(), far), (key(1, 1), far)];
        store.truncate(FileId(1), lengths, 1, now()).await.unwrap();
        assert_eq!(runs(&store, &k, 0, 1).await, expected[..2]);
        assert_eq!(runs(&store, &key(1, 1), 0, 1).await, [], "one hole");
        store.delete_file(FileId(1)).await.unwrap();
        assert_eq!(
            store.data_runs(&k, None, CellOffset(0), 1).await,
            Err(StoreError::Stale { file: FileId(1) })
        );
    });
}

#[test]
fn data_runs_equal_the_written_blocks() {
    run(async {
        let machine = Machine::new(32);
        let mut store = machine.open().await.unwrap();
        let mut rng = SmallRng::seed_from_u64(32);
        for (file, chunk) in (1..).zip([4096_u32, 5000, 65_536, 262_144]) {
            let (k, size) = (key(file, 0), u64::from(chunk));
            let (mut written, mut length) = (Vec::<Range<u64>>::new(), 0);
            for step in 0..60 {
                let (offset, bytes) = (rng.random_range(0..8_000_000), rng.random_range(1..60_000));
                let data = pattern(step, bytes);
                store
                    .write(vec![write(&k, chunk, offset, data)], now())
                    .await
                    .unwrap();
                let end = offset + bytes as u64;
                length = length.max(end);
                // Blocks are counted from their chunk's start.
                let floor = |x: u64| x / size * size + x % size / 4096 * 4096;
                let last = floor(end - 1);
                written.push(floor(offset)..(last + 4096).min((last / size + 1) * size));
                match step {
                    20 => store.apply().await.unwrap(),
                    30 => store.drop_cache(),
                    40 => {
                        machine.kill(step);
                        drop(store);
                        store = machine.open().await.unwrap();
                    }
                    _ => {}
                }
            }
            written.sort_by_key(|r| r.start);
            let mut expected: Vec<Range<u64>> = Vec::new();
            for run in written {
                match expected.last_mut() {
                    Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
                    _ => expected.push(run),
                }
            }
            expected.last_mut().unwrap().end = length;
            for limit in [1, 3, 1000] {
                assert_eq!(runs(&store, &k, 0, limit).await, expected, "chunk {chunk}");
            }
        }
    });
}
