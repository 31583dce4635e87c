//! A directory that one client has for itself. The client creates, writes, reads, links, renames
//! and removes files in it, and checkpoints it (`checkpoints`).
//!
//! A file is known by its id, whatever its name. One name lies outside the directory, so that a
//! rollback of the directory finds files that were moved there. As with the private file, a change
//! of names is repeated until it is known to be done.

mod checkpoints;
mod operations;
mod state;

pub(super) use self::state::Tree;
