//! The leader of a benchmark: it makes volumes and files, starts workers, and turns what they
//! report into rows.

mod bench;
mod clients;
mod round;
mod sort;

pub use self::bench::Bench;
