//! FastMeshSort: a file of records sorted by processes that alternate between two kinds of views.
//!
//! - `mesh`: the arithmetic: cells, rows, phases
//! - `window`: sorting in memory
//! - `job`: what leader and workers tell each other
//! - `work`: a worker's phases
//! - `opened`, `posix`: the files, through views of a volume or by POSIX calls
//! - `phases`: workers, barriers, checks
//! - `lead`: the leader on a volume; `path`: the leader on a path, for `weft bench`
//! - `copy`: forks, attributes and layout that the result takes over
//! - `scratch`, `target`: files that go whatever happens, and the one that is replaced
//!
//! # Source
//! Vesta §3.3; Corbett and Scherson, "Sorting in mesh connected multiprocessors" (1992); Batcher
//! (1968).

mod copy;
mod job;
mod lead;
mod mesh;
#[cfg(test)]
mod mesh_tests;
mod opened;
mod path;
mod phases;
mod posix;
mod scratch;
mod target;
mod window;
mod work;

pub(crate) use lead::{Sorting, Summary};
pub(crate) use path::PathSorting;
pub(crate) use phases::mib_per_second;
pub(crate) use scratch::Scratch;
pub(crate) use target::Place;
pub(crate) use work::run as run_worker;
