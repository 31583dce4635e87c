//! A directory that one client has for itself: files in it are made, written, read, linked, renamed
//! and removed; its checkpoints are in `image`.
//!
//! A file is its id, whatever it is called. One name lies outside the directory: a rollback of the
//! directory finds files that went there. As with the client's own file, what changes names is
//! repeated until it is known to be done.

mod checkpoints;
mod operations;
mod state;

pub(super) use self::state::Tree;
