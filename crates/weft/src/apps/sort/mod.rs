//! FastMeshSort: a file of records sorted by processes that alternate between two kinds of views.
//!
//! - `mesh`: the arithmetic: cells, rows, phases
//! - `window`: sorting in memory
//! - `job`: the messages between leader and workers
//! - `work`: a worker's phases
//! - `opened`, `posix`: the files, through views of a volume or by POSIX calls
//! - `phases`: workers, barriers, checks
//! - `leader`: the leader on a volume; `path`: the leader on a path, for `weft bench`
//! - `copy`: forks, attributes and layout that the result takes over
//! - `scratch`, `entry_path`: scratch files, and the paths of files in a volume
//!
//! # Source
//! Vesta §3.3; Corbett and Scherson, "Sorting in mesh connected multiprocessors" (1992); Batcher
//! (1968).

mod copy;
mod entry_path;
mod job;
mod leader;
mod mesh;
#[cfg(test)]
mod mesh_tests;
mod opened;
mod path;
mod phases;
mod posix;
mod scratch;
mod window;
mod work;

pub(crate) use entry_path::EntryPath;
pub(crate) use leader::{SortSummary, Sorting};
pub(crate) use path::PathSorting;
pub(crate) use phases::mib_per_second;
pub(crate) use scratch::Scratch;
pub(crate) use work::run as run_worker;
