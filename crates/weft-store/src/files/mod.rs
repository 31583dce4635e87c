//! Operations on whole forks and files: checkpoints, truncations, merges, addressed chunks, lists.
//!
//! Owns no state. Each operation takes effect at one moment, as one frame of the log.

mod addressed;
mod checkpoint;
mod deferred_truncation;
mod list;
mod merge;
mod note;
mod truncate;

pub use list::ListPage;
