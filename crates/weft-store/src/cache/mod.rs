//! Which pages and chunk entries stay in memory, and which of them wait to be written.
//!
//! Owns the queues that decide what is evicted first, the count of bytes in memory, the set of
//! dirty chunks, the access history that read-ahead follows, and the reads in flight.
//!
//! Invariants:
//! 1. A page is evicted only while it is clean, an entry only while the index has it: so a dirty
//!    page stays until its bytes have a place on a disk.
//! 2. A chunk with a dirty page is among the dirty chunks.
//! 3. Of two calls that need one block, one reads it and the other waits.

mod dirty;
mod history;
mod in_flight;
mod residency;

pub(crate) use dirty::Dirty;
pub(crate) use history::{FETCH_SLOTS, PrefetchBounds};
pub(crate) use in_flight::ReadsInFlight;
pub(crate) use residency::Residency;
