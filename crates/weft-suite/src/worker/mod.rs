//! A client of a benchmark: a process that does what its leader says, step by step.

mod exchange;
mod posix_file;
mod run;
mod weft_file;

pub use self::run::run_worker;
