//! Checking the namespace in itself, and repairing it: `docs/design/0009-fsck.md`.
//!
//! A check reads one snapshot, so whatever it finds is so, however busy the volume is. A repair is one transaction that looks
//! first whether the finding still holds. Neither ever discards what may be somebody's data.
//!
//! Memory: [`WINDOW`] inodes at a time are counted together, whatever their number; findings go to the caller one by one.

mod contradiction;
mod damaged;
mod distinct;
mod files;
mod finding;
mod inodes;
mod pass;
mod related;
mod repair;
mod run;

pub(crate) use files::{list_files, names_of};
pub use finding::index_finding;
pub use pass::Watcher;
pub(crate) use repair::{adopt_file, repair};
pub(crate) use run::check;
