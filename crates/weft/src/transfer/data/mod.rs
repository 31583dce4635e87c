//! The data of a transfer: both sides, pieces in flight between them, holes, and the comparison of
//! the two sides.
//!
//! Owns the buffers and pieces in flight of one part. Invariants: memory is bounded by the pieces
//! in flight; a part writes only its own share; holes are not written as data. Nothing here knows
//! progress records: a pump reports synced progress to its caller (`resume/`).

mod hole;
mod pump;
mod side;
mod verify;

pub(super) use pump::{Digest, Moved, Pump};
pub(super) use side::{Local, Side, View};
pub(super) use verify::{Comparison, OnGhost};
