//! Pages in memory: which blocks of which chunks are cached, dirty or on their way from the disk.
//!
//! Owns the pages and entries of chunks, the queues that decide which page goes first, the access
//! history that read-ahead follows, and the reads in flight.
//!
//! Invariants:
//! 1. A page that a reader or a write in flight shares is copied before it changes.
//! 2. A dirty page stays until its bytes have a place on a disk.
//! 3. Of two calls that need one block, one reads it and the other waits.

mod chunk;
mod flights;
mod history;
mod page;
mod wanted;

pub(crate) use chunk::{APPLYING, CHANGED, Chunk, push_block};
pub(crate) use flights::Flights;
pub(crate) use history::{FETCH, Reach, Traces};
pub(crate) use page::{Page, SLOT, bit, slot_of};
pub(crate) use wanted::Wanted;
