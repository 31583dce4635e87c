//! Random operations, crashes and reopenings, compared with an oracle that knows which states are
//! allowed.
//!
//! The oracle keeps the state after every operation. After a kill, the store must hold the state
//! after the last acknowledged operation, or after the one in flight. After a power loss, it must
//! hold the state after the last sync or after some later operation.
#![allow(missing_docs)]

use crate::common;
#[path = "model/coverage.rs"]
pub mod coverage;
#[path = "model/history.rs"]
pub mod history;
#[path = "model/oracle.rs"]
pub mod oracle;
#[path = "model/real.rs"]
pub mod real;

use common::{Machine, run};
use history::{History, difference};
use oracle::Model;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use real::observe;
use weft_layout::FileId;

/// One machine, several processes: each runs operations and crashes, and its store recovers,
/// perhaps with another crash. Returns the number of disk operations.
async fn run_lives(seed: u64, deaths: &[(u64, bool)], count: u64) -> u64 {
    const FILES: std::ops::Range<u64> = 0..6;
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut machine = Machine::new(seed);
    machine.truncate_chunks = [1, 3, 1024][seed as usize % 3];
    let mut base = 1;
    let mut operations = 0;
    let mut history = History::new(Model::default());
    for (life, &(die_at, power)) in deaths.iter().enumerate() {
        let what = format!("seed {seed}, life {life}, death at {die_at}");
        machine.disk.die_at(machine.disk.operations() + die_at);
        match machine.open().await {
            Ok(store) => {
                // Opening syncs: nothing before it can be lost.
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
        coverage::add_log(&machine);
        if power {
            machine.lose_power(rng.random());
        } else {
            machine.kill(rng.random());
        }
        if rng.random_bool(0.5) {
            machine.index.lose_journal(rng.random());
        }
        let store = match machine.open().await {
            Ok(store) => store,
            Err(error) => panic!("{what}: power {power}: cannot reopen: {error}"),
        };
        let found = history.check(observe(&store, FILES).await, power, &what);
        // More operations reveal mistakes of the recovery.
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
        machine.index.lose_journal(rng.random());
        if rng.random_bool(0.5) {
            let store = machine.open().await.unwrap();
            let what = format!("{what}, without the end of the index's journal");
            history.check(observe(&store, FILES).await, false, &what);
            history = History::new(history.states.pop().unwrap());
            drop(store);
            machine.kill(rng.random());
        }
    }
    coverage::add_machine(&machine);
    operations
}

/// The seeds of a test: `count` of them by default. `WEFT_CASES` scales that; its default is
/// [`MANY`].
fn seeds(from: u64, count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let from = from + number("WEFT_SEED").unwrap_or(0);
    let cases = number("WEFT_CASES").unwrap_or(MANY);
    from..from + (count * cases).div_ceil(MANY)
}

/// Runs of the test with many crashes.
const MANY: u64 = 150;

#[test]
fn without_a_crash_the_store_equals_the_model() {
    for seed in seeds(0, 20) {
        run(run_lives(seed, &[(u64::MAX / 2, false)], 120));
    }
}

#[test]
fn a_crash_at_every_storage_operation_leaves_an_allowed_state() {
    for seed in seeds(100, 4) {
        let total = run(run_lives(seed, &[(u64::MAX / 2, false)], 25));
        for at in 1..=total {
            for power in [false, true] {
                run(run_lives(seed, &[(at, power)], 25));
            }
        }
    }
    coverage::assert_deaths();
}

#[test]
fn repeated_crashes_leave_allowed_states() {
    for seed in seeds(1000, MANY) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let deaths: Vec<(u64, bool)> = (0..6)
            .map(|_| (rng.random_range(1..160), rng.random_bool(0.5)))
            .collect();
        run(run_lives(seed, &deaths, 60));
    }
    coverage::assert_deaths();
    coverage::assert_everything();
}

#[test]
fn concurrent_writers_each_keep_a_prefix_of_their_file() {
    for seed in seeds(2000, 60) {
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

/// Finds the smallest failing run without a crash; `SHOW=1` prints its operations.
#[test]
#[ignore = "a tool for finding the smallest failing run"]
fn smallest() {
    for count in 1..90 {
        for seed in 0..20 {
            println!("seed {seed} count {count}");
            run(run_lives(seed, &[(u64::MAX / 2, false)], count));
        }
    }
}

#[test]
fn without_checkpoints_a_store_uses_only_the_blocks_of_its_files() {
    for seed in seeds(3000, 60) {
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
