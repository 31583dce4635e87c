//! One call in flight, as its caller holds it.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use weft_proto::limits::{self, window_cost};
use weft_proto::session::{Cancel, Credit};
use weft_proto::stamp::Stamp;
use weft_proto::{Call, Failure, Flags, Kind, prost::Message as _};

use super::{Connection, REPLY_WINDOW};
use crate::error::CallError;
use crate::frames::Frame;
use crate::queue::{Lane, Message, Sender};
use crate::window::shared_part;

/// A call's own window is used for pieces from this size on; below, waiting makes better frames.
const PIECE_MIN: u64 = 16 << 10;

/// A reply with its payload, as it arrives. Dropping it before its end cancels the call.
pub struct Incoming<C: Call> {
    call: OpenCall,
    first: Bytes,
    done: bool,
    failed: Option<CallError>,
    owed: u64,
    kind: PhantomData<C>,
}

/// A call whose payload is still being sent. Dropping it before its end cancels the call.
pub struct Outgoing<C: Call> {
    call: OpenCall,
    /// A part of the payload was given up half way.
    torn: bool,
    kind: PhantomData<C>,
}

pub(super) struct OpenCall {
    connection: Connection,
    id: u64,
    frames: mpsc::UnboundedReceiver<Frame>,
    credited: Arc<Notify>,
    /// Where its request went, once it did: what follows it must not overtake it.
    lane: Option<Lane>,
}

impl OpenCall {
    pub(super) fn new(
        connection: Connection,
        id: u64,
        frames: mpsc::UnboundedReceiver<Frame>,
        credited: Arc<Notify>,
    ) -> Self {
        OpenCall {
            connection,
            id,
            frames,
            credited,
            lane: None,
        }
    }

    /// Sends the whole request ahead of bulk data.
    pub(super) fn urgent(
        &mut self,
        kind: Kind,
        body: Vec<u8>,
        payload: Vec<Bytes>,
    ) -> Result<(), CallError> {
        let message = Message {
            payload,
            ..Message::bare(kind, Flags::LAST, self.id, body)
        };
        let sender = Sender::of(self.connection.calls().open.len());
        let sent = self.connection.0.queue.urgent(message, None, sender);
        sent.map_err(|_| self.connection.lost_error())?;
        self.lane = Some(Lane::Urgent);
        Ok(())
    }

    /// Sends `payload` frame by frame as the windows allow, the first frame of this kind and with
    /// this body. Ends early, without an error, when the server has answered.
    pub(super) async fn stream(
        &mut self,
        mut kind: Kind,
        mut body: Vec<u8>,
        payload: Vec<Bytes>,
        last: bool,
    ) -> Result<(), CallError> {
        let mut rest = Rest::new(payload);
        loop {
            let mut frame = Vec::new();
            if rest.bytes > 0 {
                let granted = self.grant(rest.bytes).await?;
                if granted == 0 {
                    return Ok(());
                }
                frame = rest.cut(granted);
            }
            let end = rest.bytes == 0;
            let flags = if end && last {
                Flags::LAST
            } else {
                Flags::default()
            };
            let message = Message {
                kind,
                flags,
                request: self.id,
                body: std::mem::take(&mut body),
                payload: frame,
                sum: None,
            };
            let sent = self.connection.0.queue.bulk(message, None).await;
            sent.map_err(|_| self.connection.lost_error())?;
            self.lane = Some(Lane::Bulk);
            if end {
                return Ok(());
            }
            kind = Kind::Data;
        }
    }

    /// Takes window for at most `wanted` bytes and returns for how many; 0 when the server has
    /// answered.
    ///
    /// Never waits for other calls alone: what the server credits of this call is enough to go on.
    async fn grant(&self, wanted: usize) -> Result<usize, CallError> {
        let connection = &self.connection.0;
        let wanted = wanted.min(limits::PAYLOAD_MAX as usize);
        let cost = window_cost(wanted);
        loop {
            let more = {
                let mut calls = self.connection.calls();
                if let Some(reason) = &calls.lost {
                    return Err(self.connection.lost_with(reason.clone()));
                }
                let Some(waiting) = calls.open.get_mut(&self.id) else {
                    return Ok(0);
                };
                let out = waiting.outstanding;
                let more = shared_part(out + cost) - shared_part(out);
                let fits = more == 0
                    || connection
                        .window
                        .try_acquire_many(more as u32)
                        .is_ok_and(|permit| {
                            permit.forget();
                            true
                        });
                if fits {
                    waiting.outstanding += cost;
                    return Ok(wanted);
                }
                let own = u64::from(limits::CALL_WINDOW).saturating_sub(out);
                if own >= PIECE_MIN {
                    waiting.outstanding += own;
                    return Ok(own as usize);
                }
                more
            };
            tokio::select! {
                biased;
                () = self.credited.notified() => {}
                permit = connection.window.acquire_many(more as u32), if more <= connection.window_total => {
                    let mut permit = permit.map_err(|_| self.connection.lost_error())?;
                    let mut calls = self.connection.calls();
                    let Some(waiting) = calls.open.get_mut(&self.id) else {
                        return Ok(0);
                    };
                    // Credit that came meanwhile makes it cheaper; the rest of the permit goes
                    // back.
                    let out = waiting.outstanding;
                    let now = shared_part(out + cost) - shared_part(out);
                    if let Some(used) = permit.split(now as usize) {
                        used.forget();
                    }
                    waiting.outstanding += cost;
                    return Ok(wanted);
                }
            }
        }
    }

    /// The next frame of the reply.
    pub(super) async fn next(&mut self) -> Result<Frame, CallError> {
        let Some(frame) = self.frames.recv().await else {
            return Err(self.connection.lost_error());
        };
        if frame.header.flags.has(Flags::FAILED) {
            let failure = frame.body_as::<Failure>();
            let failure = failure.map_err(|e| self.connection.protocol(&e.to_string()))?;
            return Err(CallError::Failed(failure));
        }
        Ok(frame)
    }

    /// Lets the server send more of the reply.
    fn credit(&self, bytes: u64) {
        {
            let mut calls = self.connection.calls();
            let Some(waiting) = calls.open.get_mut(&self.id) else {
                return;
            };
            waiting.allowed += bytes;
        }
        let body = Credit {
            bytes: bytes as u32,
            request: self.id,
        };
        self.connection
            .control(Lane::Urgent, Kind::Credit, self.id, body.encode_to_vec());
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut calls = self.connection.calls();
        let Some(waiting) = calls.open.get_mut(&self.id) else {
            return;
        };
        let Some(lane) = self.lane else {
            // Nothing of it was sent, so nobody will answer.
            let ended = calls.open.remove(&self.id);
            drop(calls);
            self.connection.forget(ended);
            return;
        };
        // It keeps its place until the server has answered, so that both sides count the same.
        let unwanted = waiting.frames.take();
        drop(calls);
        drop(unwanted);
        let body = Cancel { request: self.id }.encode_to_vec();
        self.connection.control(lane, Kind::Cancel, self.id, body);
    }
}

impl<C: Call> Incoming<C> {
    pub(super) fn new(call: OpenCall, head: Frame) -> Self {
        Incoming {
            call,
            done: head.header.flags.has(Flags::LAST),
            first: head.payload,
            failed: None,
            owed: 0,
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
        self.owed += window_cost(bytes);
        if !self.done && self.owed >= u64::from(REPLY_WINDOW / 4) {
            self.call.credit(std::mem::take(&mut self.owed));
        }
    }
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
    /// server grants no window; what the server would throw away because it has answered is not
    /// sent.
    ///
    /// # Cancellation
    /// The call can only be dropped then: nobody knows how much of `payload` went.
    pub async fn more(&mut self, payload: Vec<Bytes>, last: bool) -> Result<(), CallError> {
        if std::mem::replace(&mut self.torn, true) {
            return Err(self.given_up());
        }
        if last || payload.iter().any(|p| !p.is_empty()) {
            let sent = self.call.stream(Kind::Data, Vec::new(), payload, last);
            sent.await?;
        }
        self.torn = false;
        Ok(())
    }

    /// Whether the server has already answered (it failed): sending more is of no use.
    pub fn answered(&self) -> bool {
        !self.call.frames.is_empty() || self.call.frames.is_closed()
    }

    /// The reply.
    pub async fn reply(self) -> Result<C::Reply, CallError> {
        Ok(self.stamped_reply().await?.0)
    }

    /// The reply, and what the server says of the change that the call made.
    pub async fn stamped_reply(mut self) -> Result<(C::Reply, Stamp), CallError> {
        if self.torn && !self.answered() {
            return Err(self.given_up());
        }
        let frame = self.call.next().await?;
        let reply = frame.stamped();
        reply.map_err(|e| self.call.connection.protocol(&e.to_string()))
    }

    fn given_up(&self) -> CallError {
        self.call
            .connection
            .protocol("a part of this call's payload was given up before it was sent")
    }
}

/// Payload not yet sent.
struct Rest {
    parts: VecDeque<Bytes>,
    bytes: usize,
}

impl Rest {
    fn new(parts: Vec<Bytes>) -> Self {
        let bytes = parts.iter().map(Bytes::len).sum();
        let parts = parts.into();
        Rest { parts, bytes }
    }

    /// Takes the first `bytes`, which must be there.
    fn cut(&mut self, bytes: usize) -> Vec<Bytes> {
        self.bytes -= bytes;
        if self.bytes == 0 {
            return std::mem::take(&mut self.parts).into();
        }
        let (mut cut, mut missing) = (Vec::new(), bytes);
        while missing > 0 {
            let Some(mut part) = self.parts.pop_front() else {
                unreachable!("fewer bytes than counted")
            };
            if part.len() > missing {
                self.parts.push_front(part.split_off(missing));
            }
            missing -= part.len();
            cut.push(part);
        }
        cut
    }
}
