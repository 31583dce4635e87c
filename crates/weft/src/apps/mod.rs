//! Parallel applications on a volume: sorting, duplicates, and the picture of a grid.
//!
//! An application is a leader (the process the user started) and workers (the same binary, started
//! by the leader). The leader attaches files and hands the attachments over; workers open views and
//! move the data directly to and from the servers (`weft-crew`). Only barriers and counts go
//! through the leader.
//!
//! docs/applications.md describes what each application does and why it is correct.

pub(crate) mod crew;
pub(crate) mod duplicates;
pub(crate) mod memory;
pub(crate) mod picture;
pub(crate) mod record;
pub(crate) mod sort;
pub(crate) mod stream;
