//! Processes of one program that work together: a leader (the process the user started) and its
//! workers (the same program, started by the leader), with a barrier between steps.
//!
//! Why processes: this is how applications use a volume, each with connections of its own. Why
//! pipes: a barrier is one line there and one back, and a worker's death is the end of its pipe, so
//! no process waits for a dead one.
//!
//! Lines are JSON. To a worker: its job, then one line per barrier that it may pass, which may say
//! what comes next. From it: progress, its report at the barrier, or why it cannot go on.
//!
//! Invariants:
//! 1. [`Crew::barrier`] ends when all workers have arrived, or with an error when one failed or
//!    died.
//! 2. A crew that is dropped or stopped takes its workers with it; a worker whose leader dies exits
//!    by itself, as its standard input ends.
//!
//! Deliberately absent: data. What workers give each other goes through the volume.

mod crew;
mod error;
mod interrupt;
mod leader;

pub use crew::Crew;
pub use error::CrewError;
pub use interrupt::Interrupts;
pub use leader::{Leader, run_worker};

use serde::{Deserialize, Serialize};

/// What a worker tells its leader.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Said {
    /// Bytes moved since it last said so.
    Progress(u64),
    /// It stands at the barrier; its report.
    Arrived(serde_json::Value),
    /// It cannot go on.
    Failed(String),
}
