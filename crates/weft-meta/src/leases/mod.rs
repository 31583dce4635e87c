//! What clients may cache, and how they learn that it changed.
//!
//! The room owns the log of the last changes, the leases and the delegations of directories, each
//! in memory and behind a lock of its own.

mod change;
mod delegations;
mod log;
mod table;
mod watched;

pub(crate) use change::{Change, entry_change};
pub use delegations::Delegations;
pub use log::{ChangeLog, News};
pub use table::Leases;
pub(crate) use watched::Watched;
