//! What clients may cache, and how they learn that it changed.
//!
//! The room owns the log of the last changes, the leases and the delegations of directories, each
//! in memory and behind a lock of its own.

mod change_log;
mod delegations;
mod leases;
mod watched;

pub(crate) use change_log::{Change, entry_change};
pub use change_log::{ChangeLog, News};
pub use delegations::Delegations;
pub use leases::Leases;
pub(crate) use watched::Watched;
