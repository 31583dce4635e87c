//! The folder of one node: its marker, its lock, its disks, and the note of a clean shutdown.
//!
//! Owns these files. Invariants: a node works in its folder only while it holds the lock; a folder
//! whose marker names another node is refused. What the administrator wrote is in `config/`;
//! nothing here starts a process or connects to a volume.

pub(crate) mod clean_shutdown;
pub(super) mod disks;
pub(super) mod ending;
mod formatted;
pub(super) mod lock;
pub(super) mod marker;
pub(super) mod role;
