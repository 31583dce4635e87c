//! Intents: pending work for the volume's I/O servers.
//!
//! An intent is written in the transaction that causes it, and removed when every server has done
//! it. Servers skip numbers that they have seen, so an intent can be carried out again after a
//! crash.
//!
//! This module owns the low-water mark of the intents ([`OldestIntent`]). `ops/intents/` reads
//! intents and completes them; `tx/intents.rs` adds and removes them.

mod intent;
mod oldest;

pub use intent::{CheckpointTask, Intent, TreeFile};
pub(crate) use intent::{is_tree, tree_files};
pub(crate) use oldest::OldestIntent;
