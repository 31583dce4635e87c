//! Random operations on a mounted volume and on a local directory: the same results, bytes,
//! attributes and listings after each.
//!
//! `WEFT_CASES` is the number of scripts, `WEFT_SEED` the first seed; a failure prints the seed
//! that reproduces it.

mod mount_model;
mod mount_support;

use mount_model::Pair;
use mount_model::op::script;
use mount_support::{Mounted, sh};
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};

/// Operations of a script.
const STEPS: usize = 120;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|n| n.parse().ok())
}

fn compare(options: &str, cases: u64, layout: &str) {
    let Some(m) = Mounted::with_options(options) else {
        return;
    };
    let local = m.beside("local");
    if !layout.is_empty() {
        sh(
            &m.path,
            &format!("setfattr -n user.weft.layout -v '{layout}' ."),
        );
    }
    let first = number("WEFT_SEED").unwrap_or(1);
    let tried = std::cell::Cell::new(0);
    for seed in first..first + number("WEFT_CASES").unwrap_or(cases) {
        let config = Config {
            cases: 1,
            max_shrink_iters: 400,
            max_shrink_time: 300_000,
            failure_persistence: None,
            rng_seed: RngSeed::Fixed(seed),
            ..Config::default()
        };
        let failure = TestRunner::new(config).run(&script(STEPS), |script| {
            tried.set(tried.get() + 1);
            let name = tried.get().to_string();
            let mut pair = Pair::new(&m.path.join(&name), &local.join(&name));
            let result = pair.run(&script);
            for root in pair.roots() {
                std::fs::remove_dir_all(root).unwrap();
            }
            result.map_err(TestCaseError::fail)
        });
        match failure {
            Ok(()) => {}
            Err(TestError::Fail(why, script)) => {
                panic!("WEFT_SEED={seed} WEFT_CASES=1 reproduces it: {why}\nwith {script:#?}")
            }
            Err(other) => panic!("WEFT_SEED={seed}: {other}"),
        }
    }
}

#[test]
fn a_mount_behaves_like_a_local_directory() {
    compare("", 5, "");
}

#[test]
fn a_strict_mount_of_any_layout_behaves_like_a_local_directory() {
    compare("strict", 3, "cells=5 bsu=1000");
}
