//! Work that the volume owes to its I/O servers.
//!
//! An intent is written in the transaction that causes it, and is removed when every server has
//! done it. Servers skip numbers that they have seen, so an intent can be carried through twice.

mod intent;
mod oldest;

pub use intent::{CheckpointTask, Intent, TreeFile};
pub(crate) use intent::{is_tree, tree_files};
pub(crate) use oldest::OldestIntent;
