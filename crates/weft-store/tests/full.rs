//! A small disk that is filled again and again: a write that does not fit is refused before it
//! changes anything, operations that free space succeed, and a crash at any write leaves an allowed
//! state.
#![allow(missing_docs)]

use crate::common;

use std::collections::{BTreeMap, BTreeSet};

use common::{Machine, key, now, pattern, read, run, write};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_layout::FileId;
use weft_store::{Store, StoreConfig, StoreError};

const CHUNK: u32 = 70_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    files: BTreeMap<u64, Vec<u8>>,
    gone: BTreeSet<u64>,
    checkpoints: BTreeSet<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Write(u64, usize, usize),
    Truncate(u64, usize),
    Checkpoint(u64),
    Drop(u64, u64),
    Delete(u64),
    Sync,
}

impl Op {
    /// Whether the operation frees space, so that a full disk must not refuse it.
    fn frees_space(self) -> bool {
        matches!(self, Op::Truncate(..) | Op::Drop(..) | Op::Delete(_))
    }
}

impl Model {
    fn choose(&self, rng: &mut SmallRng, full: bool) -> Op {
        let next = self
            .files
            .keys()
            .chain(&self.gone)
            .max()
            .map_or(1, |n| n + 1);
        let any = rng.random_range(0..=self.files.len());
        let file = *self.files.keys().nth(any).unwrap_or(&next);
        let length = self.files.get(&file).map_or(0, Vec::len);
        let odds = if full { 36..100 } else { 0..84 };
        match rng.random_range(odds) {
            0..48 => {
                let size = [700, 9_000, 60_000, 150_000][rng.random_range(0..4)];
                Op::Write(file, length, size)
            }
            48..60 if length > 0 => Op::Write(file, rng.random_range(0..length), 20_000),
            60..68 if length > 0 => Op::Truncate(file, rng.random_range(0..length)),
            68..74 if length > 0 => Op::Checkpoint(file),
            74..84 => self
                .checkpoints
                .first()
                .map_or(Op::Sync, |c| Op::Drop(c.0, c.1)),
            84..98 if length > 0 => Op::Delete(file),
            _ => Op::Sync,
        }
    }

    fn apply(&mut self, n: u64, op: Op) {
        match op {
            Op::Write(file, at, length) => {
                let bytes = self.files.entry(file).or_default();
                bytes.resize(bytes.len().max(at + length), 0);
                bytes[at..at + length].copy_from_slice(&pattern(n, length));
            }
            Op::Truncate(file, length) => self.files.get_mut(&file).unwrap().truncate(length),
            Op::Checkpoint(file) => {
                self.checkpoints.insert((file, n));
            }
            Op::Drop(file, number) => {
                self.checkpoints.remove(&(file, number));
            }
            Op::Delete(file) => {
                self.files.remove(&file);
                self.gone.insert(file);
                self.checkpoints.retain(|(f, _)| *f != file);
            }
            Op::Sync => {}
        }
    }
}

async fn perform(store: &Store, n: u64, op: Op) -> Result<(), StoreError> {
    match op {
        Op::Write(file, at, length) => {
            let piece = write(&key(file, 0), CHUNK, at as u64, pattern(n, length));
            store.write(vec![piece], now()).await
        }
        Op::Truncate(file, length) => {
            let lengths = vec![(key(file, 0), length as u64)];
            store.truncate(FileId(file), lengths, n, now()).await
        }
        Op::Checkpoint(file) => store.checkpoint(FileId(file), n, now()).await,
        Op::Drop(file, number) => store.drop_checkpoint(FileId(file), number, n).await,
        Op::Delete(file) => store.delete_file(FileId(file)).await,
        Op::Sync => store.sync().await,
    }
}

async fn observe(store: &Store, last: u64) -> Model {
    let mut model = Model::default();
    for file in 1..=last {
        match store.forks(FileId(file)).await {
            Err(StoreError::Stale { .. }) => {
                model.gone.insert(file);
            }
            Err(error) => panic!("{error}"),
            Ok(forks) if forks.is_empty() => {}
            Ok(_) => {
                let bytes = read(store, &key(file, 0), 0, 1 << 24).await.unwrap();
                model.files.insert(file, bytes);
                let kept = store.checkpoints(FileId(file)).unwrap();
                model
                    .checkpoints
                    .extend(kept.iter().map(|(n, _)| (file, *n)));
            }
        }
    }
    model
}

/// A store whose disk is bounded by its configuration, or by the file system.
fn config(machine: &Machine, by_system: bool) -> StoreConfig {
    let mut config = machine.config();
    config.growth_bytes = 200_000;
    if by_system {
        machine.disk.set_capacity(2_000_000);
        config.reserve_bytes = 600_000;
    } else {
        config.capacity = 1_234_567;
    }
    config
}

/// Fills and empties the disk until the process dies or `count` operations are done; returns the
/// number of disk operations and how often the disk was full.
async fn fill(seed: u64, count: u64, death: Option<(u64, bool)>) -> (u64, u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut machine = Machine::new(seed);
    machine.truncate_chunks = [1, 2, 1024][seed as usize % 3];
    let by_system = seed.is_multiple_of(2);
    let store = Store::open(config(&machine, by_system)).await.unwrap();
    let (mut states, mut synced, mut full) = (vec![Model::default()], 0, 0);
    if let Some((at, _)) = death {
        machine.disk.die_at(machine.disk.operations() + at);
    }
    let (mut filled, mut in_flight) = (false, false);
    for n in 1..=count {
        let op = states.last().unwrap().choose(&mut rng, filled);
        let mut state = states.last().unwrap().clone();
        state.apply(n, op);
        match perform(&store, n, op).await {
            Ok(()) => {
                states.push(state);
                filled &= !op.frees_space() || rng.random_bool(0.7);
                if matches!(op, Op::Sync) {
                    synced = states.len() - 1;
                }
            }
            Err(StoreError::NoSpace { .. }) if !machine.disk.is_dead() => {
                assert!(!op.frees_space(), "seed {seed}, {n}: {op:?} was refused");
                full += 1;
                filled = true;
                if full % 8 == 1 {
                    let found = observe(&store, count).await;
                    assert!(found == *states.last().unwrap(), "seed {seed}, {n}: {op:?}");
                }
            }
            Err(error) => {
                assert!(machine.disk.is_dead(), "seed {seed}, {n}: {op:?}: {error}");
                states.push(state);
                in_flight = true;
                break;
            }
        }
    }
    let operations = machine.disk.operations();
    let power = death.is_some_and(|d| d.1);
    drop(store);
    if power {
        machine.lose_power(seed);
    } else {
        machine.kill(seed);
    }
    let store = Store::open(config(&machine, by_system)).await;
    let store = store.unwrap_or_else(|e| panic!("seed {seed}, death {death:?}: {e}"));
    let found = observe(&store, count).await;
    let from = if power {
        synced
    } else {
        states.len() - 1 - usize::from(in_flight)
    };
    let allowed = states[from..].contains(&found);
    assert!(allowed, "seed {seed}, death {death:?}");
    // Everything can be deleted, and then as much fits as at the start.
    for file in found.files.keys() {
        store.delete_file(FileId(*file)).await.unwrap();
    }
    store.reclaim().await.unwrap();
    assert_eq!(store.usage().used, 0, "seed {seed}, death {death:?}");
    let free = store.usage().available;
    assert!(free > 900_000, "seed {seed}, death {death:?}: {free}");
    let large = write(&key(9999, 0), CHUNK, 0, pattern(1, 800_000));
    store.write(vec![large], now()).await.unwrap();
    (operations, full)
}

#[test]
fn a_disk_filled_again_and_again_refuses_only_writes_that_do_not_fit() {
    for seed in 0..6 {
        let (_, full) = run(fill(seed, 400, None));
        assert!(full > 5, "seed {seed} was full {full} times");
    }
}

#[test]
fn a_crash_at_any_write_of_a_full_disk_leaves_an_allowed_state() {
    let every = std::env::var("WEFT_CASES").is_ok();
    for seed in 10..12 {
        let (total, full) = run(fill(seed, 70, None));
        assert!(full > 0, "seed {seed} was never full");
        for at in (1..=total).step_by(if every { 1 } else { 7 }) {
            for power in [false, true] {
                run(fill(seed, 70, Some((at, power))));
            }
        }
    }
}

#[test]
fn a_log_without_space_for_a_segment_never_falls_behind_the_index() {
    run(async {
        let machine = Machine::new(5);
        let store = machine.open().await.unwrap();
        let put = |n: u64| vec![write(&key(n, 0), CHUNK, 0, pattern(n, 100))];
        for n in 1..=3 {
            store.write(put(n), now()).await.unwrap();
        }
        // The next segment exists, but no further one fits: only calls that free space are
        // admitted now.
        machine.disk.set_capacity(1);
        store.apply().await.unwrap();
        perform(&store, 0, Op::Delete(1)).await.unwrap();
        store.sync().await.unwrap();
        store.apply().await.unwrap();
        perform(&store, 0, Op::Delete(3)).await.unwrap();
        store.sync().await.unwrap();
        drop(store);
        machine.kill(1);
        machine.disk.set_capacity(u64::MAX);
        let store = machine.open().await.unwrap();
        let found = read(&store, &key(2, 0), 0, 1000).await.unwrap();
        assert_eq!(found, pattern(2, 100));
        for n in [1, 3] {
            assert!(read(&store, &key(n, 0), 0, 1000).await.is_err(), "{n}");
        }
    });
}
