//! The data of a transfer: both sides, pieces in flight between them, holes, and the comparison of
//! the two sides. Nothing here knows progress records.

mod hole;
mod pump;
mod side;
mod verify;

pub(super) use pump::{Digest, Moved, Pump};
pub(super) use side::{Local, Side, View};
pub(super) use verify::{Comparison, OnGhost};
