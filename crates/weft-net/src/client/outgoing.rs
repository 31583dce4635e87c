//! The payload of a request.

use std::marker::PhantomData;

use bytes::Bytes;
use weft_proto::stamp::Stamp;
use weft_proto::{Call, Kind};

use super::call::OpenCall;
use crate::error::CallError;

/// A call whose payload is still being sent. Dropping it before its end cancels the call.
pub struct Outgoing<C: Call> {
    call: OpenCall,
    /// Sending a piece of the payload was cancelled, so it is unknown how much was sent.
    torn: bool,
    kind: PhantomData<C>,
}

impl<C: Call> Outgoing<C> {
    pub(super) fn new(call: OpenCall) -> Self {
        Outgoing {
            call,
            torn: false,
            kind: PhantomData,
        }
    }

    /// Sends more of the payload, of any length; `last` says that it is the end. Waits while the
    /// server grants no window. Once the server has answered, nothing more is sent.
    ///
    /// # Cancellation
    /// The call can only be dropped then: it is unknown how much of `payload` was sent.
    pub async fn more(&mut self, payload: Vec<Bytes>, last: bool) -> Result<(), CallError> {
        if std::mem::replace(&mut self.torn, true) {
            return Err(self.torn_error());
        }
        if last || payload.iter().any(|p| !p.is_empty()) {
            let sent = self.call.stream(Kind::Data, Vec::new(), payload, last);
            sent.await?;
        }
        self.torn = false;
        Ok(())
    }

    /// Whether the server has already answered (the call failed): sending more is useless.
    pub fn answered(&self) -> bool {
        self.call.answered()
    }

    /// The reply.
    pub async fn reply(self) -> Result<C::Reply, CallError> {
        Ok(self.stamped_reply().await?.0)
    }

    /// The reply, and the stamp of the change that the call made.
    pub async fn stamped_reply(mut self) -> Result<(C::Reply, Stamp), CallError> {
        if self.torn && !self.answered() {
            return Err(self.torn_error());
        }
        let frame = self.call.next().await?;
        let reply = frame.stamped();
        reply.map_err(|e| self.call.protocol_error(&e.to_string()))
    }

    fn torn_error(&self) -> CallError {
        self.call
            .protocol_error("sending a piece of this call's payload was cancelled")
    }
}
