//! Duplicate blocks of a local tree, found by sorting one record per block.
//!
//! - `record`: the formats of records and of the list of files
//! - `tree`: the files of a tree, and the share of their blocks that each worker reads
//! - `scan`: a worker: reads blocks, writes records through its view of the grid
//! - `groups`: counting equal records after the sort
//! - `leader`: the leader

mod groups;
mod leader;
mod record;
mod scan;
mod tree;

pub(crate) use leader::{Search, SearchSummary};
pub(crate) use scan::run as run_worker;
