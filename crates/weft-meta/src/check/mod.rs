//! Checking the namespace in itself, and repairing it: `docs/design/0009-fsck.md`.
//!
//! A check reads one snapshot, so whatever it finds is so, however busy the volume is. A repair is one transaction that looks
//! first whether the finding still holds. Neither ever discards what may be somebody's data.
//!
//! Memory: [`WINDOW`] inodes at a time are counted together, whatever their number; findings go to the caller one by one.

mod inodes;
mod list;
mod lost;
mod pass;
mod related;
mod removed;
mod repair;

pub(crate) use list::{list_files, names_of};
pub(crate) use lost::adopt_file;
pub(crate) use pass::check;
pub use pass::{Watcher, index_finding};
pub(crate) use repair::repair;
