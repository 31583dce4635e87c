//! Reads of what checkpoints keep.
//!
//! This room owns no state: it finds a checkpoint by name, the image that a checkpoint of a tree
//! made of a directory, and the files whose cells it keeps. `ops/checkpoints/` makes, drops and
//! rolls back checkpoints.
//!
//! Absent: writes, and permissions.

mod lookup;
mod subtree;

pub(crate) use lookup::{existing, has_checkpoints, held_files, image, record_of};
pub(crate) use subtree::{Subtree, xattrs};
