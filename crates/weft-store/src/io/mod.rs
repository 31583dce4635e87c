//! Reading, writing and clearing bytes of forks.
//!
//! Owns no state. A batch takes effect at one moment, under the state's lock, as one frame of the
//! log; what is read is verified before a caller may use it.

mod clear;
mod covered;
mod direct;
mod part;
mod plan;
mod proof;
mod put;
mod read;
mod runs;
mod write;

pub use part::Part;
pub use read::READ_TRIES;
pub use runs::DataRuns;
