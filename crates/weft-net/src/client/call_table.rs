//! The calls in flight on a connection, their windows and the send queue that they share.
//!
//! The state has one owner: this table, under one lock that is never held across an await; the
//! semaphores beside it only make callers wait. Nothing is sent, notified or dropped under that
//! lock that may wake a caller: a waker may drop its future at once (one that spawns into a runtime
//! that ends does), and the calls in it take the lock.
//!
//! A call holds its slot from its request until its *last* reply frame, also when its caller has
//! lost interest: the server answers cancelled calls, too, so both sides always agree on what is in
//! flight.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use weft_proto::limits::{self, window_cost};
use weft_proto::session::{Credit, Welcome};
use weft_proto::{Code, Failure, Flags, Kind, prost::Message as _};

use crate::admission::shared_part;
use crate::counters::Counters;
use crate::error::CallError;
use crate::framing::Frame;
use crate::limits::{PIECE_MIN, REPLY_WINDOW};
use crate::send_queue::{Lane, OutgoingFrame, SendMode, SendQueue};

/// The first request id of a call; the handshake uses lower ones.
const FIRST_ID: u64 = 16;

pub(super) struct CallTable {
    address: String,
    queue: SendQueue,
    calls: Mutex<Calls>,
    next_id: AtomicU64,
    /// What calls may have outstanding beyond their own windows, together.
    window: Semaphore,
    window_total: u64,
    slots: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct Calls {
    /// Ordered, so that calls learn of the connection's end in the order in which they began.
    by_id: BTreeMap<u64, WaitingCall>,
    /// Why the connection was lost.
    lost: Option<String>,
}

/// A call in flight, until its last reply frame.
struct WaitingCall {
    kind: Kind,
    /// Where its frames go; `None` once the caller has dropped it.
    frames: Option<mpsc::UnboundedSender<Frame>>,
    /// Its number among the abandoned calls, once the caller has dropped it.
    abandoned: Option<u64>,
    /// The reply's window: what the server may still send.
    allowed: u64,
    /// The first frame of the reply has arrived.
    begun: bool,
    /// Payload sent and not credited.
    outstanding: u64,
    credited: Arc<Notify>,
    _grant: CallGrant,
}

/// A call's share of what the server grants a connection.
struct CallGrant {
    _slot: OwnedSemaphorePermit,
    _body: OwnedSemaphorePermit,
}

/// A call that was entered into the table.
pub(super) struct EnteredCall {
    pub(super) id: u64,
    /// The frames of its reply.
    pub(super) frames: mpsc::UnboundedReceiver<Frame>,
    /// Notified when the server has credited payload, or answered.
    pub(super) credited: Arc<Notify>,
}

/// Window for a piece of a call's payload.
pub(super) enum Window {
    /// So many bytes may be sent.
    Granted(usize),
    /// The server has answered: it needs no more payload.
    Answered,
}

/// What [`CallTable::try_grant`] finds.
enum TryGrant {
    Done(Window),
    /// So much of the shared window is missing.
    Missing(u64),
}

impl CallTable {
    pub(super) fn new(
        address: &str,
        welcome: &Welcome,
        queue: SendQueue,
        counters: Arc<Counters>,
    ) -> Self {
        CallTable {
            address: address.to_owned(),
            queue,
            calls: Mutex::default(),
            next_id: AtomicU64::new(FIRST_ID),
            window: Semaphore::new(welcome.window as usize),
            window_total: u64::from(welcome.window),
            slots: Arc::new(Semaphore::new(welcome.calls as usize)),
            bodies: Arc::new(Semaphore::new(limits::BODIES_MAX as usize)),
            counters,
        }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock()
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn queue(&self) -> &SendQueue {
        &self.queue
    }

    /// Why the connection was lost, if it was.
    pub(super) fn lost(&self) -> Option<String> {
        self.calls().lost.clone()
    }

    /// Whether an answer is awaited.
    pub(super) fn is_waiting(&self) -> bool {
        !self.calls().by_id.is_empty()
    }

    /// Counts a call that was sent.
    pub(super) fn count(&self, kind: Kind) {
        self.counters.called(kind);
    }

    /// Waits for a slot and enters a call into the table, with payload of `cost`; nothing is sent
    /// yet.
    ///
    /// # Cancellation
    /// Safe: the slot is free again.
    pub(super) async fn enter(
        &self,
        kind: Kind,
        body: usize,
        cost: u64,
    ) -> Result<EnteredCall, CallError> {
        if body > limits::BODY_MAX as usize {
            let what = format!(
                "a request of kind {} with {body} bytes exceeds the limit of {}",
                kind.name(),
                limits::BODY_MAX
            );
            return Err(CallError::Failed(Failure::new(Code::Invalid, what)));
        }
        let slot = self.slots.clone().acquire_owned().await;
        let slot = slot.map_err(|_| self.lost_error())?;
        let body = self.bodies.clone().acquire_many_owned(body as u32).await;
        let body = body.map_err(|_| self.lost_error())?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, frames) = mpsc::unbounded_channel();
        let credited = Arc::new(Notify::new());
        let waiting = WaitingCall {
            kind,
            frames: Some(sender),
            abandoned: None,
            allowed: u64::from(REPLY_WINDOW),
            begun: false,
            outstanding: cost,
            credited: credited.clone(),
            _grant: CallGrant {
                _slot: slot,
                _body: body,
            },
        };
        let mut calls = self.calls();
        if let Some(reason) = &calls.lost {
            return Err(self.lost_with(reason.clone()));
        }
        calls.by_id.insert(id, waiting);
        drop(calls);
        Ok(EnteredCall {
            id,
            frames,
            credited,
        })
    }

    /// Sends a whole request ahead of bulk data.
    pub(super) fn send_urgent(&self, frame: OutgoingFrame) -> Result<(), CallError> {
        let mode = SendMode::for_calls(self.calls().by_id.len());
        let sent = self.queue.urgent(frame, None, mode);
        sent.map_err(|_| self.lost_error())
    }

    /// Sends a frame of a request when there is budget for it.
    ///
    /// # Cancellation
    /// Safe: the frame is queued whole or not at all.
    pub(super) async fn send_bulk(&self, frame: OutgoingFrame) -> Result<(), CallError> {
        let sent = self.queue.bulk(frame, None).await;
        sent.map_err(|_| self.lost_error())
    }

    /// Takes window for at most `wanted` bytes of a call's payload.
    ///
    /// Never waits for other calls alone: what the server credits of this call is enough to go on.
    pub(super) async fn grant(
        &self,
        id: u64,
        wanted: usize,
        credited: &Notify,
    ) -> Result<Window, CallError> {
        let wanted = wanted.min(limits::PAYLOAD_MAX as usize);
        let cost = window_cost(wanted);
        loop {
            let missing = match self.try_grant(id, wanted)? {
                TryGrant::Done(window) => return Ok(window),
                TryGrant::Missing(missing) => missing,
            };
            tokio::select! {
                biased;
                () = credited.notified() => {}
                permit = self.window.acquire_many(missing as u32), if missing <= self.window_total => {
                    let mut permit = permit.map_err(|_| self.lost_error())?;
                    let mut calls = self.calls();
                    let Some(waiting) = calls.by_id.get_mut(&id) else {
                        return Ok(Window::Answered);
                    };
                    // Credit that came meanwhile makes it cheaper; the rest of the permit is
                    // returned.
                    let before = waiting.outstanding;
                    let now = shared_part(before + cost) - shared_part(before);
                    if let Some(used) = permit.split(now as usize) {
                        used.forget();
                    }
                    waiting.outstanding += cost;
                    return Ok(Window::Granted(wanted));
                }
            }
        }
    }

    /// Takes window without waiting: for all that is wanted, or for a piece that the call's own
    /// window allows.
    fn try_grant(&self, id: u64, wanted: usize) -> Result<TryGrant, CallError> {
        let cost = window_cost(wanted);
        let mut calls = self.calls();
        if let Some(reason) = &calls.lost {
            return Err(self.lost_with(reason.clone()));
        }
        let Some(waiting) = calls.by_id.get_mut(&id) else {
            return Ok(TryGrant::Done(Window::Answered));
        };
        let before = waiting.outstanding;
        let missing = shared_part(before + cost) - shared_part(before);
        let fits = missing == 0
            || self
                .window
                .try_acquire_many(missing as u32)
                .is_ok_and(|permit| {
                    permit.forget();
                    true
                });
        if fits {
            waiting.outstanding += cost;
            return Ok(TryGrant::Done(Window::Granted(wanted)));
        }
        let own = u64::from(limits::CALL_WINDOW).saturating_sub(before);
        if own >= PIECE_MIN {
            waiting.outstanding += own;
            return Ok(TryGrant::Done(Window::Granted(own as usize)));
        }
        Ok(TryGrant::Missing(missing))
    }

    /// Handles a frame from the server.
    ///
    /// # Errors
    /// Words for the log when the server breaks the protocol; the connection ends then.
    pub(super) fn receive(&self, frame: Frame) -> Result<(), String> {
        let header = frame.header;
        if header.kind == Kind::Credit {
            let credit: Credit = frame.body_as().map_err(|e| e.to_string())?;
            return self.credited(credit);
        }
        if !header.flags.has(Flags::REPLY) {
            let kind = header.kind.name();
            return Err(format!("the server sent a request of kind {kind}"));
        }
        let mut calls = self.calls();
        // Pongs, and frames that the call's failure has overtaken, belong to no call.
        let Some(waiting) = calls.by_id.get_mut(&header.request) else {
            return Ok(());
        };
        let (failed, last) = (
            header.flags.has(Flags::FAILED),
            header.flags.has(Flags::LAST),
        );
        let expected = if waiting.begun && !failed {
            Kind::Data
        } else {
            waiting.kind
        };
        if header.kind != expected || (failed && !last) {
            let (kind, expected) = (header.kind.name(), expected.name());
            return Err(format!("the server answered {expected} with {kind}"));
        }
        let cost = window_cost(frame.payload.len());
        if cost > waiting.allowed {
            return Err("the server sent more of a reply than it was allowed".to_owned());
        }
        waiting.allowed -= cost;
        waiting.begun = true;
        let wanted = header.kind != Kind::Data || cost > 0 || last;
        let frames = waiting.frames.clone().filter(|_| wanted);
        let ended = if last {
            calls.by_id.remove(&header.request)
        } else {
            None
        };
        drop(calls);
        if let Some(frames) = frames {
            let _ = frames.send(frame);
        }
        self.free(ended);
        Ok(())
    }

    /// The server has consumed payload of a call.
    fn credited(&self, credit: Credit) -> Result<(), String> {
        let mut calls = self.calls();
        let Some(waiting) = calls.by_id.get_mut(&credit.request) else {
            return Ok(());
        };
        let before = waiting.outstanding;
        let Some(after) = before.checked_sub(u64::from(credit.bytes)) else {
            return Err("the server credits more than it was sent".to_owned());
        };
        waiting.outstanding = after;
        let credited = waiting.credited.clone();
        drop(calls);
        credited.notify_one();
        let freed = shared_part(before) - shared_part(after);
        self.window.add_permits(freed as usize);
        Ok(())
    }

    /// Lets the server send more of a call's reply.
    pub(super) fn credit_reply(&self, id: u64, bytes: u64) {
        {
            let mut calls = self.calls();
            let Some(waiting) = calls.by_id.get_mut(&id) else {
                return;
            };
            waiting.allowed += bytes;
        }
        let body = Credit {
            bytes: bytes as u32,
            request: id,
        };
        self.send_control(Lane::Urgent, Kind::Credit, id, body.encode_to_vec());
    }

    /// The caller has dropped a call. Where part of it was sent, returns whether the server must be
    /// told: `sent` says so, and the call then keeps its slot until the server has answered, so
    /// that both sides count the same.
    pub(super) fn abandon(&self, id: u64, sent: bool) -> bool {
        let mut calls = self.calls();
        let Some(waiting) = calls.by_id.get_mut(&id) else {
            return false;
        };
        if sent {
            let unwanted = waiting.frames.take();
            waiting.abandoned = Some(self.counters.abandoned().add());
            drop(calls);
            drop(unwanted);
        } else {
            let ended = calls.by_id.remove(&id);
            drop(calls);
            self.free(ended);
        }
        sent
    }

    /// Frees the slot and the window of a call that was taken out of the table.
    fn free(&self, ended: Option<WaitingCall>) {
        if let Some(waiting) = ended {
            let freed = shared_part(waiting.outstanding);
            self.window.add_permits(freed as usize);
            waiting.credited.notify_one();
            if let Some(number) = waiting.abandoned {
                self.counters.abandoned().remove(number);
            }
        }
    }

    /// Ends every call and refuses new ones.
    pub(super) fn lose(&self, reason: &str) {
        let mut calls = self.calls();
        calls.lost.get_or_insert_with(|| reason.to_owned());
        let ended = std::mem::take(&mut calls.by_id);
        drop(calls);
        self.queue.close(reason);
        self.window.close();
        self.slots.close();
        self.bodies.close();
        for number in ended.values().filter_map(|call| call.abandoned) {
            self.counters.abandoned().remove(number);
        }
        drop(ended);
    }

    /// Sends a ping. Its pong only has to arrive; it is numbered like a call, so that no call has
    /// its id.
    pub(super) fn ping(&self) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.counters.called(Kind::Ping);
        self.send_control(Lane::Urgent, Kind::Ping, id, Vec::new());
    }

    /// Sends a frame of the connection itself.
    pub(super) fn send_control(&self, lane: Lane, kind: Kind, id: u64, body: Vec<u8>) {
        let frame = OutgoingFrame::bare(kind, Flags::LAST, id, body);
        // A closed queue has no peer to send to.
        let _ = self.queue.control(lane, frame);
    }

    pub(super) fn lost_error(&self) -> CallError {
        self.lost_with(self.lost().unwrap_or_else(|| "closed".to_owned()))
    }

    fn lost_with(&self, reason: String) -> CallError {
        CallError::Lost {
            address: self.address.clone(),
            reason,
        }
    }

    pub(super) fn protocol_error(&self, reason: &str) -> CallError {
        CallError::Protocol {
            address: self.address.clone(),
            reason: reason.to_owned(),
        }
    }
}

impl Drop for CallTable {
    fn drop(&mut self) {
        self.queue.close("the connection is no longer used");
    }
}
