//! Servers: their heartbeats and the server map.

mod accept_rollback;
mod heartbeat;
mod server_map;

pub(crate) use accept_rollback::accept_rollback;
pub(crate) use heartbeat::heartbeat;
pub(crate) use server_map::server_map;
