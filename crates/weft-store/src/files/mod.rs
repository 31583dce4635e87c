//! Operations on whole forks and files: checkpoints, truncates, merges, addressed chunks, lists.
//!
//! Owns no state. Each operation takes effect at one moment, as one frame of the log.

mod addressed;
mod checkpoint;
mod list;
mod merge;
mod note;
mod settle;
mod truncate;

pub use list::Page;
