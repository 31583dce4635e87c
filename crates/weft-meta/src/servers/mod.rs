//! The volume's servers: which exist, which are up, and which a new file gets.
//!
//! This module owns [`ServerTable`]. Addresses, store ids, confirmed positions and the replicas in
//! sync are durable; other values of a heartbeat are kept in memory.
//!
//! Invariant: the epoch rises, durably and before any client sees it, when a server's address or
//! store changes, or a server joins.

mod membership;
pub(crate) mod placement;
mod replicas;
mod table;

pub(crate) use table::{ChangingServers, Heartbeat, ServerTable, Servers};
