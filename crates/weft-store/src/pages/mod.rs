//! One chunk in memory: the places of its blocks, and its cached or dirty pages.
//!
//! Owns the fields of [`Chunk`] and [`Page`]; both change only through their methods. Forks own the
//! chunks, the cache decides which stay in memory. A mutable chunk can only be reached through
//! `Forks`, which only `state` can borrow mutably: other modules call `StoreState::change_block`,
//! `replace_blocks` and `add_loaded` (`state/pages.rs`), and reads get a `ReadChunk`
//! (`state/reading.rs`).
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
