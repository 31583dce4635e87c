//! The papers' experiments, and what users of fio and mdtest measure, on volumes and on any mounted
//! path.
//!
//! A case makes [`Point`]s; a point says what each client moves, as a view and loops of records,
//! each of which may be a file of its own. A leader ([`Bench`]) runs them one after the other with
//! worker processes ([`run_worker`]) and makes [`Row`]s.
//!
//! Invariants:
//! 1. Every byte read is compared with what was written last; a wrong one ends the run with an
//!    error.
//! 2. What a client moves through POSIX calls on a path is, byte for byte and call for call, what
//!    it moves through Weft; only the sort stores its cells one after the other there.
//! 3. Nothing stays: files, folders, volumes and namespaces that a run made are removed, also after
//!    an error or a signal.
//!
//! Deliberately absent: what the local machine allows (`bench/`), which is about shares of limits,
//! not about systems.
//!
//! Where to look: `cases/` for the experiments, `worker/` for what a client does, `leader/` for
//! the order of events.

mod cases;
mod content;
mod cpu;
mod error;
mod latency;
mod leader;
mod link;
mod place;
mod plot;
mod point;
mod row;
mod sweep;
mod target;
mod task;
mod volume;
mod worker;
mod workload;

pub use error::SuiteError;
pub use leader::Bench;
pub use link::{LimitedNetwork, LinkedVolume};
pub use place::VolumePlace;
pub use plot::plot;
pub use point::{Case, Point, SyncRule};
pub use row::{Interface, Measured, Op, Rates, Row};
pub use sweep::{Sweep, TargetKind};
pub use target::Target;
pub use volume::TemporaryVolume;
pub use worker::run_worker;
pub use workload::{FileShape, Level, ViewSpec, Workload};
