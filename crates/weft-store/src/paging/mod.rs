//! Blocks between disks and cache: loading, flushing, prefetching.
//!
//! Owns no state. A loaded block is verified before it enters the cache; a flushed block goes to a
//! free place, never over one in use.

mod entries;
mod flush;
mod load;
mod prefetch;
mod writes;

pub(crate) use load::{Attempt, Missing};
pub(crate) use writes::WriteFailed;
