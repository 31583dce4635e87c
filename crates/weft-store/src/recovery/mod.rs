//! Opening a store after a stop, a kill or a loss of power, and repairing one that does not open.
//!
//! Owns no state that outlives the opening.

mod count;
mod open;
mod relabel;
mod replay;
mod rescue;
mod restore;
mod salvage;
mod unproven;

pub use open::{has_log, log_reaches};
pub use rescue::{Obstacle, rescue};
