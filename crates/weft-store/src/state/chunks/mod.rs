//! Chunks in the state: their blocks and pages, and the steps that change both with the allocator,
//! the cache and the log.
//!
//! Owns nothing: these are the methods of [`StoreState`](super::StoreState) that change pages.
//! Calls: `change_block`, `replace_blocks` and `add_loaded` (`pages`), `place_block` and `empty`
//! (`blocks`), a flush (`flushing`), an application of the log (`applying`), `chunk_to_read`
//! (`reading`), `mark_lost` (`lost`).

mod applying;
mod blocks;
mod flushing;
mod lost;
mod pages;
mod reading;

pub(crate) use applying::IndexEntry;
pub(crate) use blocks::extent;
pub(crate) use flushing::{FlushRound, FlushScope, count_runs};
pub(crate) use pages::BlockChange;
pub(crate) use reading::ReadChunk;
