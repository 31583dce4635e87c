//! The cache: what it keeps and prefetches, and how often it reads the disk.
#![allow(missing_docs)]

use crate::common;

use common::{Machine, key, now, pattern, read, run, write};
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_layout::CellOffset;
use weft_store::{CacheRules, Store, StoreConfig};

const SLOT: u64 = 65_536;
const CHUNK: u32 = 262_144;

fn config(machine: &Machine, cache: u64) -> StoreConfig {
    let mut config = machine.config();
    config.growth_bytes = 64 << 20;
    config.cache_bytes = cache;
    config
}

/// A store with one file of so many slots and an empty cache.
async fn cold(machine: &Machine, slots: u64, cache: u64) -> Store {
    cold_by(CacheRules::default(), machine, slots, cache).await
}

async fn cold_by(rules: CacheRules, machine: &Machine, slots: u64, cache: u64) -> Store {
    let mut config = config(machine, cache);
    config.rules = rules;
    let store = Store::open(config).await.unwrap();
    for slot in 0..slots {
        let data = pattern(slot, SLOT as usize);
        let piece = write(&key(1, 0), CHUNK, slot * SLOT, data);
        store.write(vec![piece], now()).await.unwrap();
    }
    store.apply().await.unwrap();
    store.drop_cache();
    store
}

async fn check(store: &Store, at: u64, length: u64) {
    let found = read(store, &key(1, 0), at, length).await.unwrap();
    let slot = at / SLOT;
    let from = (at % SLOT) as usize;
    assert!(found == pattern(slot, SLOT as usize)[from..from + length as usize]);
    // Lets prefetches run.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn four_clients_that_share_a_sequential_read_cause_long_disk_reads() {
    let sweep = async |rules| {
        let machine = Machine::new(1);
        let store = cold_by(rules, &machine, 256, 64 << 20).await;
        let before = store.counters();
        for stripe in 0..64 {
            for client in [2, 0, 3, 1] {
                check(&store, (stripe * 4 + client) * SLOT, SLOT).await;
            }
        }
        (before, store.counters())
    };
    run(async {
        let prefetch = false;
        let rules = CacheRules {
            prefetch,
            ..CacheRules::default()
        };
        let (before, c) = sweep(rules).await;
        assert_eq!(c.disk_reads - before.disk_reads, 256);
        let (before, c) = sweep(CacheRules::default()).await;
        let reads = c.disk_reads - before.disk_reads;
        // There would be 256 without prefetching.
        assert!(reads < 60, "{reads} reads of the disk");
        assert!(c.prefetched_used > 200 * 16, "{c:?}");
        let bytes = c.disk_read_bytes - before.disk_read_bytes;
        assert_eq!(bytes, 256 * SLOT, "nothing is read twice");
    });
}

#[test]
fn random_reads_cause_hardly_any_prefetch() {
    // A long cell; and a short one that was read once in full, through a cache that is too small
    // for it.
    for (slots, cache) in [(512, 64 << 20), (120, 4 << 20)] {
        for seed in 0..6 {
            run(async {
                let machine = Machine::new(2);
                let store = cold(&machine, slots, cache).await;
                if slots == 120 {
                    for slot in 0..slots {
                        check(&store, slot * SLOT, SLOT).await;
                    }
                    store.drop_cache();
                }
                let before = store.counters().prefetched;
                let mut rng = SmallRng::seed_from_u64(seed);
                for _ in 0..256 {
                    check(&store, rng.random_range(0..slots) * SLOT + 4096, 4096).await;
                }
                let blocks = store.counters().prefetched - before;
                assert!(
                    blocks < 512,
                    "{blocks} blocks of {slots} slots, seed {seed}"
                );
            });
        }
    }
}

#[test]
fn a_second_sequential_read_is_prefetched_like_the_first() {
    run(async {
        let machine = Machine::new(6);
        let store = cold(&machine, 64, 16 << 20).await;
        for _ in 0..2 {
            let before = store.counters();
            for slot in 0..64 {
                check(&store, slot * SLOT, SLOT).await;
            }
            let c = store.counters();
            let reads = c.disk_reads - before.disk_reads;
            assert!(reads < 20, "{reads} reads of the disk");
            store.drop_cache();
        }
    });
}

#[test]
fn pages_with_repeated_small_reads_outlive_a_sequential_read() {
    for hold in [true, false] {
        run(async {
            let machine = Machine::new(3);
            let rules = CacheRules {
                hold,
                ..CacheRules::default()
            };
            let store = cold_by(rules, &machine, 200, 3 << 20).await;
            // A few blocks of sixteen slots, as of a table with random look-ups.
            for slot in 0..16 {
                check(&store, slot * SLOT + 8192, 4096).await;
            }
            for slot in 20..200 {
                check(&store, slot * SLOT, SLOT).await;
            }
            let before = store.counters();
            for slot in 0..16 {
                check(&store, slot * SLOT + 8192, 4096).await;
            }
            let misses = store.counters().cache_misses - before.cache_misses;
            assert_eq!(misses == 0, hold, "{misses} misses");
        });
    }
}

#[test]
fn concurrent_reads_of_one_slot_cost_one_disk_read() {
    for share_reads in [true, false] {
        run(async {
            let machine = Machine::new(4);
            let rules = CacheRules {
                share_reads,
                ..CacheRules::default()
            };
            let store = cold_by(rules, &machine, 16, 8 << 20).await;
            let before = store.counters();
            let readers = (0..8).map(|_| check(&store, 5 * SLOT, SLOT));
            futures_util::future::join_all(readers).await;
            let bytes = store.counters().disk_read_bytes - before.disk_read_bytes;
            assert_eq!(bytes == SLOT, share_reads, "{bytes} bytes");
        });
    }
}

#[test]
fn ranges_are_prefetched_and_released_on_request() {
    run(async {
        let machine = Machine::new(5);
        let store = cold(&machine, 32, 8 << 20).await;
        let at = CellOffset(3 * SLOT);
        let bytes = store.prefetch(&key(1, 0), None, at, 10 * SLOT).await;
        assert_eq!(bytes, Ok(10 * SLOT));
        let again = store.prefetch(&key(1, 0), None, at, 10 * SLOT).await;
        assert_eq!(again, Ok(0));
        let before = store.counters();
        for slot in 3..13 {
            check(&store, slot * SLOT, SLOT).await;
        }
        let after = store.counters();
        assert_eq!(after.cache_misses, before.cache_misses);
        assert_eq!(after.prefetched_used - before.prefetched_used, 160);
        // A release writes dirty pages to the disk, and nothing did before.
        let piece = write(&key(1, 0), CHUNK, 0, pattern(9, 5000));
        store.write(vec![piece], now()).await.unwrap();
        let before = store.counters().disk_write_bytes;
        store
            .release(&key(1, 0), CellOffset(0), SLOT)
            .await
            .unwrap();
        assert_eq!(store.counters().disk_write_bytes - before, 2 * 4096);
    });
}

#[test]
fn fully_written_slots_go_to_the_disk_in_the_background() {
    for write_behind in [true, false] {
        run(async {
            let machine = Machine::new(6);
            let mut config = config(&machine, 64 << 20);
            config.dirty_bytes = 64 << 20;
            config.log_bytes = 64 << 20;
            config.rules.write_behind = write_behind;
            let store = Store::open(config).await.unwrap();
            for n in 0..2048 {
                let piece = write(&key(1, 0), CHUNK, n * 4096, pattern(n, 4096));
                store.write(vec![piece], now()).await.unwrap();
                tokio::task::yield_now().await;
            }
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            let c = store.counters();
            assert_eq!(c.disk_write_bytes >= 4 << 20, write_behind, "{c:?}");
            assert!(c.disk_writes < 40, "in long operations: {c:?}");
        });
    }
}

#[test]
fn beyond_half_of_the_dirty_bound_pages_are_flushed_down_to_a_quarter() {
    run(async {
        const BOUND: u64 = 8 << 20;
        let machine = Machine::new(8);
        let mut config = config(&machine, 64 << 20);
        (config.dirty_bytes, config.log_bytes) = (BOUND, 256 << 20);
        let store = Store::open(config).await.unwrap();
        // A block of each page, in random order: no slot is full.
        let half = BOUND / 2 / 4096;
        let put = async |n: u64| {
            let at = n * 389 % 2048 * SLOT;
            let piece = write(&key(1, 0), CHUNK, at, pattern(n, 4096));
            store.write(vec![piece], now()).await.unwrap();
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        };
        for n in 0..half {
            put(n).await;
        }
        assert_eq!(
            store.counters().disk_write_bytes,
            0,
            "a flush starts only beyond half of the bound"
        );
        put(half).await;
        let written = store.counters().disk_write_bytes;
        let quarter = BOUND / 4;
        assert!(
            (quarter..=quarter + (1 << 20)).contains(&written),
            "{written}"
        );
        for n in half + 1..half + 200 {
            put(n).await;
        }
        assert_eq!(
            store.counters().disk_write_bytes,
            written,
            "less than half of the bound is dirty again"
        );
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any reads in any order through a cache that is too small: the bytes are right, the bound
    /// holds, and each prefetched block was read, evicted unread, or is still there.
    #[test]
    fn any_reads_through_a_small_cache_are_right(
        reads in prop::collection::vec((0_u64..100, 0_u64..16, 1_u64..17), 1..150),
    ) {
        run(async {
            let machine = Machine::new(7);
            let store = cold(&machine, 100, 1 << 20).await;
            for (slot, block, blocks) in reads {
                let length = blocks.min(16 - block) * 4096;
                check(&store, slot * SLOT + block * 4096, length).await;
            }
            let c = store.counters();
            assert!(c.prefetched >= c.prefetched_used + c.prefetched_unused, "{c:?}");
            assert!(store.buffer_bytes() < 16 << 20);
        });
    }
}

/// Entries that the index does not have cannot be evicted, and every opening replays the log for
/// them.
#[test]
fn small_chunks_reach_the_index_before_they_fill_cache_and_log() {
    run(async {
        let machine = Machine::new(1);
        let store = Store::open(config(&machine, 4 << 20)).await.unwrap();
        let before = store.counters().applies;
        let data = vec![7_u8; 1 << 20];
        for n in 0..16_u64 {
            let piece = write(&key(1, 0), 4096, n << 20, data.clone());
            store.write(vec![piece], now()).await.unwrap();
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        }
        assert!(store.counters().applies > before);
        for n in 0..16_u64 {
            let found = read(&store, &key(1, 0), n << 20, 1 << 20).await.unwrap();
            assert!(found == data);
        }
    });
}

#[test]
fn memory_stays_bounded_for_any_batch() {
    run(async {
        let machine = Machine::new(9);
        let mut config = config(&machine, 4 << 20);
        config.dirty_bytes = 1 << 20;
        config.log_bytes = 16 << 20;
        let store = Store::open(config).await.unwrap();
        let mut next = 0;
        for _ in 0..40 {
            // A byte in each of many chunks: each has an entry and a page.
            let one = |n| write(&key(1, 0), 65_536, n * 65_536, vec![n as u8]);
            let batch = (next..next + 1024).map(one).collect();
            next += 1024;
            store.write(batch, now()).await.unwrap();
        }
        let held = store.buffer_bytes();
        assert!(held <= 16 << 20, "{held} bytes for a cache of 4 MiB");
        for n in (0..next).step_by(997) {
            let found = read(&store, &key(1, 0), n * 65_536, 2).await.unwrap();
            assert_eq!(found[0], n as u8);
        }
    });
}
