//! Checkpoints of files and of trees. An operation writes an intent; the caller carries it out on
//! the servers and then completes it.
//!
//! A checkpoint of a tree copies the inodes and names below a directory, and keeps the cells of the
//! files under one number.
//!
//! The copy (*image*) consists of real inodes and entries with new ids, so every operation that
//! reads a directory or a file can read it; `Tx::finish` refuses every change of them. An image is
//! made, replaced and removed in one transaction each; `docs/design/0007-checkpoints.md` has the
//! costs, the records and what a crash leaves behind.
//!
//! Invariants:
//! 1. `TREE_FILES` names for each checkpoint the files with cells in it and their images; `HOLDS`
//!    counts the checkpoints that name a file, and has a record exactly while there are some.
//! 2. A file with a hold has an inode, or its hold says `deleted` and its servers still have its
//!    cells.

mod common;
mod done;
mod list;
mod list_of_files;
mod make;
mod remove;
mod roll_back;
mod tree_done;
mod tree_make;
mod tree_roll_back;

pub(super) use common::add_task_intent;
pub(crate) use done::{checkpoint_done, is_pending};
pub(crate) use list::{checkpoint_info, list_checkpoints};
pub(crate) use list_of_files::list_file_checkpoints;
pub(crate) use make::make_checkpoint;
pub(crate) use remove::remove_checkpoint;
pub(crate) use roll_back::{roll_back, tree_of};
pub use tree_done::CheckpointFiles;
pub(crate) use tree_done::tree_done;
