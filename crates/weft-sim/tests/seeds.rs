//! Whole volumes from seeds. `WEFT_SIM_SEEDS=5000 cargo test -p weft-sim --release` runs more of them; a failing seed
//! is named and replays exactly: `WEFT_SIM_FIRST=4711 WEFT_SIM_SEEDS=1`.

use std::collections::BTreeSet;

use weft_sim::{Outcome, Plan, run};

fn plan(seed: u64) -> Plan {
    Plan {
        seed,
        servers: 3,
        operations: 120,
        faults: 4,
        canary: false,
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |n| n.parse().expect("a number"))
}

#[test]
fn crashes_power_loss_and_partitions_leave_nothing_unexplained() {
    let first = number("WEFT_SIM_FIRST", 0);
    let mut all = Outcome::default();
    for seed in first..first + number("WEFT_SIM_SEEDS", 12) {
        let outcome = run(plan(seed));
        assert_eq!(outcome.wrong, None, "seed {seed}");
        all.acknowledged += outcome.acknowledged;
        all.failed += outcome.failed;
    }
    println!(
        "{} operations acknowledged, {} failed",
        all.acknowledged, all.failed
    );
    assert!(
        all.acknowledged > 100,
        "too little happened to show anything"
    );
    assert!(all.failed > 0, "no fault was felt");
}

#[test]
fn the_same_seed_replays_the_same_run() {
    let first = number("WEFT_SIM_FIRST", 77);
    let replays = number("WEFT_SIM_REPLAYS", 3);
    let mut digests = BTreeSet::new();
    for seed in first..first + replays {
        let one = run(plan(seed));
        assert_eq!(one, run(plan(seed)), "seed {seed}");
        digests.insert(one.network);
    }
    assert_eq!(digests.len() as u64, replays, "different seeds differ");
}

#[test]
fn a_lost_write_is_found() {
    let outcome = run(Plan {
        canary: true,
        faults: 0,
        ..plan(5)
    });
    let wrong = outcome
        .wrong
        .expect("the oracle was told of writes that were never sent");
    assert!(wrong.contains("may only be"), "{wrong}");
}
