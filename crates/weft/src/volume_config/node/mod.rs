//! The folder of one node: its marker, its lock, its disks, and the note of a clean shutdown.
//!
//! Invariant: a node works in its folder only while it holds the lock.

pub(crate) mod clean_shutdown;
pub(super) mod disks;
pub(super) mod ending;
mod formatted;
pub(super) mod lock;
pub(super) mod marker;
pub(super) mod role;
