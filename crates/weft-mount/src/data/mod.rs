//! The data cache: write-behind and read-ahead over an attached file; knows nothing of names.
//!
//! A mount has one [`DataCache`]; all its opens of a file share the file's dirty bytes, so they see
//! each other's writes at once. Why like this: `docs/design/0005-mount.md`.
//!
//! - `extents`: what is not at the servers yet; pure.
//! - `stream`: which reads follow each other; pure.
//! - `rope`: bytes in parts, so that what a socket delivered goes out without a copy.
//! - `state`: all that is known of an open file, under one lock that is never held across an await.
//! - `flush`: dirty bytes on their way, and what becomes of failures.
//! - `fetch`: reads, ahead and not. `ends`: the file's size.
//! - `below`: what the servers do by themselves under the cache.
//! - `inline`: small files whose bytes lie with their metadata.
//!
//! Invariants:
//! 1. A read sees every write that ended before it began, whichever open of this cache wrote it: it
//!    takes the bytes that are on their way *before* it asks the servers.
//! 2. A later write never ends up under an earlier one (`extents`, invariant 1).
//! 3. Bytes read ahead are dropped before a write, a truncate or [`OpenData::invalidate`] that
//!    touches them returns.
//! 4. Memory is bounded: dirty bytes by [`DataConfig::total_dirty`] and one write of each waiting
//!    writer, bytes read ahead by `READ_AHEAD_WINDOWS` windows.
//! 5. A failed flush is told to each open that was there when it failed, once by a flush or a sync
//!    and in any case once by a sync, and holds up nothing written later.
//! 6. What an attachment's answer says of a file's bytes counts only if this cache has not changed
//!    them since it was asked for ([`Moment`]).
//!
//! Copies of a byte in here: none if it is written in pieces of 64 KiB or more, one if in smaller
//! ones; none when it is read through [`OpenData::read_parts`], or lies in one part of what
//! arrived; else one.

mod below;
mod cache;
mod ends;
mod error;
mod extents;
mod fetch;
mod file;
mod flush;
mod inline;
mod rope;
mod state;
mod stream;

pub use cache::{DataCache, DataConfig, Moment};
pub use error::DataError;
pub use file::{OpenData, Syncing};
pub use rope::Rope;
