//! The calls in flight on a connection, their windows and the send queue that they share.
//!
//! A call is in the table from its request until its last reply frame *leaves*. So what waits to be
//! sent is bounded by the calls that a client may have in flight, even if it never reads; and a
//! client that has seen the last frame finds the slot free.
//!
//! As on the client's side, nothing that may wake a service is sent, credited or dropped under the
//! table's lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;
use weft_proto::limits::window_cost;
use weft_proto::session::Credit;
use weft_proto::{Flags, Header, Kind, prost::Message as _};

use super::reply_flow::ReplyFlow;
use crate::admission::{CallUsage, ConnectionUsage};
use crate::framing::Chunk;
use crate::send_queue::{BeforeWrite, Lane, OutgoingFrame, QueueClosed, SendMode, SendQueue};

pub(super) struct CallTable {
    queue: SendQueue,
    reply_window: u32,
    open: Mutex<OpenCalls>,
}

struct OpenCalls {
    /// Ordered, so that calls learn of the connection's end in the order in which they began.
    by_id: BTreeMap<u64, OpenCall>,
    usage: ConnectionUsage,
}

struct OpenCall {
    /// Where its payload goes; `None` after its end or a cancel.
    payload: Option<mpsc::UnboundedSender<Chunk>>,
    usage: CallUsage,
    flow: Arc<ReplyFlow>,
}

impl OpenCall {
    /// Takes what the service is notified by, to be used without the table's lock.
    fn cancel(&mut self) -> (Arc<ReplyFlow>, Option<mpsc::UnboundedSender<Chunk>>) {
        (self.flow.clone(), self.payload.take())
    }

    fn is(&self, flow: &Arc<ReplyFlow>) -> bool {
        Arc::ptr_eq(&self.flow, flow)
    }
}

impl CallTable {
    pub(super) fn new(queue: SendQueue, usage: ConnectionUsage, reply_window: u32) -> Self {
        CallTable {
            queue,
            reply_window,
            open: Mutex::new(OpenCalls {
                by_id: BTreeMap::new(),
                usage,
            }),
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenCalls> {
        self.open.lock()
    }

    /// The queue of what is sent to the client.
    pub(super) fn queue(&self) -> &SendQueue {
        &self.queue
    }

    /// Enters a call; `last` says that its payload is complete.
    pub(super) fn begin(
        &self,
        id: u64,
        body: usize,
        payload: Chunk,
        last: bool,
    ) -> Result<(mpsc::UnboundedReceiver<Chunk>, Arc<ReplyFlow>), String> {
        let mut open = self.open();
        if open.by_id.contains_key(&id) {
            return Err("the client used a request id twice".to_owned());
        }
        let usage = open.usage.begin(body)?;
        let flow = Arc::new(ReplyFlow::new(self.reply_window));
        let (sender, chunks) = mpsc::unbounded_channel();
        let call = OpenCall {
            payload: Some(sender),
            usage,
            flow: flow.clone(),
        };
        open.by_id.insert(id, call);
        drop(open);
        self.data(id, payload, last);
        Ok((chunks, flow))
    }

    /// Whether a frame's payload is within the windows, asked before memory is allocated for it.
    pub(super) fn admit(&self, header: &Header) -> Result<(), String> {
        let open = self.open();
        let call = open.by_id.get(&header.request).map(|call| &call.usage);
        open.usage.admit(call, header.payload_len as usize)
    }

    /// Payload of a call has arrived.
    pub(super) fn data(&self, id: u64, payload: Chunk, last: bool) {
        let cost = window_cost(payload.bytes.len());
        let mut guard = self.open();
        let open = &mut *guard;
        // Payload of a call that was answered or cancelled meanwhile is dropped, and its window
        // with it.
        let Some(call) = open.by_id.get_mut(&id) else {
            return;
        };
        let Some(sender) = call.payload.clone() else {
            return;
        };
        open.usage.receive(&mut call.usage, cost);
        let (flow, ended) = (call.flow.clone(), call.payload.take_if(|_| last));
        drop(guard);
        if cost > 0 && sender.send(payload).is_err() {
            // The service does not want it: as good as consumed.
            self.release(id, &flow, cost);
        }
        drop(ended);
    }

    /// The service has released payload of a call: its window is free.
    pub(super) fn release(&self, id: u64, flow: &Arc<ReplyFlow>, cost: u64) {
        let mut guard = self.open();
        let open = &mut *guard;
        // The id may belong to another call by now.
        let Some(call) = open.by_id.get_mut(&id).filter(|call| call.is(flow)) else {
            return;
        };
        let held_shared = open.usage.release(&mut call.usage, cost);
        // When all its payload has arrived and none of the shared window is held, credit would
        // change nothing.
        let useful = call.payload.is_some() || held_shared;
        drop(guard);
        if useful {
            self.credit(id, cost);
        }
    }

    fn credit(&self, request: u64, cost: u64) {
        let bytes = cost as u32;
        let body = Credit { bytes, request }.encode_to_vec();
        let flags = Flags::REPLY.with(Flags::LAST);
        let frame = OutgoingFrame::bare(Kind::Credit, flags, request, body);
        let _ = self.queue.control(Lane::Urgent, frame);
    }

    /// The client can take more of a reply.
    pub(super) fn credited(&self, credit: Credit) -> Result<(), String> {
        let flow = |call: &OpenCall| call.flow.clone();
        let Some(flow) = self.open().by_id.get(&credit.request).map(flow) else {
            return Ok(());
        };
        if !flow.credit(credit.bytes, self.reply_window) {
            return Err("the client credits more than it was sent".to_owned());
        }
        Ok(())
    }

    /// The client no longer wants the answer: the service is notified, and still answers.
    pub(super) fn cancel(&self, id: u64) {
        let cancelled = self.open().by_id.get_mut(&id).map(OpenCall::cancel);
        if let Some((flow, _payload)) = cancelled {
            flow.cancel();
        }
    }

    /// Queues an urgent frame of a call; `last` is its flow where it is the call's last frame.
    pub(super) fn send_urgent(
        self: &Arc<Self>,
        frame: OutgoingFrame,
        last: Option<&Arc<ReplyFlow>>,
    ) -> Result<(), QueueClosed> {
        let ending = last.map(|flow| self.ending(frame.request, flow));
        let mode = SendMode::for_calls(self.open().by_id.len());
        self.queue.urgent(frame, ending, mode)
    }

    /// Queues a bulk frame of a call when there is budget for it; `last` as for
    /// [`CallTable::send_urgent`].
    ///
    /// # Cancellation
    /// Safe: the frame is queued whole or not at all.
    pub(super) async fn send_bulk(
        self: &Arc<Self>,
        frame: OutgoingFrame,
        last: Option<&Arc<ReplyFlow>>,
    ) -> Result<(), QueueClosed> {
        let ending = last.map(|flow| self.ending(frame.request, flow));
        self.queue.bulk(frame, ending).await
    }

    /// Ends the call when its last frame leaves.
    fn ending(self: &Arc<Self>, id: u64, flow: &Arc<ReplyFlow>) -> BeforeWrite {
        let (calls, flow) = (self.clone(), flow.clone());
        Box::new(move || calls.end(id, &flow))
    }

    fn end(&self, id: u64, flow: &Arc<ReplyFlow>) {
        let mut guard = self.open();
        let open = &mut *guard;
        let same = open.by_id.get(&id).is_some_and(|call| call.is(flow));
        let ended = if same { open.by_id.remove(&id) } else { None };
        if let Some(call) = &ended {
            open.usage.end(&call.usage);
        }
        drop(guard);
        drop(ended);
    }

    /// The connection has ended: cancels every call.
    pub(super) fn close(&self, reason: &str) {
        let cancelled: Vec<_> = self
            .open()
            .by_id
            .values_mut()
            .map(OpenCall::cancel)
            .collect();
        for (flow, _payload) in cancelled {
            flow.cancel();
        }
        self.queue.close(reason);
    }
}
