//! The volume's servers: which there are, which of them are up, and which a new file gets.
//!
//! The room owns [`ServerTable`]. Addresses, store ids and confirmed positions are durable; what a
//! heartbeat says beside them is kept in memory.
//!
//! Invariant: the epoch rises, durably and before any client sees it, when a server's address or
//! store changes.

pub(crate) mod placement;
mod table;

pub(crate) use table::{Heartbeat, ServerTable, Servers};
