//! What clients may cache, and how they are notified of changes.
//!
//! This module owns the log of the last changes ([`ChangeLog`]), the leases ([`Leases`]) and the
//! delegations of directories ([`Delegations`]), each in memory and behind its own lock. Operations
//! read through [`Watched`], which detects delegated directories.
//!
//! Invariant: a change is published after its commit, and ends the leases of its directories.

mod change;
mod delegations;
mod log;
mod table;
mod watched;

pub(crate) use change::{Change, Opened, entry_change};
pub use delegations::Delegations;
pub use log::{ChangeLog, Invalidations};
pub(crate) use table::FileLease;
pub use table::Leases;
pub(crate) use watched::Watched;
