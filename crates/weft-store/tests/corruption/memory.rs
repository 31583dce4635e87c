//! Bytes that change in the server's memory, between the steps of writing and reading.

#![allow(unsafe_code)] // Memory that changes by itself cannot be expressed safely.

use bytes::Bytes;
use weft_layout::CellOffset;
use weft_store::{READ_ATTEMPTS, Scattered, Store, StoreError};

use super::common::{Machine, key, now, pattern, read, run, write};
use super::{CHUNK, LENGTH};

const MIB: usize = 1 << 20;

/// Flips a bit in the store's cache, whose memory the read bytes share.
fn flip(bytes: &Bytes, at: usize) {
    let place = bytes[at..].as_ptr().cast_mut();
    // SAFETY: the byte lives as long as `bytes`; on a runtime of one thread nothing else accesses
    // it now.
    unsafe { place.write_volatile(place.read_volatile() ^ 16) };
}

async fn cached(store: &Store, file: u64, offset: u64) -> Bytes {
    let key = key(file, 0);
    let slices = store.read_slices(&key, None, CellOffset(offset), 4096);
    slices.await.unwrap()[0].bytes().clone()
}

fn scattered(file: u64, offset: u64, data: &[u8]) -> Vec<Scattered> {
    let data = Bytes::copy_from_slice(data);
    vec![write(&key(file, 0), CHUNK, offset, data).into()]
}

#[test]
fn a_cached_block_that_changed_in_memory_is_read_again_from_the_disk() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        let data = pattern(1, LENGTH);
        let all = vec![write(&key(0, 0), CHUNK, 0, data.clone())];
        store.write(all, now()).await.unwrap();
        let held = cached(&store, 0, 8192).await;
        flip(&held, 100);
        assert_ne!(held, data[8192..][..4096]);
        // A read of some bytes of the block as well as one of all of it.
        assert_eq!(
            read(&store, &key(0, 0), 8292, 3).await.unwrap(),
            data[8292..8295]
        );
        assert_eq!(
            read(&store, &key(0, 0), 0, LENGTH as u64).await.unwrap(),
            data
        );
        assert_eq!(store.counters().memory_faults, 1);
        // The sum of the slice is that of the stored bytes, even after the bytes changed.
        let offset = CellOffset(8192);
        let slices = store
            .read_slices(&key(0, 0), None, offset, 4096)
            .await
            .unwrap();
        flip(slices[0].bytes(), 7);
        assert_eq!(slices[0].sum(0..4096), weft_sum::of(&data[8192..][..4096]));
        assert_ne!(weft_sum::of(slices[0].bytes()), slices[0].sum(0..4096));
        assert!(!store.verify(&slices, false).unwrap());
    });
}

#[test]
fn a_freshly_read_block_is_verified_again_unless_its_stored_checksum_is_sent() {
    run(async {
        let machine = Machine::new(4);
        let store = machine.open().await.unwrap();
        let data = pattern(1, LENGTH);
        let all = vec![write(&key(0, 0), CHUNK, 0, data.clone())];
        store.write(all, now()).await.unwrap();
        store.apply().await.unwrap();
        let stored = weft_sum::of(&data[8192..][..4096]);
        let place = key(0, 0);
        for (whole, again) in [(true, false), (false, false), (true, true)] {
            store.drop_cache();
            let read = async || {
                let slices = store.read_slices(&place, None, CellOffset(8192), 4096);
                slices.await.unwrap()
            };
            if again {
                read().await;
            }
            let slices = read().await;
            flip(slices[0].bytes(), 7);
            // The receiver gets the sum of the stored bytes, which these bytes do not match.
            assert_eq!(slices[0].sum(0..4096), stored);
            assert_ne!(weft_sum::of(slices[0].bytes()), stored);
            if !whole {
                slices[0].mark_used(100..200);
            }
            let spared = whole && !again;
            assert_eq!(store.verify_used(&slices, false), Ok(spared));
            let slices = read().await;
            slices[0].sum(0..4096);
            // The block was read again above, or the check finds the change now.
            assert_eq!(store.verify_used(&slices, false), Ok(!spared));
            let slices = read().await;
            assert_eq!(slices[0].bytes(), &data[8192..][..4096]);
        }
    });
}

#[test]
fn bytes_that_keep_changing_in_memory_are_an_error_that_names_the_place() {
    run(async {
        let machine = Machine::new(2);
        let store = machine.open().await.unwrap();
        let all = vec![write(&key(0, 0), CHUNK, 0, pattern(1, LENGTH))];
        store.write(all, now()).await.unwrap();
        for tries in 1..=READ_ATTEMPTS {
            let offset = CellOffset(5 * 4096);
            let slices = store
                .read_slices(&key(0, 0), None, offset, 4096)
                .await
                .unwrap();
            flip(slices[0].bytes(), 0);
            let verified = store.verify(&slices, tries == READ_ATTEMPTS);
            if tries < READ_ATTEMPTS {
                assert_eq!(verified, Ok(false));
                continue;
            }
            let error = verified.unwrap_err();
            assert!(matches!(
                error,
                StoreError::Memory {
                    chunk: 1,
                    at: 1,
                    closes: false,
                    ..
                }
            ));
            let text = error.to_string();
            for name in ["file 0", "cell 0", "chunk 1", "block 1"] {
                assert!(text.contains(name), "{text} lacks {name}");
            }
        }
    });
}

#[test]
fn a_dirty_block_that_changed_in_memory_is_never_returned_or_stored_and_the_log_restores_it() {
    run(async {
        for flushed in [false, true] {
            let machine = Machine::new(3);
            let store = machine.open().await.unwrap();
            let data = pattern(1, 5000);
            let all = vec![write(&key(0, 0), CHUNK, 100, data.clone())];
            store.write(all, now()).await.unwrap();
            flip(&cached(&store, 0, 0).await, 300);
            let error = if flushed {
                store.apply().await.unwrap_err()
            } else {
                // A write beside the changed byte does not hide the fault.
                let beside = vec![write(&key(0, 0), CHUNK, 0, vec![9; 50])];
                store.write(beside, now()).await.unwrap();
                read(&store, &key(0, 0), 0, 4096).await.unwrap_err()
            };
            assert!(
                matches!(error, StoreError::Memory { closes: true, .. }),
                "{error}"
            );
            let more = vec![write(&key(1, 0), CHUNK, 0, vec![1; 10])];
            assert!(store.write(more, now()).await.is_err());
            drop(store);
            machine.kill(1);
            let store = machine.open().await.unwrap();
            assert_eq!(read(&store, &key(0, 0), 100, 5000).await.unwrap(), data);
            store.apply().await.unwrap();
            store.drop_cache();
            assert_eq!(read(&store, &key(0, 0), 100, 5000).await.unwrap(), data);
        }
    });
}

#[test]
fn bytes_that_changed_between_arrival_and_store_are_refused() {
    run(async {
        for (offset, length) in [
            (0, MIB),
            (5000, 300_000),
            (4096, 100_000),
            (7, 3),
            (0, 4096),
        ] {
            let machine = Machine::new(4);
            let store = machine.open().await.unwrap();
            let before = pattern(9, MIB);
            store
                .write_summed(scattered(0, 0, &before), weft_sum::of(&before), now())
                .await
                .unwrap();
            let data = pattern(1, length);
            let sum = weft_sum::of(&data);
            let mut changed = data.clone();
            changed[length / 2] ^= 1;
            let error = store
                .write_summed(scattered(0, offset, &changed), sum, now())
                .await
                .unwrap_err();
            let StoreError::Memory { closes, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!(
                *closes,
                length < 32 << 10,
                "only a batch that takes effect before it is checked closes the store"
            );
            if *closes {
                assert!(read(&store, &key(0, 0), offset, 3).await.is_err());
                drop(store);
                machine.kill(2);
                let store = machine.open().await.unwrap();
                assert_eq!(
                    read(&store, &key(0, 0), 0, MIB as u64).await.unwrap(),
                    before
                );
            } else {
                assert_eq!(
                    read(&store, &key(0, 0), 0, MIB as u64).await.unwrap(),
                    before
                );
                store
                    .write_summed(scattered(0, offset, &data), sum, now())
                    .await
                    .unwrap();
                let read = read(&store, &key(0, 0), offset, length as u64)
                    .await
                    .unwrap();
                assert_eq!(read, data);
            }
        }
    });
}
