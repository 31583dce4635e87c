//! Calls about cells and forks as a whole: status, sync, truncate, delete, create and remove, where
//! they have data, and advice on what will be read.

mod advise;
mod data_runs;
mod forks;
