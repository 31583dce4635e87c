//! Random operations, crashes and reopenings against an oracle that knows which states are allowed.
//!
//! The oracle keeps the state after every operation. After a kill the store must hold the state
//! after the last acknowledged one, or after the one that was under way; after a loss of power the
//! state after some operation between the last sync and that.
#![allow(missing_docs)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use common::{Machine, key, pattern, read, run, write};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_layout::{CellOffset, FileId};
use weft_store::{Run, Scattered, Store, StoreError, Timestamp, Write};

/// What a store should hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    forks: BTreeMap<(u64, u32), Vec<u8>>,
    /// By file and number: what each cell held.
    checkpoints: BTreeMap<(u64, u64), BTreeMap<u32, Vec<u8>>>,
    deleted: BTreeSet<u64>,
}

#[derive(Clone, Debug)]
enum Op {
    /// `(cell, offset, length)` of each piece.
    Write(u64, Vec<(u32, usize, usize)>),
    Truncate(u64, Vec<(u32, usize)>),
    /// `(cell, offset, length)`
    Clear(u64, (u32, usize, usize)),
    /// `(cell, length)`
    Extend(u64, (u32, usize)),
    Remove(u64, u32),
    Checkpoint(u64),
    /// `(file, number)`; at first any number, see [`Model::choose`].
    RollBack(u64, u64),
    Drop(u64, u64),
    Reclaim,
    Delete(u64),
    Sync,
    Apply,
    DropCache,
}

/// Odd sizes, small and large, one for each file.
const CHUNKS: [u32; 5] = [4096, 5000, 16384, 65536, 70_000];

fn chunk(file: u64) -> u32 {
    CHUNKS[file as usize % CHUNKS.len()]
}

fn length(rng: &mut SmallRng) -> usize {
    match rng.random_range(0..8) {
        0..3 => rng.random_range(1..200),
        3..5 => rng.random_range(1..9000),
        5 => 4096 * rng.random_range(1..6),
        6 => rng.random_range(32_768..80_000),
        _ => 4096 * rng.random_range(8..24),
    }
}

fn offset(rng: &mut SmallRng) -> usize {
    match rng.random_range(0..3) {
        0 => rng.random_range(0..150_000),
        1 => 4096 * rng.random_range(0..40),
        _ => 64 * rng.random_range(0..100),
    }
}

fn op(rng: &mut SmallRng, files: std::ops::Range<u64>) -> Op {
    let file = rng.random_range(files);
    match rng.random_range(0..100) {
        0..44 => {
            let pieces = rng.random_range(1..4);
            Op::Write(
                file,
                (0..pieces)
                    .map(|_| (rng.random_range(0..2), offset(rng), length(rng)))
                    .collect(),
            )
        }
        44..46 => Op::Reclaim,
        46..52 => Op::Checkpoint(file),
        52..55 => Op::RollBack(file, rng.random_range(0..100)),
        55..59 => Op::Drop(file, rng.random_range(0..100)),
        59..64 => Op::Clear(file, (rng.random_range(0..2), offset(rng), length(rng))),
        64..66 => Op::Extend(file, (rng.random_range(0..2), offset(rng))),
        66..74 => Op::Truncate(file, (0..2).map(|cell| (cell, offset(rng))).collect()),
        74..76 => Op::Remove(file, rng.random_range(0..2)),
        76 => Op::Delete(file),
        77..88 => Op::Sync,
        88..94 => Op::Apply,
        _ => Op::DropCache,
    }
}

impl Model {
    /// Rolling back and dropping mean one of the checkpoints there are; without any, one is made.
    fn choose(&self, op: Op) -> Op {
        let pick = |file: u64, any: u64| {
            let there = self.checkpoints.keys().filter(|(f, _)| *f == file);
            let there: Vec<u64> = there.map(|(_, number)| *number).collect();
            (!there.is_empty()).then(|| there[any as usize % there.len()])
        };
        match op {
            Op::RollBack(file, any) => match pick(file, any) {
                Some(number) => Op::RollBack(file, number),
                None => Op::Checkpoint(file),
            },
            Op::Drop(file, any) => match pick(file, any) {
                Some(number) => Op::Drop(file, number),
                None => Op::Checkpoint(file),
            },
            other => other,
        }
    }

    fn cells(&self, file: u64) -> BTreeMap<u32, Vec<u8>> {
        let forks = self.forks.iter().filter(|((f, _), _)| *f == file);
        forks.map(|((_, cell), b)| (*cell, b.clone())).collect()
    }

    fn apply(&mut self, n: u64, op: &Op) {
        match op {
            Op::Write(file, pieces) if !self.deleted.contains(file) => {
                for (i, (cell, offset, length)) in pieces.iter().enumerate() {
                    let fork = self.forks.entry((*file, *cell)).or_default();
                    fork.resize(fork.len().max(offset + length), 0);
                    fork[*offset..offset + length]
                        .copy_from_slice(&pattern(n * 8 + i as u64, *length));
                }
            }
            Op::Truncate(file, lengths) if !self.deleted.contains(file) => {
                for (cell, length) in lengths {
                    if *length > 0 || self.forks.contains_key(&(*file, *cell)) {
                        self.forks
                            .entry((*file, *cell))
                            .or_default()
                            .resize(*length, 0);
                    }
                }
            }
            Op::Clear(file, (cell, offset, length)) => {
                if let Some(fork) = self.forks.get_mut(&(*file, *cell)) {
                    let end = fork.len().min(offset + length);
                    fork[end.min(*offset)..end].fill(0);
                }
            }
            Op::Extend(file, (cell, length)) if !self.deleted.contains(file) => {
                let fork = self.forks.entry((*file, *cell)).or_default();
                fork.resize(fork.len().max(*length), 0);
            }
            Op::Remove(file, cell) => {
                self.forks.remove(&(*file, *cell));
            }
            Op::Checkpoint(file) if !self.deleted.contains(file) => {
                self.checkpoints.insert((*file, n + 1), self.cells(*file));
            }
            Op::RollBack(file, number) => {
                let Some(cells) = self.checkpoints.get(&(*file, *number)).cloned() else {
                    return;
                };
                self.forks.retain(|(f, _), _| f != file);
                for (cell, bytes) in cells {
                    self.forks.insert((*file, cell), bytes);
                }
            }
            Op::Drop(file, number) => {
                self.checkpoints.remove(&(*file, *number));
            }
            Op::Delete(file) => {
                self.forks.retain(|(f, _), _| f != file);
                self.checkpoints.retain(|(f, _), _| f != file);
                self.deleted.insert(*file);
            }
            _ => {}
        }
    }
}

/// The same write as two combs, one in the gaps of the other, and a rest.
fn combed(write: Write) -> Scattered {
    let (offset, bytes) = (write.offset.0, &write.data);
    let tooth = (bytes.len() / 9).max(1);
    let teeth: Vec<&[u8]> = bytes.chunks_exact(tooth).collect();
    let rest = bytes.chunks_exact(tooth).remainder();
    let mut data = Vec::with_capacity(bytes.len());
    let mut runs = Vec::new();
    for first in 0..teeth.len().min(2) {
        let comb: Vec<&[u8]> = teeth[first..].iter().copied().step_by(2).collect();
        runs.push(Run {
            offset: CellOffset(offset + (first * tooth) as u64),
            at: data.len(),
            length: tooth as u64,
            count: comb.len() as u64,
            stride: 2 * tooth as u64,
        });
        data.extend_from_slice(&comb.concat());
    }
    if !rest.is_empty() {
        let at = offset + (teeth.len() * tooth) as u64;
        runs.push(Run::one(at, data.len(), rest.len() as u64));
        data.extend_from_slice(rest);
    }
    Scattered {
        key: write.key,
        chunk: write.chunk,
        runs,
        data: data.into(),
    }
}

async fn perform(store: &Store, n: u64, op: &Op) -> Result<(), StoreError> {
    let time = Timestamp(n.cast_signed());
    match op {
        Op::Write(file, pieces) => {
            let piece = |(i, (cell, offset, length)): (usize, &(u32, usize, usize))| {
                let data = pattern(n * 8 + i as u64, *length);
                write(&key(*file, *cell), chunk(*file), *offset as u64, data)
            };
            let writes = pieces.iter().enumerate().map(piece);
            if n.is_multiple_of(2) {
                let combed = writes.map(combed).collect();
                return store.write_scattered(combed, time).await;
            }
            store.write(writes.collect(), time).await
        }
        Op::Truncate(file, lengths) => {
            let lengths = lengths
                .iter()
                .map(|(cell, length)| (key(*file, *cell), *length as u64));
            store
                .truncate(FileId(*file), lengths.collect(), n + 1, time)
                .await
        }
        Op::Clear(file, (cell, offset, length)) => {
            let (start, end) = (*offset as u64, (*offset + *length) as u64);
            store.clear(&[(key(*file, *cell), start..end)], time).await
        }
        Op::Extend(file, (cell, length)) => {
            let key = key(*file, *cell);
            store.extend(&key, chunk(*file), *length as u64, time).await
        }
        Op::Checkpoint(file) => store.checkpoint(FileId(*file), n + 1, time).await,
        Op::RollBack(file, number) => {
            let file = FileId(*file);
            store.roll_back(file, *number, n + 1, time).await
        }
        Op::Drop(file, number) => {
            let file = FileId(*file);
            store.drop_checkpoint(file, *number, n + 1).await
        }
        Op::Reclaim => store.reclaim().await,
        Op::Remove(file, cell) => store.remove_fork(&key(*file, *cell)).await,
        Op::Delete(file) => store.delete_file(FileId(*file)).await,
        Op::Sync => store.sync().await,
        Op::Apply => store.apply().await,
        Op::DropCache => {
            store.drop_cache();
            Ok(())
        }
    }
}

/// What a store really holds of some files.
async fn observe(store: &Store, files: std::ops::Range<u64>) -> Model {
    let mut model = Model::default();
    for file in files {
        match store.forks(FileId(file)).await {
            Err(StoreError::Stale { .. }) => {
                model.deleted.insert(file);
            }
            Err(error) => panic!("cannot list file {file}: {error}"),
            Ok(forks) => {
                for (key, status) in forks {
                    let bytes = read(store, &key, 0, 1 << 22).await.unwrap();
                    assert_eq!(bytes.len() as u64, status.length);
                    model.forks.insert((file, key.cell.0), bytes);
                }
                for (number, _) in store.checkpoints(FileId(file)).unwrap() {
                    let cells = observe_checkpoint(store, file, number).await;
                    model.checkpoints.insert((file, number), cells);
                }
            }
        }
    }
    model
}

async fn observe_checkpoint(store: &Store, file: u64, number: u64) -> BTreeMap<u32, Vec<u8>> {
    let mut cells = BTreeMap::new();
    for (key, status) in store.checkpoint_forks(FileId(file), number).unwrap() {
        let parts = store.read_checkpoint(&key, number, CellOffset(0), 1 << 22);
        let bytes = parts.await.unwrap().concat();
        assert_eq!(bytes.len() as u64, status.length);
        cells.insert(key.cell.0, bytes);
    }
    cells
}

/// The states a run went through.
struct History {
    states: Vec<Model>,
    /// Index of the state that the last sync covers.
    synced: usize,
    /// The operation under way when the process died took effect at most once.
    under_way: bool,
}

impl History {
    fn new(state: Model) -> Self {
        Self {
            states: vec![state],
            synced: 0,
            under_way: false,
        }
    }

    /// Runs operations until all are done or the process dies.
    async fn go(
        &mut self,
        store: &Store,
        rng: &mut SmallRng,
        base: u64,
        count: u64,
        files: std::ops::Range<u64>,
        machine: &Machine,
    ) {
        for n in base..base + count {
            let op = self.states.last().unwrap().choose(op(rng, files.clone()));
            if std::env::var_os("SHOW").is_some() {
                println!("{n}: {op:?}");
            }
            let mut state = self.states.last().unwrap().clone();
            state.apply(n, &op);
            match perform(store, n, &op).await {
                Ok(()) => {
                    self.states.push(state);
                    if matches!(op, Op::Sync | Op::Apply | Op::Reclaim) {
                        self.synced = self.states.len() - 1;
                    }
                }
                Err(StoreError::Stale { .. }) => {}
                Err(error) => {
                    assert!(
                        machine.disk.is_dead(),
                        "operation {n} failed: {error}: {op:?}"
                    );
                    self.states.push(state);
                    self.under_way = true;
                    return;
                }
            }
        }
    }

    /// The state found must be one that is allowed; it is returned.
    fn check(&self, found: Model, power: bool, what: &str) -> Model {
        let last = self.states.len() - 1;
        let from = if power {
            self.synced
        } else {
            last - usize::from(self.under_way)
        };
        if !self.states[from..].contains(&found) {
            let near = self.states.iter().rposition(|s| *s == found);
            panic!(
                "{what}: power {power}: allowed {from}..={last}, found {near:?}\n{}",
                difference(&self.states[last], &found)
            );
        }
        found
    }
}

fn difference(wanted: &Model, found: &Model) -> String {
    let mut out = format!("deleted {:?} / {:?}\n", wanted.deleted, found.deleted);
    for (k, w) in &wanted.forks {
        match found.forks.get(k) {
            Some(f) if f == w => {}
            Some(f) => {
                let at = w.iter().zip(f).position(|(a, b)| a != b);
                let _ = writeln!(
                    out,
                    "{k:?}: {} / {} bytes, first difference {at:?}",
                    w.len(),
                    f.len()
                );
            }
            None => {
                let _ = writeln!(out, "{k:?}: missing");
            }
        }
    }
    for (k, w) in &wanted.checkpoints {
        match found.checkpoints.get(k) {
            Some(f) if f == w => {}
            Some(_) => {
                let _ = writeln!(out, "checkpoint {k:?}: other bytes");
            }
            None => {
                let _ = writeln!(out, "checkpoint {k:?}: missing");
            }
        }
    }
    out
}

/// One machine, several lives: operations, a crash, recovery (perhaps with a crash of its own).
async fn lives(seed: u64, deaths: &[(u64, bool)], count: u64) -> u64 {
    const FILES: std::ops::Range<u64> = 0..4;
    let mut rng = SmallRng::seed_from_u64(seed);
    let machine = Machine::new(seed);
    let mut base = 1;
    let mut operations = 0;
    let mut history = History::new(Model::default());
    for (life, &(die_at, power)) in deaths.iter().enumerate() {
        let what = format!("seed {seed}, life {life}, death at {die_at}");
        machine.disk.die_at(machine.disk.operations() + die_at);
        match machine.open().await {
            Ok(store) => {
                // Opening syncs: nothing before it can be lost any more.
                history = History::new(history.states.pop().unwrap());
                history
                    .go(&store, &mut rng, base, count, FILES, &machine)
                    .await;
                if die_at == u64::MAX / 2 {
                    let found = observe(&store, FILES).await;
                    history.check(found, false, &format!("{what}, alive"));
                }
            }
            Err(error) => assert!(machine.disk.is_dead(), "{what}: {error}"),
        }
        base += count;
        operations = machine.disk.operations();
        if power {
            machine.lose_power(rng.random());
        } else {
            machine.kill(rng.random());
        }
        let store = match machine.open().await {
            Ok(store) => store,
            Err(error) => panic!("{what}: power {power}: cannot reopen: {error}"),
        };
        let found = history.check(observe(&store, FILES).await, power, &what);
        // Go on for a while: what recovery got wrong would show here.
        history = History::new(found);
        history.go(&store, &mut rng, base, 6, FILES, &machine).await;
        base += 6;
        store.drop_cache();
        history.check(
            observe(&store, FILES).await,
            false,
            &format!("{what}, afterwards"),
        );
        if rng.random_bool(0.5) {
            store.close().await.unwrap();
            history = History::new(history.states.pop().unwrap());
        } else {
            machine.kill(rng.random());
        }
    }
    operations
}

#[test]
fn without_a_crash_the_store_is_the_model() {
    for seed in 0..20 {
        run(lives(seed, &[(u64::MAX / 2, false)], 120));
    }
}

#[test]
fn a_crash_at_every_storage_operation_leaves_an_allowed_state() {
    for seed in 100..104 {
        let total = run(lives(seed, &[(u64::MAX / 2, false)], 25));
        for at in 1..=total {
            for power in [false, true] {
                run(lives(seed, &[(at, power)], 25));
            }
        }
    }
}

#[test]
fn crashes_of_many_lives_leave_allowed_states() {
    for seed in 1000..1150 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let deaths: Vec<(u64, bool)> = (0..6)
            .map(|_| (rng.random_range(1..160), rng.random_bool(0.5)))
            .collect();
        run(lives(seed, &deaths, 60));
    }
}

#[test]
fn concurrent_writers_of_their_own_files_each_keep_a_prefix() {
    for seed in 2000..2060 {
        run(async {
            let mut rng = SmallRng::seed_from_u64(seed);
            let machine = Machine::new(seed);
            let power = rng.random_bool(0.5);
            machine.disk.die_at(rng.random_range(20..400));
            let Ok(store) = machine.open().await else {
                return;
            };
            let writers = (0..6_u64).map(|file| {
                let (store, machine) = (&store, &machine);
                let mut rng = SmallRng::seed_from_u64(seed * 100 + file);
                async move {
                    let mut history = History::new(Model::default());
                    history
                        .go(store, &mut rng, 1, 40, file..file + 1, machine)
                        .await;
                    history
                }
            });
            let histories = futures_util::future::join_all(writers).await;
            if power {
                machine.lose_power(rng.random());
            } else {
                machine.kill(rng.random());
            }
            drop(store);
            let store = machine.open().await.unwrap();
            for (file, history) in (0_u64..).zip(histories) {
                history.check(
                    observe(&store, file..file + 1).await,
                    power,
                    &format!("seed {seed}, file {file}"),
                );
            }
        });
    }
}

/// The smallest failing run of one life without a crash, to look at with `SHOW=1`.
#[test]
#[ignore = "a tool for finding the smallest failing run"]
fn smallest() {
    for count in 1..90 {
        for seed in 0..20 {
            println!("seed {seed} count {count}");
            run(lives(seed, &[(u64::MAX / 2, false)], count));
        }
    }
}

#[test]
fn without_checkpoints_a_store_holds_what_its_files_hold_and_no_more() {
    for seed in 3000..3060 {
        run(async {
            let mut rng = SmallRng::seed_from_u64(seed);
            let machine = Machine::new(seed);
            let mut store = machine.open().await.unwrap();
            let mut history = History::new(Model::default());
            history.go(&store, &mut rng, 1, 80, 0..3, &machine).await;
            if rng.random_bool(0.5) {
                drop(store);
                machine.kill(seed);
                store = machine.open().await.unwrap();
            }
            let mut last = history.states.pop().unwrap();
            for (op, (file, number)) in (1000..).zip(last.checkpoints.keys()) {
                let file = FileId(*file);
                store.drop_checkpoint(file, *number, op).await.unwrap();
            }
            last.checkpoints.clear();
            store.reclaim().await.unwrap();
            let mut stored = 0;
            for file in 0..3 {
                let forks = store.forks(FileId(file)).await.unwrap_or_default();
                stored += forks.iter().map(|(_, s)| s.stored).sum::<u64>();
            }
            assert_eq!(store.usage().used, stored, "seed {seed}");
            store.drop_cache();
            let found = observe(&store, 0..3).await;
            assert!(found == last, "seed {seed}: {}", difference(&last, &found));
            // Opening counts every block again.
            store.close().await.unwrap();
            let store = machine.open().await.unwrap();
            assert_eq!(store.usage().used, stored, "seed {seed}, opened again");
        });
    }
}
