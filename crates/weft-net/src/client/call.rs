//! One call in flight, as its caller holds it.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use weft_proto::session::Cancel;
use weft_proto::{Failure, Flags, Kind, prost::Message as _};

use super::call_table::{CallTable, EnteredCall, Window};
use crate::error::CallError;
use crate::framing::Frame;
use crate::send_queue::{Lane, OutgoingFrame};

/// A call in flight. Dropping it before its end cancels the call.
pub(super) struct OpenCall {
    table: Arc<CallTable>,
    call: EnteredCall,
    /// The lane of its request, once part of it was sent: later frames must not overtake it.
    lane: Option<Lane>,
}

impl OpenCall {
    /// Waits for a slot; nothing is sent yet. `cost` is the window of payload that is sent at once.
    pub(super) async fn begin(
        table: &Arc<CallTable>,
        kind: Kind,
        body: usize,
        cost: u64,
    ) -> Result<Self, CallError> {
        Ok(OpenCall {
            call: table.enter(kind, body, cost).await?,
            table: table.clone(),
            lane: None,
        })
    }

    /// Sends the whole request ahead of bulk data.
    pub(super) fn urgent(
        &mut self,
        kind: Kind,
        body: Vec<u8>,
        payload: Vec<Bytes>,
    ) -> Result<(), CallError> {
        self.table.send_urgent(OutgoingFrame {
            payload,
            ..OutgoingFrame::bare(kind, Flags::LAST, self.call.id, body)
        })?;
        self.lane = Some(Lane::Urgent);
        Ok(())
    }

    /// Sends `payload` frame by frame as the windows allow, the first frame with this kind and
    /// body. Ends early, without an error, when the server has answered.
    pub(super) async fn stream(
        &mut self,
        mut kind: Kind,
        mut body: Vec<u8>,
        payload: Vec<Bytes>,
        last: bool,
    ) -> Result<(), CallError> {
        let mut unsent = Unsent::new(payload);
        loop {
            let mut payload = Vec::new();
            if unsent.bytes > 0 {
                let id = self.call.id;
                let window = self.table.grant(id, unsent.bytes, &self.call.credited);
                match window.await? {
                    Window::Granted(bytes) => payload = unsent.take(bytes),
                    Window::Answered => return Ok(()),
                }
            }
            let end = unsent.bytes == 0;
            let flags = if end && last {
                Flags::LAST
            } else {
                Flags::default()
            };
            let frame = OutgoingFrame {
                payload,
                ..OutgoingFrame::bare(kind, flags, self.call.id, std::mem::take(&mut body))
            };
            self.table.send_bulk(frame).await?;
            self.lane = Some(Lane::Bulk);
            if end {
                return Ok(());
            }
            kind = Kind::Data;
        }
    }

    /// The next frame of the reply.
    pub(super) async fn next(&mut self) -> Result<Frame, CallError> {
        let Some(frame) = self.call.frames.recv().await else {
            return Err(self.table.lost_error());
        };
        if frame.header.flags.has(Flags::FAILED) {
            let failure = frame.body_as::<Failure>();
            let failure = failure.map_err(|e| self.protocol_error(&e.to_string()))?;
            return Err(CallError::Failed(failure));
        }
        Ok(frame)
    }

    /// Lets the server send more of the reply.
    pub(super) fn credit(&self, bytes: u64) {
        self.table.credit_reply(self.call.id, bytes);
    }

    /// Whether the server has answered, perhaps before all payload was sent.
    pub(super) fn answered(&self) -> bool {
        !self.call.frames.is_empty() || self.call.frames.is_closed()
    }

    pub(super) fn protocol_error(&self, reason: &str) -> CallError {
        self.table.protocol_error(reason)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let id = self.call.id;
        if self.table.abandon(id, self.lane.is_some())
            && let Some(lane) = self.lane
        {
            let body = Cancel { request: id }.encode_to_vec();
            self.table.send_control(lane, Kind::Cancel, id, body);
        }
    }
}

/// Payload not yet sent.
struct Unsent {
    parts: VecDeque<Bytes>,
    bytes: usize,
}

impl Unsent {
    fn new(parts: Vec<Bytes>) -> Self {
        let bytes = parts.iter().map(Bytes::len).sum();
        let parts = parts.into();
        Unsent { parts, bytes }
    }

    /// Takes the first `bytes`; there must be that many.
    fn take(&mut self, bytes: usize) -> Vec<Bytes> {
        self.bytes -= bytes;
        if self.bytes == 0 {
            return std::mem::take(&mut self.parts).into();
        }
        let (mut taken, mut missing) = (Vec::new(), bytes);
        while missing > 0 {
            let Some(mut part) = self.parts.pop_front() else {
                unreachable!("fewer bytes than counted")
            };
            if part.len() > missing {
                self.parts.push_front(part.split_off(missing));
            }
            missing -= part.len();
            taken.push(part);
        }
        taken
    }
}
