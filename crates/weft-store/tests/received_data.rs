//! Data that was received in the store's memory: large pieces of it are written without a copy, and
//! nothing else differs.
#![allow(missing_docs)]

use crate::common;

use bytes::Bytes;
use common::{Machine, key, now, pattern, read, run, write};
use proptest::prelude::*;
use weft_layout::CellOffset;
use weft_store::{Scattered, Store, StoreError};
use weft_sum::Sums;

const MIB: usize = 1 << 20;
const CHUNK: u32 = 256 << 10;

/// Receives data as a connection does: `skip` bytes, then the data.
fn received(store: &Store, skip: usize, data: &[u8]) -> Bytes {
    let Some(mut landing) = store.memory().receive_buffer(skip + data.len()) else {
        assert!(skip + data.len() < 32 << 10, "the pool has memory for this");
        return Bytes::copy_from_slice(data);
    };
    landing.bytes_mut()[skip..].copy_from_slice(data);
    landing.freeze().slice(skip..)
}

/// How many bytes a write of received data copies.
async fn copied(store: &Store, offset: u64, skip: usize, data: &[u8]) -> u64 {
    let before = store.counters().copied_bytes;
    let bytes = received(store, skip, data);
    let sums = Sums::of(&bytes);
    let piece = write(&key(1, 0), CHUNK, offset, bytes);
    let written = store.write_summed(vec![Scattered::from(piece)], sums, now());
    written.await.unwrap();
    let found = read(store, &key(1, 0), offset, data.len() as u64).await;
    assert!(found.unwrap() == data);
    store.counters().copied_bytes - before
}

#[test]
fn data_aligned_in_memory_as_in_its_page_is_not_copied() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        let (one, two) = (pattern(1, MIB), pattern(2, MIB));
        assert_eq!(copied(&store, 0, 0, &one).await, 0);
        assert_eq!(copied(&store, 8 << 16, 0, &two).await, 0);
        // The end lies inside a page: the last seven whole blocks are less than half of it, and a
        // hundred bytes go through the log.
        let end = (1 << 16) + 7 * 4096 + 100;
        let some = copied(&store, 4 << 20, 0, &one[..end]).await;
        assert_eq!(some, 7 * 4096 + 100);
        // Aligned differently in memory than in its pages.
        assert_eq!(copied(&store, 4 << 20, 4096, &two).await, MIB as u64);
        assert_eq!(copied(&store, (4 << 20) + 4096, 0, &one).await, MIB as u64);
        // Aligned as in its pages again, but not at a page's beginning.
        let some = copied(&store, (8 << 20) + 28_672, 28_672, &one).await;
        assert_eq!(some, 7 * 4096, "only the end is copied");
        store.close().await.unwrap();
        let store = machine.open().await.unwrap();
        let found = read(&store, &key(1, 0), (8 << 20) + 28_672, MIB as u64).await;
        assert!(found.unwrap() == one);
    });
}

#[test]
fn received_bytes_do_not_change_when_their_place_is_overwritten() {
    run(async {
        let machine = Machine::new(2);
        let store = machine.open().await.unwrap();
        let data = pattern(1, 4 << 16);
        for keeps in [true, false] {
            let bytes = received(&store, 0, &data);
            let kept = keeps.then(|| bytes.clone());
            let piece = write(&key(1, 0), CHUNK, 0, bytes);
            store.write(vec![piece], now()).await.unwrap();
            let reader = store.read(&key(1, 0), CellOffset(0), 4 << 16).await;
            let reader = reader.unwrap();
            let small = write(&key(1, 0), CHUNK, 10_000, pattern(3, 5));
            store.write(vec![small], now()).await.unwrap();
            assert!(reader.concat() == data);
            drop(reader);
            let places = async || {
                let all = store.read(&key(1, 0), CellOffset(0), 4 << 16).await;
                all.unwrap()
                    .iter()
                    .map(|slice| slice.as_ptr().addr())
                    .collect::<Vec<_>>()
            };
            let before = places().await;
            let small = write(&key(1, 0), CHUNK, 70_000, pattern(3, 5));
            store.write(vec![small], now()).await.unwrap();
            // The first page was copied above, when a reader held it, and is not held now. The
            // second one is copied if the received bytes are still held.
            assert_eq!(places().await == before, !keeps);
            let mut expected = data.clone();
            expected[10_000..10_005].copy_from_slice(&pattern(3, 5));
            expected[70_000..70_005].copy_from_slice(&pattern(3, 5));
            let found = read(&store, &key(1, 0), 0, 4 << 16).await.unwrap();
            assert!(found == expected);
            assert!(kept.is_none_or(|kept| kept == data));
        }
    });
}

#[test]
fn memory_written_to_several_places_stays_independent() {
    run(async {
        let machine = Machine::new(5);
        let store = machine.open().await.unwrap();
        let data = pattern(1, 4 << 16);
        let bytes = received(&store, 0, &data);
        // Two forks, two places in one of them, and a third that overlaps the second.
        let places = [(1, 0), (2, 0), (2, 8 << 16), (2, 9 << 16)];
        let writes = places.map(|(file, at)| write(&key(file, 0), CHUNK, at, bytes.clone()));
        store.write(writes.to_vec(), now()).await.unwrap();
        drop((writes, bytes));
        let small = write(&key(1, 0), CHUNK, 100, pattern(3, 5));
        store.write(vec![small], now()).await.unwrap();
        let mut one = data.clone();
        one[100..105].copy_from_slice(&pattern(3, 5));
        let two = [&data, &vec![0; 4 << 16], &data[..1 << 16], &data].concat();
        assert!(read(&store, &key(1, 0), 0, 1 << 20).await.unwrap() == one);
        assert!(read(&store, &key(2, 0), 0, 1 << 20).await.unwrap() == two);
        store.close().await.unwrap();
        let store = machine.open().await.unwrap();
        assert!(read(&store, &key(1, 0), 0, 1 << 20).await.unwrap() == one);
        assert!(read(&store, &key(2, 0), 0, 1 << 20).await.unwrap() == two);
    });
}

#[test]
fn received_memory_that_changed_before_the_write_is_refused() {
    run(async {
        let machine = Machine::new(3);
        let store = machine.open().await.unwrap();
        let bytes = received(&store, 0, &pattern(1, MIB));
        // As if a bit had flipped after it was summed.
        let sum = weft_sum::of(&bytes) ^ 1;
        let piece = write(&key(1, 0), CHUNK, 0, bytes);
        let written = store.write_summed(vec![Scattered::from(piece)], sum, now());
        assert!(matches!(
            written.await,
            Err(weft_store::StoreError::Memory { .. })
        ));
        assert!(store.status(&key(1, 0)).await.unwrap().is_none());
        let piece = write(&key(1, 0), CHUNK, 0, pattern(2, 100));
        store.write(vec![piece], now()).await.unwrap();
    });
}

/// Blocks that stay where they were received are stored under the sums that they had at arrival, so
/// reads detect any change since.
#[test]
fn received_memory_that_changed_after_its_blocks_were_summed_fails_every_read() {
    run(async {
        let machine = Machine::new(5);
        let store = machine.open().await.unwrap();
        let arrived = pattern(1, MIB);
        let mut changed = arrived.clone();
        changed[100_000] ^= 1;
        let piece = write(&key(1, 0), CHUNK, 0, received(&store, 0, &changed));
        let written = store.write_summed(vec![Scattered::from(piece)], Sums::of(&arrived), now());
        written.await.unwrap();
        let refused = read(&store, &key(1, 0), 0, MIB as u64).await;
        assert!(matches!(refused, Err(StoreError::BadChecksum { .. })));
        let rest = read(&store, &key(1, 0), 1 << 18, 3 << 18).await;
        assert!(rest.unwrap() == arrived[1 << 18..]);
        store.close().await.unwrap();
        let store = machine.open().await.unwrap();
        let refused = read(&store, &key(1, 0), 98_304, 4096).await;
        assert!(matches!(refused, Err(StoreError::BadChecksum { .. })));
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn received_and_copied_data_read_the_same(
        size in prop::sample::select(vec![4096_u32, 100_000, 65_536, 262_144]),
        writes in prop::collection::vec(
            (0_u64..40, 0_u64..5000, 1_usize..300_000, 0_usize..20, prop::bool::ANY, prop::bool::ANY),
            1..12,
        ),
    ) {
        run(async {
            let machine = Machine::new(4);
            let mut store = machine.open().await.unwrap();
            let mut oracle = Vec::new();
            for (n, (slot, byte, length, skip, odd, kill)) in writes.into_iter().enumerate() {
                let at = slot * 32_768 + if odd { byte } else { 0 };
                let skip = skip * if odd { 1000 } else { 4096 };
                let data = pattern(n as u64, length);
                let bytes = received(&store, skip, &data);
                let sums = Sums::of(&bytes);
                let piece = write(&key(1, 0), size, at, bytes);
                let written = store.write_summed(vec![Scattered::from(piece)], sums, now());
                written.await.unwrap();
                let end = at as usize + length;
                oracle.resize(oracle.len().max(end), 0);
                oracle[at as usize..end].copy_from_slice(&data);
                if kill {
                    drop(store);
                    machine.kill(n as u64);
                    store = machine.open().await.unwrap();
                }
                let found = read(&store, &key(1, 0), 0, oracle.len() as u64).await;
                assert!(found.unwrap() == oracle, "after write {n}");
            }
        });
    }
}
