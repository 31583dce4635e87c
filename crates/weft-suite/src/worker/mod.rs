//! A client of a benchmark: a process that does what its leader says, step by step.
//!
//! Owns the process's connection, view and buffers, and its share of the content. Invariants: only
//! the transfer is timed, not opening files or computing bytes; every byte read is checked. Knows
//! one task, not the case or the other clients, except as partners of an exchange (`exchange.rs`).

mod exchange;
mod laps;
mod posix_file;
mod posix_files;
mod run;
mod weft_file;
mod weft_files;

pub use self::run::run_worker;
