//! Clients that reconnect, clients that do not, and orphans that only these had open.
//!
//! Owns no state: the open files are in `open/`, sessions and their timeouts in `weft-server`.
//! Invariants: an orphan is removed only when no client has it open and the grace period after the
//! start is over; files that an absent client was writing have inexact sizes from then on, inline
//! ones excepted. Nothing here touches locks, leases and delegations: the caller ends them.

mod reap;
mod reassert;
mod session_end;

pub(crate) use reap::reap_orphans;
pub(crate) use reassert::reassert;
pub(crate) use session_end::session_ended;
