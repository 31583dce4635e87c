//! The states that a run goes through, and which of them are allowed after a crash.

use std::fmt::Write as _;

use rand::rngs::SmallRng;
use weft_store::{Store, StoreError};

use super::common::Machine;
use super::coverage;
use super::oracle::{Model, Op, op};
use super::real::perform;

/// The states that a run went through.
pub struct History {
    pub states: Vec<Model>,
    /// Index of the state that the last sync covers.
    synced: usize,
    /// The last operation was in flight when the process died; it took effect at most once.
    in_flight: bool,
}

impl History {
    pub fn new(state: Model) -> Self {
        Self {
            states: vec![state],
            synced: 0,
            in_flight: false,
        }
    }

    /// Runs operations until all are done or the process dies.
    pub async fn go(
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
            if matches!(op, Op::Apply | Op::Reclaim | Op::Scrub) {
                // These remove frames from the log.
                coverage::add_log(machine);
            }
            let mut state = self.states.last().unwrap().clone();
            state.apply(n, &op);
            match perform(store, machine, n, &op).await {
                Ok(()) => {
                    self.states.push(state);
                    coverage::add_operation(&op);
                    if matches!(op, Op::Sync | Op::Apply | Op::Reclaim | Op::Scrub) {
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
                    self.in_flight = true;
                    return;
                }
            }
        }
    }

    /// Asserts that a state is allowed, and returns it.
    pub fn check(&self, found: Model, power: bool, what: &str) -> Model {
        let last = self.states.len() - 1;
        let from = if power {
            self.synced
        } else {
            last - usize::from(self.in_flight)
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

pub fn difference(wanted: &Model, found: &Model) -> String {
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
