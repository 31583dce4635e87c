//! The bytes of a transfer on their way: both sides, pieces in flight between them, holes, and the
//! comparison of what arrived. Nothing here knows records of progress.

mod hole;
mod pump;
mod side;
mod verify;

pub(super) use pump::{Digest, Moved, Pump};
pub(super) use side::{Local, Side, View};
pub(super) use verify::{Comparison, OnGhost};
