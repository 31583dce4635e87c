//! Duplicate blocks of a local tree, found by sorting one record per block.
//!
//! - `record`: the formats of records and of the list of files
//! - `tree`: the files of a tree, and the blocks that each worker reads
//! - `scan`: a worker: reads blocks, writes records through its view of the grid
//! - `groups`: counting what the sort brought together
//! - `lead`: the leader

mod groups;
mod lead;
mod record;
mod scan;
mod tree;

pub(crate) use lead::{Search, Summary};
pub(crate) use scan::run as run_worker;
