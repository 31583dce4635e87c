//! The answer to a call.

use std::sync::Arc;

use weft_proto::limits::{self, window_cost};
use weft_proto::stamp::Stamp;
use weft_proto::{Code, Failure, Flags, Kind, prost::Message};

use super::reply_payload::ReplyPayload;
use crate::limits::FAILURE_MESSAGE_MAX;
use crate::send_queue::OutgoingFrame;
use crate::server::call_table::CallTable;
use crate::server::reply_flow::{Gone, ReplyFlow};

/// Answers a call. Dropped without an answer, it answers that the service failed (or, to a caller
/// that has cancelled, that the call was cancelled).
pub struct Reply {
    kind: Kind,
    id: u64,
    calls: Arc<CallTable>,
    flow: Arc<ReplyFlow>,
    begun: bool,
    answered: bool,
}

/// Whether and how fast a caller takes its answer, apart from the [`Reply`].
#[derive(Clone)]
pub struct Caller(Arc<ReplyFlow>);

impl Caller {
    /// Whether it no longer waits for the answer. Meaningless once it was answered.
    pub fn gone(&self) -> bool {
        self.0.cancelled()
    }

    /// Bytes of the answer that it has taken, in the measure of windows.
    pub fn taken(&self) -> u64 {
        self.0.taken()
    }
}

impl Reply {
    pub(in crate::server) fn new(
        kind: Kind,
        id: u64,
        calls: Arc<CallTable>,
        flow: Arc<ReplyFlow>,
    ) -> Self {
        Reply {
            kind,
            id,
            calls,
            flow,
            begun: false,
            answered: false,
        }
    }

    /// Answers with a body and no payload.
    pub fn done<M: Message>(mut self, reply: &M) {
        debug_assert!(
            !self.begun,
            "a reply that began with its head ends with data"
        );
        match self.encode(reply) {
            Ok(body) => self.last(Flags::default(), body),
            Err(failure) => self.send_failure(&failure),
        }
    }

    /// As [`Reply::done`], for a call that changed something; `stamp` says which failures the
    /// change survives.
    pub fn done_at<M: Message>(mut self, reply: &M, stamp: &Stamp) {
        match self.encode(reply) {
            Ok(mut body) => {
                // The stamp has field numbers of its own: appended, its fields are the reply's.
                body.extend(stamp.encode_to_vec());
                self.last(Flags::default(), body);
            }
            Err(failure) => self.send_failure(&failure),
        }
    }

    /// Answers with an error; also in the middle of a stream.
    pub fn fail(mut self, failure: &Failure) {
        self.send_failure(failure);
    }

    /// Begins a reply that carries payload, of any length; `last` says that `payload` is all of it.
    /// Waits while the client grants no window.
    ///
    /// # Cancellation
    /// When the future is dropped, the reply can only [`fail`](Reply::fail) or be dropped.
    pub async fn head<M: Message>(
        &mut self,
        reply: &M,
        payload: impl Into<ReplyPayload>,
        last: bool,
    ) -> Result<(), Gone> {
        debug_assert!(!self.begun, "a reply has one head");
        self.begun = true;
        match self.encode(reply) {
            Ok(body) => self.send(self.kind, body, payload.into(), last).await,
            Err(failure) => {
                self.send_failure(&failure);
                Err(Gone)
            }
        }
    }

    /// Sends more of the payload; waits while the client grants no window.
    ///
    /// # Cancellation
    /// As [`Reply::head`].
    pub async fn data(&mut self, payload: impl Into<ReplyPayload>, last: bool) -> Result<(), Gone> {
        debug_assert!(self.begun, "a reply begins with its head");
        self.send(Kind::Data, Vec::new(), payload.into(), last)
            .await
    }

    /// Whether the caller no longer waits for the answer.
    pub fn cancelled(&self) -> bool {
        self.flow.cancelled()
    }

    /// Says that much is left to do: the call moves to a task of its own.
    pub async fn long(&self) {
        if !self.flow.is_long() {
            self.flow.become_long();
            tokio::task::yield_now().await;
        }
    }

    /// A handle to the caller, for use while the reply is being sent.
    pub fn caller(&self) -> Caller {
        Caller(self.flow.clone())
    }

    /// Completes when the caller no longer waits for the answer. Not for a reply that carries
    /// payload: this holds up its frames.
    pub async fn gone(&self) {
        self.flow.ended().await;
    }

    async fn send(
        &mut self,
        mut kind: Kind,
        mut body: Vec<u8>,
        mut payload: ReplyPayload,
        last: bool,
    ) -> Result<(), Gone> {
        debug_assert!(!self.answered, "nothing follows the last frame");
        while let Some(rest) = payload.split_frame() {
            let frame = std::mem::replace(&mut payload, rest);
            let body = std::mem::take(&mut body);
            self.send_frame(kind, body, frame, false).await?;
            kind = Kind::Data;
        }
        self.send_frame(kind, body, payload, last).await
    }

    async fn send_frame(
        &mut self,
        kind: Kind,
        body: Vec<u8>,
        payload: ReplyPayload,
        last: bool,
    ) -> Result<(), Gone> {
        let cost = window_cost(payload.bytes() as usize);
        self.flow.acquire(cost).await?;
        let flags = if last {
            Flags::REPLY.with(Flags::LAST)
        } else {
            Flags::REPLY
        };
        let frame = OutgoingFrame {
            kind,
            flags,
            request: self.id,
            body,
            payload: payload.parts,
            sum: payload.sum,
        };
        let ending = last.then_some(&self.flow);
        // Small and whole: it overtakes bulk data.
        let urgent = last && kind != Kind::Data && cost <= u64::from(limits::CALL_WINDOW);
        let sent = if urgent {
            self.calls.send_urgent(frame, ending)
        } else {
            self.calls.send_bulk(frame, ending).await
        };
        sent.map_err(|_| Gone)?;
        self.answered = last;
        Ok(())
    }

    fn encode<M: Message>(&self, reply: &M) -> Result<Vec<u8>, Failure> {
        let body = reply.encode_to_vec();
        if body.len() <= limits::BODY_MAX as usize {
            return Ok(body);
        }
        let what = format!(
            "the reply to {} has {} bytes, which exceeds the limit of {}",
            self.kind.name(),
            body.len(),
            limits::BODY_MAX
        );
        Err(Failure::new(Code::Internal, what))
    }

    fn send_failure(&mut self, failure: &Failure) {
        let mut body = failure.encode_to_vec();
        if failure.message.len() > FAILURE_MESSAGE_MAX {
            let mut failure = failure.clone();
            let end = failure.message.floor_char_boundary(FAILURE_MESSAGE_MAX);
            failure.message.truncate(end);
            body = failure.encode_to_vec();
        }
        self.last(Flags::FAILED, body);
    }

    fn last(&mut self, flags: Flags, body: Vec<u8>) {
        self.answered = true;
        let flags = Flags::REPLY.with(Flags::LAST).with(flags);
        let frame = OutgoingFrame::bare(self.kind, flags, self.id, body);
        // A closed queue has no client to answer.
        let _ = self.calls.send_urgent(frame, Some(&self.flow));
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let kind = self.kind.name();
        let failure = if self.cancelled() {
            Failure::new(
                Code::Cancelled,
                format!("{kind} was cancelled by its caller"),
            )
        } else {
            let what = format!("the server gave no answer to {kind}; see its log");
            Failure::new(Code::Internal, what)
        };
        self.send_failure(&failure);
    }
}
