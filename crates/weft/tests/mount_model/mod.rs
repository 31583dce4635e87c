//! The same operations on a mounted volume and on a local directory, which is the model.

pub mod op;
pub mod state;
pub mod world;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use op::{Op, Script};
use state::{Bytes, snapshot};
use world::{Outcome, World};

/// Both directories, and the report of a step on which they disagree.
pub struct Pair {
    ours: World,
    model: World,
    began: i64,
}

impl Pair {
    /// Two empty directories.
    pub fn new(ours: &Path, model: &Path) -> Pair {
        for root in [ours, model] {
            std::fs::create_dir(root).unwrap();
        }
        Pair {
            ours: World::new(ours.to_owned(), true),
            model: World::new(model.to_owned(), false),
            // Clocks of file systems may lag by a tick.
            began: now() - 1_000_000_000,
        }
    }

    /// Runs a script on both, and compares after each step.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn run(&mut self, script: &Script) -> Result<(), String> {
        for (number, op) in script.ops.iter().enumerate() {
            let bytes = number % script.bytes_each == 0 || number + 1 == script.ops.len();
            self.step(op, bytes)
                .map_err(|why| format!("step {number}, {op:?}: {why}"))?;
        }
        Ok(())
    }

    fn step(&mut self, op: &Op, bytes: bool) -> Result<(), String> {
        let model = self.model.apply(op);
        let ours = self.ours.apply(op);
        agree(&ours, &model)?;
        for slot in 0..op::SLOTS {
            let (ours, model) = (
                self.ours.open_state(slot, self.began),
                self.model.open_state(slot, self.began),
            );
            same(&format!("open file {slot}"), &ours, &model)?;
        }
        let bytes = if bytes { Bytes::All } else { Bytes::None };
        let ours = snapshot(&self.ours.root, self.began, bytes);
        let model = snapshot(&self.model.root, self.began, bytes);
        for path in ours.keys().chain(model.keys()) {
            same(path, &ours.get(path), &model.get(path))?;
        }
        Ok(())
    }

    /// The directories, for removal.
    pub fn roots(self) -> [PathBuf; 2] {
        [self.ours.root, self.model.root]
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_nanos()).unwrap()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, ours: &T, model: &T) -> Result<(), String> {
    if ours == model {
        return Ok(());
    }
    Err(format!("{what}\n  mount: {ours:?}\n  model: {model:?}"))
}

/// Compares two outcomes as far as POSIX specifies them.
fn agree(ours: &Outcome, model: &Outcome) -> Result<(), String> {
    match (ours, model) {
        // File systems differ in where holes begin; that the reported ones are true was checked
        // before.
        (Outcome::Hole(_), Outcome::Hole(_)) => Ok(()),
        _ => same("result", ours, model),
    }
}
