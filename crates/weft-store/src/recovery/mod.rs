//! Recovery: opening a store after a stop, a kill or a power loss, and repairing one that does not
//! open.
//!
//! Owns no state once the store is open.

mod count;
mod open;
mod repair;
mod replay;
mod restore;

pub use open::{has_log, log_reaches};
pub use repair::{OpenBlocker, RepairMode, repair_closed};
