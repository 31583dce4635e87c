//! The calling side of a connection.
//!
//! State has one owner, the table of calls under one lock that is never held across an await; the
//! semaphores beside it only make callers wait. Nothing is sent, notified or dropped under that
//! lock that may wake a caller: a waker may drop its future at once (one that spawns into a runtime
//! that ends does), and the calls in it take the lock. A call holds its place from its request
//! until its *last* reply frame, also when its caller has lost interest: the server answers
//! cancelled calls, too, so both sides always agree on what is in flight.

mod call;
mod keep_alive;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use weft_proto::limits::{self, window_cost};
use weft_proto::session::{Credit, Wire};
use weft_proto::stamp::Stamp;
use weft_proto::{Call, Code, Failure, Flags, Kind};

pub use call::{Incoming, Outgoing};

use call::OpenCall;

use crate::counters::Counters;
use crate::env::{Env, Opened};
use crate::error::{CallError, ConnectError, ReadError};
use crate::frames::{Frame, FrameReader};
use crate::handshake::{Identity, Introduced, introduce};
use crate::pool::BufferPool;
use crate::queue::{Lane, Message, SendQueue};
use crate::window::shared_part;

/// Payload bytes of one reply that may be under way before the caller takes them. With twice as
/// much, buffers no longer come from the processor's caches and a stream costs a third more CPU
/// (`examples/stream.rs`).
const REPLY_WINDOW: u32 = limits::REPLY_WINDOW_MIN;

/// An open, proven connection to one server. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    address: String,
    server: Option<u32>,
    incarnation: u64,
    wire: Wire,
    queue: SendQueue,
    calls: Mutex<Calls>,
    next: AtomicU64,
    /// What calls may have outstanding beyond their own windows, together.
    window: Semaphore,
    window_total: u64,
    slots: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    arrived: Arc<AtomicU64>,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct Calls {
    /// In order: when the connection ends, they learn it in the order they began.
    open: BTreeMap<u64, Waiting>,
    lost: Option<String>,
}

/// A call in flight, until its last reply frame.
struct Waiting {
    kind: Kind,
    /// Where its frames go; nowhere once the caller gave it up.
    frames: Option<mpsc::UnboundedSender<Frame>>,
    /// The reply's window: what the server may still send.
    allowed: u64,
    begun: bool,
    /// Payload sent and not credited.
    outstanding: u64,
    credited: Arc<Notify>,
    _place: Place,
}

/// A call's share of what the server grants a connection.
struct Place {
    _slot: OwnedSemaphorePermit,
    _body: OwnedSemaphorePermit,
}

/// Closes the queue, and with it the stream, of a connection that was given up before it was
/// proven.
struct Unproven(Option<SendQueue>);

impl Drop for Unproven {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.close("given up");
        }
    }
}

impl Connection {
    /// Opens a connection and proves both sides; to a server of this machine through its local
    /// socket (`docs/design/0016-local-sockets.md`).
    ///
    /// # Errors
    /// [`ConnectError`], within [`Timing::connect`](crate::Timing::connect); a local socket that
    /// does not answer takes a third of it more.
    /// # Cancellation
    /// Safe: the stream is closed.
    pub async fn open(
        env: &Env,
        identity: &Identity,
        address: &str,
        pool: BufferPool,
        counters: Arc<Counters>,
    ) -> Result<Connection, ConnectError> {
        let waited = env.timing.connect;
        let over = |way, opened| {
            let (pool, counters) = (pool.clone(), counters.clone());
            Self::over(env, identity, address, way, opened, pool, counters)
        };
        let opening = async {
            let opened = env.network.connect(address).await;
            let opened = opened.map_err(|e| ConnectError::Unreachable {
                address: address.to_owned(),
                reason: e.to_string(),
            })?;
            over(None, opened).await
        };
        let (connection, local) = timeout(waited, opening).await.unwrap_or_else(|_| {
            Err(ConnectError::Timeout {
                address: address.to_owned(),
                waited,
            })
        })?;
        if local.is_empty() {
            return Ok(connection);
        }
        let nearer = async {
            let opened = env.network.connect_local(&local).await;
            let opened = opened.map_err(|e| e.to_string())?;
            let nearer = over(Some(&local), opened).await;
            Ok::<_, String>(nearer.map_err(|e| e.to_string())?.0)
        };
        // What is there stays good, whoever listens under that name here.
        match timeout(waited / 3, nearer).await {
            Ok(Ok(nearer)) => return Ok(nearer),
            Ok(Err(reason)) => tracing::debug!(%address, %reason, "not by its local socket"),
            Err(_) => tracing::debug!(%address, "its local socket does not answer"),
        }
        Ok(connection)
    }

    /// A connection over a stream, and the server's local socket; `local` if that is where the
    /// stream goes.
    async fn over(
        env: &Env,
        identity: &Identity,
        address: &str,
        local: Option<&str>,
        opened: Opened,
        pool: BufferPool,
        counters: Arc<Counters>,
    ) -> Result<(Connection, String), ConnectError> {
        let queue = SendQueue::new(counters.clone());
        let mut unproven = Unproven(Some(queue.clone()));
        let (writer, linger) = (queue.clone(), env.timing.silence);
        tokio::spawn(async move { writer.write_to(opened.write, linger).await });
        let mut reader = FrameReader::new(opened.read, pool.clone(), counters.clone());
        let introduced = introduce(
            env,
            identity,
            address,
            local,
            REPLY_WINDOW,
            &mut reader,
            &queue,
        );
        let Introduced {
            welcome,
            local,
            wire,
        } = introduced.await?;
        unproven.0 = None;
        let connection = Connection(Arc::new(Inner {
            address: address.to_owned(),
            server: welcome.server,
            incarnation: welcome.incarnation,
            wire,
            queue,
            calls: Mutex::default(),
            next: AtomicU64::new(16),
            window: Semaphore::new(welcome.window as usize),
            window_total: u64::from(welcome.window),
            slots: Arc::new(Semaphore::new(welcome.calls as usize)),
            bodies: Arc::new(Semaphore::new(limits::BODIES_MAX as usize)),
            arrived: reader.arrived(),
            counters,
        }));
        connection.read_from(reader);
        tokio::spawn(keep_alive::run(
            Arc::downgrade(&connection.0),
            opened.gauge,
            env.timing,
            pool,
        ));
        Ok((connection, local))
    }

    /// Takes frames until the connection ends, which is also when the last handle to it is dropped.
    fn read_from(&self, mut reader: FrameReader) {
        let weak = Arc::downgrade(&self.0);
        let queue = self.0.queue.clone();
        tokio::spawn(async move {
            let mut closed = std::pin::pin!(queue.closed());
            let reason = loop {
                let frame = tokio::select! {
                    biased;
                    frame = reader.next() => frame,
                    reason = &mut closed => break reason,
                };
                let Some(inner) = weak.upgrade() else { return };
                let received = match frame {
                    Ok(frame) => Connection(inner).receive(frame),
                    Err(e) => {
                        if let ReadError::Tampered(_) = e {
                            let address = &inner.address;
                            tracing::warn!(%address, reason = %e, "ended a connection: its frames were tampered with");
                        }
                        Err(e.to_string())
                    }
                };
                if let Err(reason) = received {
                    break reason;
                }
            };
            if let Some(inner) = weak.upgrade() {
                Connection(inner).lose(&reason);
            }
        });
    }

    /// The server's id, if the peer is an I/O server.
    pub fn server(&self) -> Option<u32> {
        self.0.server
    }

    /// The incarnation of what the peer serves; 0: it did not say.
    pub fn incarnation(&self) -> u64 {
        self.0.incarnation
    }

    /// How the connection's frames are protected; where it goes through a local socket, their heads
    /// only.
    pub fn wire(&self) -> Wire {
        self.0.wire
    }

    /// Why the connection is of no more use, if so.
    pub fn lost(&self) -> Option<String> {
        self.calls().lost.clone()
    }

    /// One request, one reply, no payload.
    ///
    /// # Cancellation
    /// Safe: the server is told; what it did until then stays done.
    pub async fn call<C: Call>(&self, request: &C) -> Result<C::Reply, CallError> {
        let frame = self.only_frame(request).await?;
        frame.body_as().map_err(|e| self.protocol(&e.to_string()))
    }

    /// As [`Connection::call`], and what the server says of the change that the call made.
    pub async fn call_stamped<C: Call>(&self, request: &C) -> Result<(C::Reply, Stamp), CallError> {
        let frame = self.only_frame(request).await?;
        frame.stamped().map_err(|e| self.protocol(&e.to_string()))
    }

    async fn only_frame<C: Call>(&self, request: &C) -> Result<Frame, CallError> {
        let mut call = self.ask(request).await?;
        let frame = call.next().await?;
        if !frame.header.flags.has(Flags::LAST) {
            return Err(self.protocol("the reply goes on where none should"));
        }
        Ok(frame)
    }

    /// A request whose reply carries payload.
    ///
    /// # Cancellation
    /// As [`Connection::call`].
    pub async fn fetch<C: Call>(&self, request: &C) -> Result<(C::Reply, Incoming<C>), CallError> {
        let mut call = self.ask(request).await?;
        let frame = call.next().await?;
        let head = frame.body_as().map_err(|e| self.protocol(&e.to_string()))?;
        Ok((head, Incoming::new(call, frame)))
    }

    /// A request with payload of any length; `last` says that `payload` is all of it. Waits while
    /// the server grants no window.
    ///
    /// # Cancellation
    /// As [`Connection::call`].
    pub async fn send<C: Call>(
        &self,
        request: &C,
        payload: Vec<Bytes>,
        last: bool,
    ) -> Result<Outgoing<C>, CallError> {
        let bytes: usize = payload.iter().map(Bytes::len).sum();
        let body = request.encode_to_vec();
        // Small and whole: it fits the call's own window and overtakes bulk data.
        let whole = last && window_cost(bytes) <= u64::from(limits::CALL_WINDOW);
        let cost = if whole { window_cost(bytes) } else { 0 };
        let mut call = self.begin(C::KIND, body.len(), cost).await?;
        if whole {
            call.urgent(C::KIND, body, payload)?;
        } else {
            call.stream(C::KIND, body, payload, last).await?;
        }
        self.0.counters.called(C::KIND);
        Ok(Outgoing::new(call))
    }

    async fn ask<C: Call>(&self, request: &C) -> Result<OpenCall, CallError> {
        let body = request.encode_to_vec();
        let mut call = self.begin(C::KIND, body.len(), 0).await?;
        call.urgent(C::KIND, body, Vec::new())?;
        self.0.counters.called(C::KIND);
        Ok(call)
    }

    /// Waits for a place and enters the call into the table; nothing is sent yet.
    async fn begin(&self, kind: Kind, body: usize, cost: u64) -> Result<OpenCall, CallError> {
        if body > limits::BODY_MAX as usize {
            let what = format!(
                "a request of kind {} with {body} bytes exceeds the limit of {}",
                kind.name(),
                limits::BODY_MAX
            );
            return Err(CallError::Failed(Failure::new(Code::Invalid, what)));
        }
        let slot = self.0.slots.clone().acquire_owned().await;
        let slot = slot.map_err(|_| self.lost_error())?;
        let room = self.0.bodies.clone().acquire_many_owned(body as u32).await;
        let room = room.map_err(|_| self.lost_error())?;
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (frames, receiver) = mpsc::unbounded_channel();
        let credited = Arc::new(Notify::new());
        let waiting = Waiting {
            kind,
            frames: Some(frames),
            allowed: u64::from(REPLY_WINDOW),
            begun: false,
            outstanding: cost,
            credited: credited.clone(),
            _place: Place {
                _slot: slot,
                _body: room,
            },
        };
        let mut calls = self.calls();
        if let Some(reason) = &calls.lost {
            return Err(self.lost_with(reason.clone()));
        }
        calls.open.insert(id, waiting);
        Ok(OpenCall::new(self.clone(), id, receiver, credited))
    }

    fn receive(&self, frame: Frame) -> Result<(), String> {
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
        // Pongs, and what was sent before the call's failure overtook it, belong to no call.
        let Some(waiting) = calls.open.get_mut(&header.request) else {
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
            calls.open.remove(&header.request)
        } else {
            None
        };
        drop(calls);
        if let Some(frames) = frames {
            let _ = frames.send(frame);
        }
        self.forget(ended);
        Ok(())
    }

    /// The server consumed payload of a call.
    fn credited(&self, credit: Credit) -> Result<(), String> {
        let mut calls = self.calls();
        let Some(waiting) = calls.open.get_mut(&credit.request) else {
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
        self.0.window.add_permits(freed as usize);
        Ok(())
    }

    /// Frees the place and the window of a call that was taken out of the table.
    fn forget(&self, ended: Option<Waiting>) {
        if let Some(waiting) = ended {
            let freed = shared_part(waiting.outstanding);
            self.0.window.add_permits(freed as usize);
            waiting.credited.notify_one();
        }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every call on the connection and refuses new ones.
    fn lose(&self, reason: &str) {
        let mut calls = self.calls();
        calls.lost.get_or_insert_with(|| reason.to_owned());
        let ended = std::mem::take(&mut calls.open);
        drop(calls);
        self.0.queue.close(reason);
        self.0.window.close();
        self.0.slots.close();
        self.0.bodies.close();
        drop(ended);
    }

    fn control(&self, lane: Lane, kind: Kind, id: u64, body: Vec<u8>) {
        let message = Message::bare(kind, Flags::LAST, id, body);
        // On a closed queue there is nobody to tell.
        let _ = self.0.queue.control(lane, message);
    }

    fn lost_error(&self) -> CallError {
        self.lost_with(self.lost().unwrap_or_else(|| "closed".to_owned()))
    }

    fn lost_with(&self, reason: String) -> CallError {
        CallError::Lost {
            address: self.0.address.clone(),
            reason,
        }
    }

    fn protocol(&self, reason: &str) -> CallError {
        CallError::Protocol {
            address: self.0.address.clone(),
            reason: reason.to_owned(),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue.close("nobody uses the connection any more");
    }
}
