//! The data cache: write-behind and read-ahead over attached files. It knows no names.
//!
//! A mount has one [`DataCache`]; all its opens of a file share the file's dirty bytes, so each
//! sees the others' writes at once. Why this shape: `docs/design/0005-mount.md`.
//!
//! From below:
//! - `buffer_chain`, `extents/`: bytes in several buffers; dirty bytes by offset. Pure.
//! - `budget`, `clock`, `config`, `registry`, `resources`: what all files of a mount share.
//! - `state/`: what is known of an open file, a struct for each concern, under one lock that is
//!   never held across an await.
//! - `file/`: that lock, and the operations on it: flush, read, size queries, truncation.
//! - `open/`: one open file description. `cache`: opens files, and acts on all of them.
//!
//! Invariants:
//! 1. A read sees every write that ended before it began, whichever open of this cache wrote it: it
//!    takes dirty bytes *before* it asks the servers.
//! 2. A later write never ends up under an earlier one (`extents/`, invariant 1).
//! 3. Bytes read ahead are dropped before a write, a truncate or [`OpenData::invalidate`] that
//!    touches them returns.
//! 4. Memory is bounded: dirty bytes by [`DataConfig::total_dirty`] and one write of each waiting
//!    writer, bytes read ahead by `READ_AHEAD_WINDOWS` windows.
//! 5. A failed flush is reported to each open that existed when it failed, once by a flush or a
//!    sync and in any case once by a sync, and holds up nothing written later.
//! 6. What the reply to an attach says of a file's bytes counts only if this cache has not changed
//!    them since it was asked for ([`Moment`]).
//!
//! Copies of a byte in here: none if it is written in pieces of 64 KiB or more, one if in smaller
//! ones; none if it is read through [`OpenData::read_buffers`] or lies in one received buffer; else
//! one.

mod budget;
mod buffer_chain;
mod cache;
mod clock;
mod config;
mod error;
mod extents;
mod file;
mod open;
mod registry;
mod resources;
mod state;

pub use buffer_chain::BufferChain;
pub use cache::DataCache;
pub use clock::Moment;
pub use config::DataConfig;
pub use error::DataError;
pub use file::SizeQuery;
pub use open::{DurableSends, OpenData};
