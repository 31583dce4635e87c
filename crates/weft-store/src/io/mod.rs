//! Reading, writing and clearing bytes of forks.
//!
//! Owns no state. A batch takes effect at one moment, under the state's lock, as one frame of the
//! log. Bytes are verified before a caller may use them.

mod buffered;
mod checksum;
mod clear;
mod covered;
mod direct;
mod effect;
mod plan;
mod prepared;
mod read;
mod read_slice;
mod runs;
mod write;

pub(crate) use effect::GrownFork;
pub use prepared::DiskWait;
pub(crate) use prepared::{AcceptedBatch, PreparedBatch};
pub use read::READ_ATTEMPTS;
pub(crate) use read::{PlainRead, zeros};
pub use read_slice::ReadSlice;
pub use runs::DataRuns;
pub(crate) use write::check_runs;
