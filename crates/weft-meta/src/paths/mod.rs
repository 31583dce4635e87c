//! From a path to an inode (`resolve.rs`), and back (`names.rs`).
//!
//! This module owns no state.

mod names;
mod resolve;

pub(crate) use names::{directory_path, path_of};
pub(crate) use resolve::{End, LastLink, Nameless, Slot, not_found, resolve, slot, walk};
