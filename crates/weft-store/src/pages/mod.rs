//! One chunk in memory: the places of its blocks, and its cached or dirty pages.
//!
//! Owns the fields of [`Chunk`] and [`Page`]; both change only through their methods. Forks own the
//! chunks, the cache decides which stay in memory. A mutable chunk can only be reached through
//! `Forks`, which only `state` can borrow mutably. Three paths lead there: `io/buffered.rs` changes
//! the page of one block that `StoreState::change_block` lends it; `io/direct.rs` and
//! `paging/load.rs` hand over new blocks by `replace_blocks` and `add_loaded`; reads get a
//! `ReadChunk`, which notes what they use and changes no bytes.
//!
//! Invariants:
//! 1. A page shared with a reader or a write in flight is copied before it changes.
//! 2. A dirty block's checksum is in its page, a clean one's in the chunk's entry.

mod chunk;
mod operations;
mod page;
mod wanted;

pub(crate) use chunk::{Chunk, push_block};
pub(crate) use operations::Operations;
pub(crate) use page::{Page, SLOT, bit, slot_of};
pub(crate) use wanted::WantedBlock;
