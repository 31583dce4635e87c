//! Which pages and chunk entries stay in memory, and which of them wait to be written.
//!
//! Owns the queues that decide the order of eviction and the count of bytes in memory
//! ([`Residency`]), the set of dirty chunks ([`Dirty`]), the access history that prefetches follow,
//! and the disk reads in flight ([`ReadsInFlight`]).
//!
//! Invariants:
//! 1. Only a clean page is evicted, and only an entry that the index has: so a dirty page stays
//!    until its bytes are on a disk.
//! 2. A chunk with a dirty page is among the dirty chunks.
//! 3. If two calls need one block, one reads it and the other waits.

mod dirty;
mod history;
mod in_flight;
mod residency;

pub(crate) use dirty::Dirty;
pub(crate) use history::PrefetchBounds;
pub(crate) use in_flight::ReadsInFlight;
pub(crate) use residency::Residency;
