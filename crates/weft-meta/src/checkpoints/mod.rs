//! Reads of checkpoints.
//!
//! This module owns no state: it finds a checkpoint by name, the image of a directory in a
//! checkpoint of a tree, and the files whose cells the checkpoint keeps. `ops/checkpoints/` makes,
//! drops and rolls back checkpoints.
//!
//! Absent: writes, and permissions.

mod lookup;
mod subtree;

pub(crate) use lookup::{
    checkpoint_files, coding_name, existing, has_checkpoints, has_later, image, is_coding_name,
    record_of,
};
pub(crate) use subtree::{Subtree, xattrs};
