//! Simulates whole volumes, one seed after another for `WEFT_SECONDS` (40), a quarter of the time
//! with clients that work ahead of the metadata service. A failure names its
//! seed and the command that replays that seed alone:
//! `WEFT_SEED=4711 cargo test -p weft-sim --test seeds …`. With both variables, the seeds start at
//! `WEFT_SEED`; `WEFT_SIM_REPLAYS` sets the number of runs that are compared with their replays.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use weft_sim::{Canary, Outcome, Plan, run, run_ahead, run_replicas};

fn plan(seed: u64) -> Plan {
    Plan {
        seed,
        servers: 3,
        clients: 3,
        operations: 80,
        faults: 4,
        rot: seed % 2 == 1,
        canary: None,
    }
}

fn number(name: &str) -> Option<u64> {
    let given = std::env::var(name).ok()?;
    Some(given.parse().expect("a number"))
}

/// Runs a seed of a test; a failure prints the command that runs it again.
fn name_seed(test: &str, seed: u64, run: impl FnOnce()) {
    if let Err(failure) = catch_unwind(AssertUnwindSafe(run)) {
        println!(
            "seed {seed} failed; this command replays it:\n    \
             WEFT_SEED={seed} cargo test -p weft-sim --test seeds {test} -- --nocapture"
        );
        std::panic::resume_unwind(failure);
    }
}

/// Runs seeds for a share of the time, in quarters, and asserts that nothing is wrong. Returns what
/// they did together, and how many there were.
fn explore(
    test: &str,
    quarters: u64,
    plan: fn(u64) -> Plan,
    run: fn(Plan) -> Outcome,
) -> (Outcome, u64) {
    let (first, seconds) = (number("WEFT_SEED"), number("WEFT_SECONDS"));
    if let Ok(levels) = std::env::var("WEFT_LOG") {
        let log = tracing_subscriber::fmt().with_env_filter(levels);
        let _ = log.with_ansi(false).try_init();
    }
    let alone = first.is_some() && seconds.is_none();
    let (first, seconds) = (first.unwrap_or(0), seconds.unwrap_or(40) * quarters / 4);
    let (started, mut runs) = (Instant::now(), 0);
    let mut all = Outcome::default();
    while runs == 0 || (!alone && started.elapsed() < Duration::from_secs(seconds)) {
        let seed = first.wrapping_add(runs);
        runs += 1;
        name_seed(test, seed, || {
            let outcome = run(plan(seed));
            if outcome.wrong.is_some() {
                println!("faults: {:?}", outcome.faults);
            }
            assert_eq!(outcome.wrong, None, "seed {seed}");
            all.add(&outcome);
        });
    }
    println!(
        "{runs} seeds from {first} on in {:.1} s\noperations: {:#?}\nfaults: {:#?}",
        started.elapsed().as_secs_f64(),
        all.operations,
        all.faults
    );
    (all, runs)
}

fn plan_of_replicas(seed: u64) -> Plan {
    Plan {
        servers: 2,
        clients: 3,
        operations: 250,
        faults: 5,
        rot: false,
        ..plan(seed)
    }
}

#[test]
fn replicas_that_die_and_come_back_lose_and_falsify_nothing() {
    let test = "replicas_that_die_and_come_back_lose_and_falsify_nothing";
    let (all, runs) = explore(test, 2, plan_of_replicas, run_replicas);
    assert!(
        all.acknowledged() as u64 > 100 * runs,
        "{all:?}: most operations fail"
    );
    assert!(runs < 20 || all.faults.len() == 6, "{:?}", all.faults);
}

#[test]
fn crashes_power_loss_and_partitions_leave_nothing_unexplained() {
    let test = "crashes_power_loss_and_partitions_leave_nothing_unexplained";
    let (all, runs) = explore(test, 3, plan, run);
    assert!(
        all.acknowledged() as u64 > 20 * runs,
        "too few operations succeeded to prove anything"
    );
    assert!(
        all.failed() > 0 || runs < 5,
        "no operation failed in spite of the faults"
    );
    assert!(
        all.judged > 2 * runs || runs < 5,
        "the referee judged too few operations: {}",
        all.judged
    );
    let idle = all.operations.iter().find(|(_, c)| c.acknowledged == 0);
    let idle = idle.filter(|(kind, _)| **kind != "close");
    assert!(
        idle.is_none() || runs < 20,
        "an operation never succeeded: {idle:?}"
    );
}

#[test]
fn the_same_seed_replays_the_same_run() {
    let first = number("WEFT_SEED").unwrap_or(77);
    let replays = number("WEFT_SIM_REPLAYS").unwrap_or(3);
    let mut digests = BTreeSet::new();
    for seed in first..first + replays {
        name_seed("the_same_seed_replays_the_same_run", seed, || {
            let one = run(plan(seed));
            assert_eq!(one, run(plan(seed)), "seed {seed}");
            digests.insert(one.network);
            let one = run_ahead(plan_ahead(seed));
            assert_eq!(one, run_ahead(plan_ahead(seed)), "seed {seed}");
            digests.insert(one.network);
        });
    }
    assert_eq!(
        digests.len() as u64,
        2 * replays,
        "different seeds gave the same run"
    );
}

/// The checker must detect a planted defect within this number of seeds.
const CANARY_SEEDS: u64 = 20;

/// The error of the first seed that detects the defect; asserts that the seed replays it.
fn found(canary: Canary) -> String {
    found_by(canary, plan, run)
}

fn found_by(canary: Canary, plan: fn(u64) -> Plan, run: fn(Plan) -> Outcome) -> String {
    for seed in (0..CANARY_SEEDS).map(|n| 2 * n) {
        let plan = Plan {
            canary: Some(canary),
            ..plan(seed)
        };
        let outcome = run(plan);
        if let Some(wrong) = &outcome.wrong {
            println!("seed {seed} detects {canary:?}: {wrong}");
            assert_eq!(outcome, run(plan), "seed {seed} does not replay the error");
            return wrong.clone();
        }
    }
    panic!("{CANARY_SEEDS} seeds do not detect {canary:?}");
}

#[test]
fn acknowledged_writes_that_were_never_sent_are_detected() {
    let wrong = found(Canary::Unsent);
    assert!(wrong.contains("may only be"), "{wrong}");
}

#[test]
fn disks_that_ignore_syncs_are_detected() {
    found(Canary::NoSync);
}

#[test]
fn a_namespace_engine_that_ignores_syncs_is_detected() {
    found(Canary::NoNameSync);
}

#[test]
fn disks_that_lose_blocks_are_detected() {
    found(Canary::LostBlocks);
}

#[test]
fn a_server_that_claims_its_earlier_incarnation_is_detected() {
    found(Canary::SameIncarnation);
}

#[test]
fn operations_without_claims_are_detected() {
    let wrong = found(Canary::NoClaims);
    assert!(wrong.contains("cautious"), "{wrong}");
}

fn plan_ahead(seed: u64) -> Plan {
    Plan {
        operations: 800,
        faults: (seed % 6) as usize,
        rot: false,
        ..plan(seed)
    }
}

#[test]
fn clients_that_work_ahead_of_the_service_leave_nothing_unexplained() {
    let test = "clients_that_work_ahead_of_the_service_leave_nothing_unexplained";
    let (all, runs) = explore(test, 1, plan_ahead, run_ahead);
    for kind in [
        "file made ahead",
        "file removed ahead",
        "mode set ahead",
        "contest won",
        "seen before its report",
        "lost with its maker",
    ] {
        let count = all.operations.get(kind).map_or(0, |c| c.acknowledged);
        assert!(count > 0 || runs < 10, "it never happened: {kind}");
    }
}

fn found_ahead(canary: Canary) -> String {
    found_by(canary, plan_ahead, run_ahead)
}

#[test]
fn a_sync_that_does_not_cover_unreported_changes_is_detected() {
    let wrong = found_ahead(Canary::SyncBesideReports);
    assert!(wrong.contains("may only be one of"), "{wrong}");
}

#[test]
fn a_holder_that_never_hears_of_a_recall_is_detected() {
    found_ahead(Canary::DeafHolder);
}

#[test]
fn names_that_are_missing_from_a_report_are_detected() {
    found_ahead(Canary::LostNames);
}

#[test]
fn a_namespace_engine_that_ignores_syncs_is_detected_by_clients_that_work_ahead() {
    found_ahead(Canary::NoNameSync);
}
