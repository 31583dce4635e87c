//! Checking and repairing the namespace: `docs/design/0009-fsck.md`.
//!
//! A check reads one snapshot, so its findings are consistent however busy the volume is. A repair
//! is one transaction that first checks whether the finding still holds. Neither ever discards what
//! may be a user's data.
//!
//! Memory: a check counts 2²⁰ inodes at a time, however many there are, and passes findings to the
//! caller one by one.
//!
//! This module owns no state.

mod contradiction;
mod damaged;
mod distinct;
mod entry_counts;
mod files;
mod finding;
mod inodes;
mod pass;
mod related;
mod repair;
mod run;

pub(crate) use files::{list_files, names_of};
pub use finding::index_finding;
pub use pass::CheckObserver;
pub(crate) use repair::{adopt_file, repair};
pub(crate) use run::check;
