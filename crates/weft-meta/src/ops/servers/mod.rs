//! I/O servers: their heartbeats and the server map.
//!
//! Owns no state: `servers/` has the table, and decides which server is up, refused or a candidate
//! for new files. Invariant: a heartbeat that changes a server's record syncs the engine before the
//! change is visible; no other operation here syncs. Nothing here connects to a server.

mod accept_rollback;
mod change_replicas;
mod heartbeat;
mod membership;
mod server_map;
mod store_record;

pub(crate) use accept_rollback::accept_rollback;
pub(crate) use change_replicas::change_replicas;
pub(crate) use heartbeat::heartbeat;
pub(crate) use membership::{join_server, leave_server};
pub(crate) use server_map::server_map;
