//! Servers: their heartbeats and the server map.

mod heartbeat;

pub(crate) use heartbeat::{accept_rollback, heartbeat, server_map};
