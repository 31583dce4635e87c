//! The disks of a store: their files and their labels.
//!
//! Owns the numbers of the disks, and the state of a disk that failed or is missing. Calls:
//! [`DiskSet::open`], [`DiskSet::file`], [`DiskSet::fail`], [`DiskSet::status`].
//!
//! Invariants:
//! 1. A disk keeps its number for ever; number 0 is the file `data` beside the log.
//! 2. A disk that failed gets no new data while another one is left.

mod label;
mod set;

pub(crate) use label::{DATA, DiskProbe, LABEL, has_data, probe, write_label};
pub use set::{DISKS_MAX, DiskState, DiskStatus};
pub(crate) use set::{Disk, DiskSet, known_disks};
