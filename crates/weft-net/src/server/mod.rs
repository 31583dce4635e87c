//! The serving side: accepts and authenticates connections, and hands each call to a [`Service`].
//!
//! `accept.rs` accepts, `connection.rs` serves one connection from its first byte to its last,
//! `call_table.rs` holds the calls in flight on it, `call/` is a call as its service sees it.
//! What bounds all of this is in `crate::admission`.

mod accept;
mod brief_calls;
mod call;
mod call_table;
mod connection;
mod reply_flow;
mod service;

pub use accept::serve;
pub use call::{Caller, Payload, Reply, ReplyPayload, Served};
pub use reply_flow::Gone;
pub use service::Service;
