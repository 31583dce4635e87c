//! What a process takes from its machine: memory, threads that start early and stay, processors
//! that wake fast, a rotated log, and files that other users may not read.
//!
//! Nothing here knows a volume.

pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod private_files;
pub(crate) mod processors;
pub(crate) mod threads;
