//! Checkpoints of files and trees, and the gates that keep each write wholly before or after one.
//!
//! A write enters the gate of its file; a checkpoint closes the gates of its files, for a bounded
//! time. The files of a tree that one call cannot name are held call by call
//! ([`FrozenFiles`]), and released after a timeout.

mod calls;
mod gates;
mod held;

pub(super) use gates::WriteGates;
pub(super) use held::FrozenFiles;
