//! Clients that reconnect, clients that do not, and files that only they had.

mod sessions;

pub(crate) use sessions::{reap_orphans, reassert, session_ended};
