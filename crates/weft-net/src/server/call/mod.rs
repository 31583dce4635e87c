//! One call as its service sees it: the request, its payload, and the way back.
//!
//! Owns what a service holds of a call; the table of calls and the windows are its parent's.
//! Invariants: each call is answered once, and a [`Reply`] that is dropped unanswered sends a
//! failure; payload counts against its window until the service releases it or drops [`Payload`].
//! Nothing here touches the connection: frames go through the call table to the send queue.

mod payload;
mod reply;
mod reply_payload;

use std::sync::Arc;

use bytes::Bytes;
use weft_proto::{Call, FrameError, Kind, body_from};

pub use payload::Payload;
pub use reply::{Caller, Reply};
pub use reply_payload::ReplyPayload;

use crate::identity::Peer;

/// A call as it arrived. An `async move` block that names only some of its fields captures only
/// those: the others are dropped at once, which for [`Served::reply`] is an answer.
pub struct Served {
    /// Which call.
    pub kind: Kind,
    /// Its request id on the connection, for the log.
    pub id: u64,
    /// The caller.
    pub peer: Arc<Peer>,
    /// The payload of the request.
    pub payload: Payload,
    /// The way back.
    pub reply: Reply,
    pub(super) body: Bytes,
}

impl Served {
    /// Decodes the request.
    pub fn request<C: Call>(&self) -> Result<C, FrameError> {
        body_from(self.kind, &self.body)
    }
}
