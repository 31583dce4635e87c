//! The payload of a reply.

use std::marker::PhantomData;

use bytes::Bytes;
use weft_proto::limits::window_cost;
use weft_proto::{Call, Flags};

use super::call::OpenCall;
use crate::error::CallError;
use crate::framing::Frame;
use crate::limits::REPLY_WINDOW;

/// A reply with its payload, as it arrives. Dropping it before its end cancels the call.
pub struct Incoming<C: Call> {
    call: OpenCall,
    first: Bytes,
    done: bool,
    failed: Option<CallError>,
    /// Window of payload that was taken and not yet credited.
    uncredited: u64,
    kind: PhantomData<C>,
}

impl<C: Call> Incoming<C> {
    pub(super) fn new(call: OpenCall, head: Frame) -> Self {
        Incoming {
            call,
            done: head.header.flags.has(Flags::LAST),
            first: head.payload,
            failed: None,
            uncredited: 0,
            kind: PhantomData,
        }
    }

    /// The next bytes of the payload; `None` at its end. An error repeats.
    ///
    /// # Cancellation
    /// Safe: no bytes are lost.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            self.took(first.len());
            return Ok(Some(first));
        }
        while !self.done {
            let frame = match self.call.next().await {
                Ok(frame) => frame,
                Err(error) => {
                    self.failed = Some(error.clone());
                    return Err(error);
                }
            };
            self.done = frame.header.flags.has(Flags::LAST);
            if !frame.payload.is_empty() {
                self.took(frame.payload.len());
                return Ok(Some(frame.payload));
            }
        }
        Ok(None)
    }

    fn took(&mut self, bytes: usize) {
        self.uncredited += window_cost(bytes);
        if !self.done && self.uncredited >= u64::from(REPLY_WINDOW / 4) {
            self.call.credit(std::mem::take(&mut self.uncredited));
        }
    }
}
