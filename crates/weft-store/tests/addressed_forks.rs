//! Forks whose bytes are in addressed chunks.
#![allow(missing_docs)]

use crate::common;

use bytes::Bytes;
use common::{Machine, key, now, pattern, read, run, write};
use futures_util::future::{join, join_all, try_join_all};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_layout::{ADDRESSED_BIT, CellOffset, FileId};
use weft_store::{
    ChunkName, Cleaned, ForkKey, MissingChunk, NamedChunks, NamedOutcome, Run, Scattered,
    ScrubPosition, Store, StoreError,
};

const SIZE: usize = 65536;
const CHUNK: u32 = SIZE as u32 + ADDRESSED_BIT;

async fn put(store: &Store, key: &ForkKey, offset: usize, data: Vec<u8>) {
    let writes = vec![write(key, CHUNK, offset as u64, data)];
    store.write(writes, now()).await.unwrap();
}

async fn all(store: &Store, key: &ForkKey) -> Vec<u8> {
    read(store, key, 0, 1 << 24).await.unwrap()
}

async fn clean(store: &Store) -> Cleaned {
    store.clean().await.unwrap().unwrap()
}

/// Chunks that are stored now.
fn chunks(store: &Store) -> usize {
    store.list_chunks(None, 100_000).0.len()
}

#[test]
fn equal_chunks_of_several_files_are_stored_once() {
    run(async {
        let store = Machine::new(1).open().await.unwrap();
        let data = pattern(1, 4 * SIZE);
        put(&store, &key(1, 0), 0, data.clone()).await;
        store.apply().await.unwrap();
        let before = store.counters();
        put(&store, &key(2, 3), 0, data.clone()).await;
        // Elsewhere in a file, and written in pieces of which none is a whole chunk.
        for at in (0..4 * SIZE).step_by(SIZE / 2) {
            put(
                &store,
                &key(3, 0),
                SIZE + at,
                data[at..at + SIZE / 2].to_vec(),
            )
            .await;
        }
        let after = store.counters();
        // Each first half is a chunk of its own until the second half is written.
        assert_eq!(after.chunks_put - before.chunks_put, 4);
        assert_eq!(clean(&store).await.removed, 4);
        assert_eq!(chunks(&store), 4);
        assert_eq!(all(&store, &key(2, 3)).await, data);
        assert_eq!(all(&store, &key(3, 0)).await[SIZE..], data);
        let status = store.status(&key(2, 3)).await.unwrap().unwrap();
        assert_eq!((status.length, status.chunk), (4 * SIZE as u64, CHUNK));
        assert_eq!(status.stored, status.length);
    });
}

#[test]
fn zeros_are_holes_and_contents_have_one_name_however_they_came_about() {
    run(async {
        let store = Machine::new(1).open().await.unwrap();
        put(&store, &key(1, 0), 0, vec![0; 10 * SIZE]).await;
        assert_eq!(chunks(&store), 0);
        assert_eq!(all(&store, &key(1, 0)).await, vec![0; 10 * SIZE]);
        let runs = store
            .data_runs(&key(1, 0), None, CellOffset(0), 10)
            .await
            .unwrap();
        assert_eq!((runs.runs, runs.next), (vec![], None));
        // 100 bytes, once as a short chunk and once followed by zeros.
        put(&store, &key(2, 0), 0, pattern(1, 100)).await;
        put(&store, &key(1, 0), 3 * SIZE, pattern(1, 100)).await;
        assert_eq!(chunks(&store), 1);
        let runs = store
            .data_runs(&key(1, 0), None, CellOffset(0), 10)
            .await
            .unwrap();
        let (start, end) = (3 * SIZE as u64, 4 * SIZE as u64);
        assert_eq!(runs.runs, vec![start..end; 1]);
        store
            .clear(&[(key(1, 0), start..start + 100)], now())
            .await
            .unwrap();
        store.remove_fork(&key(2, 0)).await.unwrap();
        assert_eq!(clean(&store).await.removed, 1);
        assert_eq!(all(&store, &key(1, 0)).await, vec![0; 10 * SIZE]);
    });
}

#[test]
fn concurrent_writes_into_one_chunk_lose_nothing() {
    run(async {
        let store = Machine::new(1).open().await.unwrap();
        for round in 0..4 {
            let writes = (0..64_usize).map(|n| {
                let data = pattern(round * 100 + n as u64, 1000);
                let writes = vec![write(&key(1, 0), CHUNK, n as u64 * 1000, data)];
                let store = store.clone();
                async move { store.write(writes, now()).await }
            });
            try_join_all(writes).await.unwrap();
            let found = all(&store, &key(1, 0)).await;
            for n in 0..64 {
                let wanted = pattern(round * 100 + n as u64, 1000);
                assert_eq!(
                    found[n * 1000..][..1000],
                    wanted,
                    "round {round}, piece {n}"
                );
            }
        }
    });
}

#[test]
fn prepared_batches_keep_what_others_wrote_meanwhile_and_each_other() {
    run(async {
        let store = Machine::new(1).open().await.unwrap();
        put(&store, &key(1, 0), 0, pattern(1, SIZE)).await;
        let mut wanted = pattern(1, SIZE);
        let mut batches = Vec::new();
        for n in 0..3_usize {
            let data = Bytes::from(pattern(10 + n as u64, 5000));
            wanted[n * 4000..][..5000].copy_from_slice(&data);
            let writes = vec![Scattered::from(write(
                &key(1, 0),
                CHUNK,
                n as u64 * 4000,
                data.clone(),
            ))];
            let sums = weft_sum::Sums::of(&data);
            batches.push(store.prepare(writes, sums, now()).await.unwrap());
        }
        put(&store, &key(1, 0), 30_000, pattern(2, 100)).await;
        wanted[30_000..30_100].copy_from_slice(&pattern(2, 100));
        assert_eq!(
            all(&store, &key(1, 0)).await[..4000],
            pattern(1, SIZE)[..4000]
        );
        // Nothing in progress is cleaned away.
        clean(&store).await;
        let note = write(&key(7, 0), 4096, 0, pattern(3, 10));
        store
            .commit_prepared(batches, vec![note], now())
            .await
            .unwrap();
        assert_eq!(all(&store, &key(1, 0)).await, wanted);
        assert_eq!(all(&store, &key(7, 0)).await, pattern(3, 10));
    });
}

#[test]
fn a_truncated_end_never_comes_back() {
    run(async {
        for grow in 0..4 {
            let store = Machine::new(grow).open().await.unwrap();
            let fork = key(1, 0);
            put(&store, &fork, 0, pattern(1, 2 * SIZE)).await;
            let short = SIZE as u64 + 1000;
            let data = Bytes::from(pattern(5, 10));
            // Prepared from the whole chunk, committed after the truncation.
            let writes = vec![Scattered::from(write(
                &fork,
                CHUNK,
                SIZE as u64 + 10,
                data.clone(),
            ))];
            let sums = weft_sum::Sums::of(&data);
            let prepared = store.prepare(writes, sums, now()).await.unwrap();
            let lengths = vec![(fork.clone(), short)];
            store.truncate(FileId(1), lengths, 1, now()).await.unwrap();
            store
                .commit_prepared(vec![prepared], vec![], now())
                .await
                .unwrap();
            let long = 3 * SIZE as u64;
            match grow {
                0 => store.extend(&fork, CHUNK, long, now()).await.unwrap(),
                1 => store
                    .truncate(FileId(1), vec![(fork.clone(), long)], 2, now())
                    .await
                    .unwrap(),
                2 => put(&store, &fork, 3 * SIZE - 1, vec![0]).await,
                _ => put(&store, &fork, SIZE + 2000, vec![0; 2 * SIZE - 2000]).await,
            }
            let mut wanted = pattern(1, 2 * SIZE);
            wanted[SIZE + 10..SIZE + 20].copy_from_slice(&data);
            wanted.truncate(short as usize);
            wanted.resize(3 * SIZE, 0);
            assert!(all(&store, &fork).await == wanted, "growth {grow}");
        }
    });
}

#[test]
fn a_scattered_write_makes_each_chunk_once() {
    run(async {
        let store = Machine::new(1).open().await.unwrap();
        let data = pattern(1, 100 * 50);
        let runs = vec![Run {
            offset: CellOffset(7),
            at: 0,
            length: 50,
            count: 100,
            stride: 3000,
        }];
        let before = store.counters().chunks_put;
        let scattered = Scattered {
            key: key(1, 0),
            chunk: CHUNK,
            runs,
            data: data.clone().into(),
        };
        store.write_scattered(vec![scattered], now()).await.unwrap();
        assert_eq!(store.counters().chunks_put - before, 5);
        let found = all(&store, &key(1, 0)).await;
        for n in 0..100 {
            assert_eq!(found[7 + n * 3000..][..50], data[n * 50..][..50]);
        }
    });
}

#[test]
fn a_plain_and_an_addressed_write_to_one_fork_exclude_each_other() {
    run(async {
        let store = Machine::new(1).open().await.unwrap();
        put(&store, &key(1, 0), 0, pattern(1, 10)).await;
        let plain = vec![write(&key(1, 0), SIZE as u32, 0, pattern(1, 10))];
        let refused = store.write(plain, now()).await;
        assert!(matches!(refused, Err(StoreError::ChunkMismatch { .. })));
        let listed = store.list_forks(FileId(0), None, 10).unwrap();
        assert_eq!(
            listed.0.len(),
            0,
            "recipes and forks not applied yet are not listed"
        );
        store.apply().await.unwrap();
        let listed = store.list_forks(FileId(0), None, 10).unwrap().0;
        assert_eq!(
            listed.iter().map(|(k, _)| k.clone()).collect::<Vec<_>>(),
            [key(1, 0)]
        );
    });
}

#[test]
fn a_chunk_that_is_gone_is_an_error_that_names_the_file_until_it_is_written_again() {
    run(async {
        let store = Machine::new(1).open().await.unwrap();
        put(&store, &key(9, 2), 0, pattern(1, 2 * SIZE)).await;
        let (name, _) = store.list_chunks(None, 1).0[0];
        store.remove_chunk(&name).await.unwrap();
        let error = read(&store, &key(9, 2), 0, 1 << 20).await.unwrap_err();
        assert!(
            matches!(
                &error,
                StoreError::BadChunk {
                    file: FileId(9),
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(clean(&store).await.missing, 1);
        let missing = store.missing_chunks(10).await.unwrap();
        assert!(matches!(&missing[..], [MissingChunk { key: found, .. }] if *found == key(9, 2)));
        put(&store, &key(9, 2), 0, pattern(1, 2 * SIZE)).await;
        assert_eq!(all(&store, &key(9, 2)).await, pattern(1, 2 * SIZE));
        assert_eq!(clean(&store).await.missing, 0);
    });
}

/// Files are written, checkpointed, rolled back and deleted while the cleaner runs all the time.
#[test]
fn the_cleaner_never_removes_what_a_recipe_names() {
    for seed in 0..10 {
        run(async {
            let store = Machine::new(seed).open().await.unwrap();
            let writers = (1..5_u64).map(|file| {
                let store = store.clone();
                async move {
                    let mut rng = SmallRng::seed_from_u64(seed * 10 + file);
                    let (mut now_has, mut kept) = (vec![0; 4 * SIZE], None);
                    put(&store, &key(file, 0), 0, now_has.clone()).await;
                    for step in 1..60_u64 {
                        match rng.random_range(0..10) {
                            0 => {
                                let number = step + 1;
                                let made = store.checkpoint(FileId(file), number, now());
                                made.await.unwrap();
                                if let Some((old, _)) = kept.replace((number, now_has.clone())) {
                                    let dropped = store.drop_checkpoint(FileId(file), old, number);
                                    dropped.await.unwrap();
                                }
                            }
                            1 => {
                                if let Some((number, had)) = &kept {
                                    let back =
                                        store.roll_back(FileId(file), *number, step + 1, now());
                                    back.await.unwrap();
                                    now_has.clone_from(had);
                                }
                            }
                            _ => {
                                // Few contents, so that chunks come and go.
                                let (n, mark) = (rng.random_range(0..4), rng.random_range(0..3));
                                let data = pattern(mark, SIZE);
                                now_has[n * SIZE..][..SIZE].copy_from_slice(&data);
                                put(&store, &key(file, 0), n * SIZE, data).await;
                            }
                        }
                        tokio::task::yield_now().await;
                        assert!(all(&store, &key(file, 0)).await == now_has, "seed {seed}");
                    }
                }
            });
            let cleaning = async {
                let mut removed = 0;
                for _ in 0..60 {
                    removed += store
                        .clean()
                        .await
                        .unwrap()
                        .map_or(0, |cleaned| cleaned.removed);
                    tokio::task::yield_now().await;
                }
                removed
            };
            join(join_all(writers), cleaning).await;
            let cleaned = clean(&store).await;
            assert_eq!(cleaned.missing, 0);
            for file in 1..5 {
                store.delete_file(FileId(file)).await.unwrap();
            }
            clean(&store).await;
            assert_eq!(chunks(&store), 0);
            store.reclaim().await.unwrap();
            assert_eq!(store.usage().used, 0);
        });
    }
}

/// Names two chunks of file 2 after those of `names`.
fn two(names: [Option<ChunkName>; 2]) -> NamedChunks {
    NamedChunks {
        key: key(2, 0),
        chunk: CHUNK,
        first: 1,
        names: names.to_vec(),
        end: 3 * SIZE as u64,
        old: None,
        all: false,
    }
}

#[test]
fn chunks_are_written_by_name_if_they_are_there_and_the_old_names_hold() {
    run(async {
        let store = Machine::new(1).open().await.unwrap();
        let (a, b) = (pattern(1, SIZE), pattern(2, SIZE));
        put(&store, &key(1, 0), 0, [a.clone(), b.clone()].concat()).await;
        let (known, unknown) = (Some(ChunkName::of(&a)), Some(ChunkName::of(b"unknown")));
        let name = async |named| store.name_chunks(named, now()).await.unwrap();
        // All or nothing.
        let named = NamedChunks {
            all: true,
            ..two([known, unknown])
        };
        assert_eq!(name(named).await, NamedOutcome::Lacking(vec![1]));
        assert_eq!(store.status(&key(2, 0)).await.unwrap(), None);
        // What there is; the fork ends with it.
        assert_eq!(
            name(two([known, unknown])).await,
            NamedOutcome::Lacking(vec![1])
        );
        assert_eq!(
            all(&store, &key(2, 0)).await,
            [vec![0; SIZE], a.clone()].concat()
        );
        // Against the old names: other ones first, then those that it has.
        let named = |old| NamedChunks {
            old: Some(old),
            ..two([Some(ChunkName::of(&b)), known])
        };
        let changed = |lacking| NamedOutcome::Changed(lacking);
        assert_eq!(name(named(vec![None, None])).await, changed(vec![]));
        assert_eq!(name(named(vec![known, known])).await, changed(vec![]));
        // A question: what would be lacking, and nothing changes.
        let question = NamedChunks {
            old: Some(vec![unknown, unknown]),
            ..two([known, unknown])
        };
        assert_eq!(name(question).await, changed(vec![1]));
        let before = [vec![0; SIZE], a.clone()].concat();
        assert_eq!(all(&store, &key(2, 0)).await, before);
        assert_eq!(
            name(named(vec![known, None])).await,
            NamedOutcome::Lacking(vec![])
        );
        let wanted = [vec![0; SIZE], b.clone(), a.clone()].concat();
        assert_eq!(all(&store, &key(2, 0)).await, wanted);
        // A last chunk in part: only where the fork ends there.
        let part = NamedChunks {
            end: 2 * SIZE as u64 + 100,
            ..two([known, None])
        };
        assert_eq!(name(part.clone()).await, NamedOutcome::Lacking(vec![1]));
        store
            .truncate(FileId(2), vec![(key(2, 0), 0)], 1, now())
            .await
            .unwrap();
        assert_eq!(name(part).await, NamedOutcome::Lacking(vec![]));
        let wanted = [vec![0; SIZE], a, vec![0; 100]].concat();
        assert_eq!(all(&store, &key(2, 0)).await, wanted);
        // A chunk longer than the fork's chunks are.
        let small = NamedChunks {
            key: key(3, 0),
            chunk: 4096 + ADDRESSED_BIT,
            ..two([known, None])
        };
        assert_eq!(name(small).await, NamedOutcome::Lacking(vec![0]));
        let plain = NamedChunks {
            chunk: SIZE as u32,
            ..two([known, known])
        };
        let refused = store.name_chunks(plain, now()).await;
        assert!(matches!(refused, Err(StoreError::BadChunkSize { .. })));
    });
}

#[test]
fn a_damaged_chunk_is_stored_anew_when_its_bytes_are_written_again() {
    run(async {
        // Whole blocks and one in part; large enough for direct writes, and not.
        for (length, block) in [(40_000, 0), (40_000, 9), (5000, 0), (5000, 1)] {
            let machine = Machine::new(1);
            let store = machine.open().await.unwrap();
            let data = pattern(1, length);
            put(&store, &key(1, 0), 0, data.clone()).await;
            put(&store, &key(2, 0), SIZE, data.clone()).await;
            store.apply().await.unwrap();
            store.drop_cache();
            // The recipes have blocks as well.
            let (name, _) = store.list_chunks(None, 1).0[0];
            let mut damaged = false;
            for at in machine.disk.blocks("data") {
                assert!(machine.disk.flip("data", at * 4096 + 9, 2));
                store.drop_cache();
                let pieces = store.get_chunk(&name).await;
                let is_it =
                    matches!(pieces, Err(StoreError::BadChecksum { at, .. }) if at == block);
                if is_it {
                    damaged = true;
                    break;
                }
                machine.disk.flip("data", at * 4096 + 9, 2);
            }
            assert!(damaged, "{length}, {block}");
            store.drop_cache();
            let error = read(&store, &key(1, 0), 0, 1 << 20).await.unwrap_err();
            assert!(
                matches!(
                    &error,
                    StoreError::BadChunk {
                        file: FileId(1),
                        ..
                    }
                ),
                "{error}"
            );
            // By name it is lacking; with its bytes it is well again, for all files.
            let named = NamedChunks {
                names: vec![Some(name)],
                end: SIZE as u64 + length as u64,
                ..two([None, None])
            };
            let outcome = store.name_chunks(named, now()).await.unwrap();
            assert_eq!(outcome, NamedOutcome::Lacking(vec![0]));
            put(&store, &key(3, 0), 0, data.clone()).await;
            store.drop_cache();
            assert_eq!(all(&store, &key(1, 0)).await, data);
            assert_eq!(all(&store, &key(2, 0)).await[SIZE..], data);
        }
    });
}

#[test]
fn a_full_store_removes_unneeded_chunks_before_it_refuses_new_ones() {
    run(async {
        let machine = Machine::new(1);
        machine.disk.set_capacity(6 << 20);
        let store = machine.open().await.unwrap();
        for mark in 0..12 {
            put(&store, &key(1, 0), 0, pattern(mark, 16 * SIZE)).await;
            assert_eq!(all(&store, &key(1, 0)).await, pattern(mark, 16 * SIZE));
        }
        let cleaned = store.counters().chunks_cleaned;
        assert!(cleaned > 0);
        // So does a write of other bytes, at once or prepared.
        for n in 0..3 {
            let data = Bytes::from(pattern(n, 16 * SIZE));
            let piece = write(&key(3, 0), SIZE as u32, n * 16 * SIZE as u64, data.clone());
            if n < 1 {
                store.write(vec![piece], now()).await.unwrap();
            } else {
                let sums = weft_sum::Sums::of(&data);
                let batch = store.prepare(vec![Scattered::from(piece)], sums, now());
                let batch = vec![batch.await.unwrap()];
                store.commit_prepared(batch, vec![], now()).await.unwrap();
            }
        }
        assert!(store.counters().chunks_cleaned > cleaned);
        let much = vec![write(&key(2, 0), CHUNK, 0, pattern(99, 128 * SIZE))];
        let refused = store.write(much, now()).await;
        assert!(
            matches!(refused, Err(StoreError::NoSpace { .. })),
            "{refused:?}"
        );
        assert_eq!(all(&store, &key(1, 0)).await, pattern(11, 16 * SIZE));
    });
}

#[test]
fn a_chunk_that_a_scrub_finds_damaged_is_stored_anew_too() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        put(&store, &key(1, 0), 0, pattern(1, SIZE)).await;
        store.apply().await.unwrap();
        store.drop_cache();
        // All but the recipe's, which comes last.
        for at in &machine.disk.blocks("data")[..SIZE / 4096] {
            assert!(machine.disk.flip("data", at * 4096 + 9, 2));
        }
        store.scrub_begin().await.unwrap();
        let scrubbed = store
            .scrub(&ScrubPosition::default(), 1 << 30)
            .await
            .unwrap();
        assert!(!scrubbed.findings.is_empty());
        put(&store, &key(1, 0), 0, pattern(1, SIZE)).await;
        store.drop_cache();
        assert_eq!(all(&store, &key(1, 0)).await, pattern(1, SIZE));
    });
}

#[test]
fn batches_of_one_commit_that_share_a_new_chunk_keep_each_others_bytes() {
    run(async {
        for start in [0, 1000, SIZE + 10] {
            let store = Machine::new(1).open().await.unwrap();
            put(&store, &key(1, 0), 0, pattern(1, start)).await;
            let mut wanted = pattern(1, start);
            let mut batches = Vec::new();
            // As the frames of a staged write: none ends where a chunk does.
            for n in 0..5_u64 {
                let data = Bytes::from(pattern(10 + n, 30_000));
                let part = write(&key(1, 0), CHUNK, wanted.len() as u64, data.clone());
                wanted.extend_from_slice(&data);
                let sums = weft_sum::Sums::of(&data);
                let prepared = store.prepare(vec![Scattered::from(part)], sums, now());
                batches.push(prepared.await.unwrap());
            }
            store.commit_prepared(batches, vec![], now()).await.unwrap();
            assert!(all(&store, &key(1, 0)).await == wanted, "from {start}");
        }
    });
}

#[test]
fn new_contents_of_a_fork_use_the_memory_of_those_that_they_replace() {
    run(async {
        let machine = Machine::new(5);
        let mut config = machine.config();
        config.cache_bytes = 64 << 20;
        let store = Store::open(config).await.unwrap();
        let (fork, copy) = (key(1, 0), key(2, 0));
        put(&store, &fork, 0, pattern(0, 16 * SIZE)).await;
        put(&store, &copy, 0, pattern(0, 16 * SIZE)).await;
        let first = store.buffer_bytes();
        for round in 1..20 {
            put(&store, &fork, 0, pattern(round, 16 * SIZE)).await;
            store.sync().await.unwrap();
            assert_eq!(all(&store, &fork).await, pattern(round, 16 * SIZE));
        }
        let last = store.buffer_bytes();
        assert!(last <= first + (4 << 20), "{first} bytes grew to {last}");
        // Chunks that were moved stay, and one that another fork has is read from the disk.
        let misses = store.counters().cache_misses;
        let mut moved = pattern(19, 16 * SIZE);
        moved.rotate_left(SIZE);
        put(&store, &fork, 0, moved.clone()).await;
        assert_eq!(all(&store, &fork).await, moved);
        assert_eq!(store.counters().cache_misses, misses);
        assert_eq!(all(&store, &copy).await, pattern(0, 16 * SIZE));
        assert!(store.counters().cache_misses > misses);
    });
}

/// A pass finds a chunk unheld and removes it, while a call that has just begun names it: the call
/// finds the chunk, and it stays, or finds that it is lacking.
#[test]
fn a_chunk_that_is_named_while_it_is_cleaned_away_stays_or_is_lacking() {
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build();
    threads.expect("a runtime").block_on(async {
        let store = Machine::new(1).open().await.unwrap();
        let (mut found, mut lacked) = (0, 0);
        // Microseconds; so that the call comes about when the chunk goes.
        let mut wait = 20;
        for round in 1..4000 {
            let data = pattern(round, SIZE);
            put(&store, &key(1, 0), 0, data.clone()).await;
            put(&store, &key(1, 0), 0, pattern(0, SIZE)).await;
            let name = Some(ChunkName::of(&data));
            let (pass, call) = (store.clone(), store.clone());
            let cleaning = tokio::spawn(async move { pass.clean().await });
            let naming = tokio::spawn(async move {
                let began = std::time::Instant::now();
                while began.elapsed().as_micros() < wait {
                    std::hint::spin_loop();
                }
                call.name_chunks(two([name, name]), now()).await
            });
            let (removed, found_there) = join(cleaning, naming).await;
            removed.unwrap().unwrap();
            match found_there.unwrap().unwrap() {
                NamedOutcome::Lacking(lacking) if lacking.is_empty() => {
                    found += 1;
                    wait += 1;
                    assert!(all(&store, &key(2, 0)).await[SIZE..] == data.repeat(2));
                }
                NamedOutcome::Lacking(lacking) => {
                    lacked += 1;
                    wait = wait.saturating_sub(1);
                    assert_eq!(lacking, [0, 1]);
                }
                NamedOutcome::Changed(_) => panic!("there were no old names"),
            }
        }
        assert!(found > 0 && lacked > 0, "{found}, {lacked}");
    });
}

#[test]
fn accepting_the_loss_of_a_chunk_makes_zeros_of_it_in_one_file() {
    run(async {
        let store = Machine::new(1).open().await.unwrap();
        let mut data = pattern(1, 3 * SIZE);
        for file in 1..3 {
            put(&store, &key(file, 0), 0, data[..3 * SIZE - 100].to_vec()).await;
        }
        let none = store.accept_losses(FileId(1)).await.unwrap();
        assert_eq!((none.files, none.bytes), (0, 0));
        let tail = ChunkName::of(&data[2 * SIZE..3 * SIZE - 100]);
        for name in [ChunkName::of(&data[SIZE..2 * SIZE]), tail] {
            store.remove_chunk(&name).await.unwrap();
        }
        assert!(read(&store, &key(1, 0), 0, 1 << 20).await.is_err());
        let lost = store.accept_losses(FileId(1)).await.unwrap();
        let bytes = 2 * SIZE as u64 - 100;
        assert_eq!((lost.files, lost.ranges, lost.bytes), (1, 2, bytes));
        data.truncate(3 * SIZE - 100);
        data[SIZE..].fill(0);
        assert_eq!(all(&store, &key(1, 0)).await, data);
        let again = store.accept_losses(FileId(1)).await.unwrap();
        assert_eq!(again.files, 0);
        // The other file's owner has not accepted it.
        assert!(read(&store, &key(2, 0), 0, 1 << 20).await.is_err());
        assert_eq!(store.missing_chunks(10).await.unwrap().len(), 2);
    });
}
