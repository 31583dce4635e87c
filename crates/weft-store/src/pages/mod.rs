//! What memory has of one chunk: where its blocks lie, and the pages of it that are cached or
//! dirty.
//!
//! Owns the structure of a chunk and of a page; forks own the chunks, the cache decides which stay.
//!
//! Invariants:
//! 1. A page that a reader or a write in flight shares is copied before it changes.
//! 2. A dirty block's checksum is in its page, a clean one's in the chunk's entry.

mod chunk;
mod operations;
mod page;
mod wanted;

pub(crate) use chunk::{Chunk, push_block};
pub(crate) use operations::Operations;
pub(crate) use page::{Page, SLOT, bit, slot_of};
pub(crate) use wanted::WantedBlock;
