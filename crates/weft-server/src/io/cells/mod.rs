//! Calls about cells and forks as a whole: status, sync, truncate, delete, create and remove, where
//! they have data, and advice on what will be read.
//!
//! Owns no state: each call is a method of `IoService` over its store. Invariant: cells are
//! truncated and deleted only for the metadata service, and are synced before the answer, so an
//! intent that is done stays done. No data is moved here (`data/`).

mod advise;
mod data_runs;
mod forks;
