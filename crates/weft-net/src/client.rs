//! The calling side of a connection.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tokio::time::{Instant, timeout};
use weft_proto::session::{Cancel, Credit, Ping};
use weft_proto::{Call, Failure, Flags, Kind, limits, prost::Message};

use crate::counters::Counters;
use crate::env::{Env, Timing};
use crate::error::{CallError, ConnectError};
use crate::frames::{Frame, FrameReader};
use crate::handshake::{Halves, Identity, introduce};
use crate::pool::BufferPool;
use crate::queue::SendQueue;

/// Payload bytes of one reply that may be under way before the caller takes them.
const REPLY_WINDOW: u32 = 4 << 20;

/// An open, proven connection to one server. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    address: String,
    server: Option<u32>,
    queue: SendQueue,
    calls: Mutex<Calls>,
    next: AtomicU64,
    window: Semaphore,
    slots: Semaphore,
    opened: Instant,
    heard_ms: AtomicU64,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct Calls {
    open: HashMap<u64, Waiting>,
    lost: Option<String>,
}

struct Waiting {
    frames: mpsc::UnboundedSender<Frame>,
    allowed: u64,
}

/// A reply with its payload, as it arrives. Dropping it before its end cancels the call.
pub struct Incoming<C: Call> {
    call: OpenCall,
    first: Bytes,
    done: bool,
    owed: u32,
    kind: PhantomData<C>,
}

/// A call whose payload is still being sent. Dropping it before its end cancels the call.
pub struct Outgoing<C: Call> {
    call: OpenCall,
    kind: PhantomData<C>,
}

struct OpenCall {
    connection: Connection,
    id: u64,
    frames: mpsc::UnboundedReceiver<Frame>,
    finished: bool,
}

impl Connection {
    /// Opens a connection and proves both sides.
    ///
    /// # Errors
    /// [`ConnectError`], within [`Timing::connect`].
    pub async fn open(
        env: &Env,
        identity: &Identity,
        address: &str,
        pool: BufferPool,
        counters: Arc<Counters>,
    ) -> Result<Connection, ConnectError> {
        let opening = async {
            let halves =
                env.network
                    .connect(address)
                    .await
                    .map_err(|e| ConnectError::Unreachable {
                        address: address.to_owned(),
                        reason: e.to_string(),
                    })?;
            Self::over(env, identity, address, halves, pool, counters).await
        };
        let waited = env.timing.connect;
        timeout(waited, opening).await.unwrap_or_else(|_| {
            Err(ConnectError::Timeout {
                address: address.to_owned(),
                waited,
            })
        })
    }

    async fn over(
        env: &Env,
        identity: &Identity,
        address: &str,
        (read, write): Halves,
        pool: BufferPool,
        counters: Arc<Counters>,
    ) -> Result<Connection, ConnectError> {
        let queue = SendQueue::new(counters.clone());
        let writer = queue.clone();
        tokio::spawn(async move { writer.write_to(write).await });
        let mut reader = FrameReader::new(read, pool, counters.clone());
        let welcome = introduce(env, identity, address, REPLY_WINDOW, &mut reader, &queue)
            .await
            .inspect_err(|_| queue.close())?;
        let connection = Connection(Arc::new(Inner {
            address: address.to_owned(),
            server: welcome.server,
            queue,
            calls: Mutex::default(),
            next: AtomicU64::new(16),
            window: Semaphore::new(welcome.window as usize),
            slots: Semaphore::new(welcome.calls as usize),
            opened: Instant::now(),
            heard_ms: AtomicU64::new(0),
            counters,
        }));
        let weak = Arc::downgrade(&connection.0);
        tokio::spawn(async move {
            let reason = loop {
                match reader.next().await {
                    Ok(frame) => {
                        let Some(inner) = weak.upgrade() else { return };
                        if let Err(reason) = Connection(inner).receive(frame) {
                            break reason;
                        }
                    }
                    Err(e) => break e.to_string(),
                }
            };
            if let Some(inner) = weak.upgrade() {
                Connection(inner).lose(reason);
            }
        });
        tokio::spawn(keep_alive(Arc::downgrade(&connection.0), env.timing));
        Ok(connection)
    }

    /// The server's id, if the peer is an I/O server.
    pub fn server(&self) -> Option<u32> {
        self.0.server
    }

    /// Why the connection is of no more use, if so.
    pub fn lost(&self) -> Option<String> {
        self.calls().lost.clone()
    }

    /// One request, one reply, no payload.
    pub async fn call<C: Call>(&self, request: &C) -> Result<C::Reply, CallError> {
        let _slot = self.slot().await?;
        let mut call = self.begin(request, Flags::LAST, Vec::new()).await?;
        let frame = call.next().await?;
        call.finished = true;
        frame.body_as().map_err(|e| self.protocol(&e))
    }

    /// A request whose reply carries payload.
    pub async fn fetch<C: Call>(&self, request: &C) -> Result<(C::Reply, Incoming<C>), CallError> {
        let slot = self.slot().await?;
        let mut call = self.begin(request, Flags::LAST, Vec::new()).await?;
        slot.forget();
        let frame = match call.next().await {
            Ok(frame) => frame,
            Err(e) => {
                self.0.slots.add_permits(1);
                return Err(e);
            }
        };
        let done = frame.header.flags.has(Flags::LAST);
        call.finished = done;
        let incoming = Incoming {
            call,
            first: frame.payload.clone(),
            done,
            owed: 0,
            kind: PhantomData,
        };
        let head = frame.body_as().map_err(|e| self.protocol(&e))?;
        Ok((head, incoming))
    }

    /// A request with payload; `last` says that `payload` is all of it.
    pub async fn send<C: Call>(
        &self,
        request: &C,
        payload: Vec<Bytes>,
        last: bool,
    ) -> Result<Outgoing<C>, CallError> {
        let slot = self.slot().await?;
        let window = self.window(&payload).await?;
        let flags = if last { Flags::LAST } else { Flags::default() };
        let call = self.begin(request, flags, payload).await?;
        window.forget();
        slot.forget();
        Ok(Outgoing {
            call,
            kind: PhantomData,
        })
    }

    async fn slot(&self) -> Result<SemaphorePermit<'_>, CallError> {
        self.0.slots.acquire().await.map_err(|_| self.lost_error())
    }

    /// Room for this payload; forgotten once it is queued, given back if the caller gives up before.
    async fn window(&self, payload: &[Bytes]) -> Result<SemaphorePermit<'_>, CallError> {
        let bytes: usize = payload.iter().map(Bytes::len).sum();
        let permit = self.0.window.acquire_many(bytes as u32).await;
        permit.map_err(|_| self.lost_error())
    }

    async fn begin<C: Call>(
        &self,
        request: &C,
        flags: Flags,
        payload: Vec<Bytes>,
    ) -> Result<OpenCall, CallError> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (frames, receiver) = mpsc::unbounded_channel();
        {
            let mut calls = self.calls();
            if let Some(reason) = &calls.lost {
                return Err(self.lost_with(reason.clone()));
            }
            if calls.open.is_empty() {
                self.heard();
            }
            calls.open.insert(
                id,
                Waiting {
                    frames,
                    allowed: u64::from(REPLY_WINDOW),
                },
            );
        }
        self.0.counters.called(C::KIND);
        let call = OpenCall {
            connection: self.clone(),
            id,
            frames: receiver,
            finished: false,
        };
        let body = request.encode_to_vec();
        let sent = self.0.queue.send(C::KIND, flags, id, body, payload).await;
        sent.map_err(|_| self.lost_error())?;
        Ok(call)
    }

    fn receive(&self, frame: Frame) -> Result<(), String> {
        self.heard();
        let header = frame.header;
        if header.kind == Kind::Credit {
            let credit: Credit = frame.body_as().map_err(|e| e.to_string())?;
            self.0.window.add_permits(credit.bytes as usize);
            return Ok(());
        }
        if !header.flags.has(Flags::REPLY) {
            return Err(format!(
                "the server sent a request of kind {}",
                header.kind.name()
            ));
        }
        let mut calls = self.calls();
        // A call that was cancelled here may still be answered: such frames are dropped.
        let Some(waiting) = calls.open.get_mut(&header.request) else {
            return Ok(());
        };
        let bytes = u64::from(header.payload_len);
        if bytes > waiting.allowed {
            return Err("the server sent more of a reply than it was allowed".to_owned());
        }
        waiting.allowed -= bytes;
        let _ = waiting.frames.send(frame);
        if header.flags.has(Flags::LAST) {
            calls.open.remove(&header.request);
        }
        Ok(())
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, Calls> {
        self.0.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn heard(&self) {
        let ms = self.0.opened.elapsed().as_millis() as u64;
        self.0.heard_ms.store(ms, Ordering::Relaxed);
    }

    /// Ends every call on the connection and refuses new ones.
    pub(crate) fn lose(&self, reason: String) {
        let mut calls = self.calls();
        if calls.lost.is_none() {
            calls.lost = Some(reason);
        }
        calls.open.clear();
        drop(calls);
        self.0.queue.close();
        self.0.window.close();
        self.0.slots.close();
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

    fn protocol(&self, error: &impl ToString) -> CallError {
        CallError::Protocol {
            address: self.0.address.clone(),
            reason: error.to_string(),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl OpenCall {
    async fn next(&mut self) -> Result<Frame, CallError> {
        let Some(frame) = self.frames.recv().await else {
            self.finished = true;
            return Err(self.connection.lost_error());
        };
        if frame.header.flags.has(Flags::FAILED) {
            self.finished = true;
            let failure: Failure = frame.body_as().map_err(|e| self.connection.protocol(&e))?;
            return Err(CallError::Failed(failure));
        }
        Ok(frame)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let open = self.connection.calls().open.remove(&self.id).is_some();
        if open && !self.finished {
            let body = Cancel { request: self.id }.encode_to_vec();
            let _ = self
                .connection
                .0
                .queue
                .send_now(Kind::Cancel, Flags::LAST, self.id, body);
        }
    }
}

impl<C: Call> Incoming<C> {
    /// The next bytes of the payload; `None` at its end.
    ///
    /// # Cancellation
    /// Safe: no bytes are lost.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            self.took(first.len());
            return Ok(Some(first));
        }
        while !self.done {
            let frame = self.call.next().await?;
            self.done = frame.header.flags.has(Flags::LAST);
            self.call.finished = self.done;
            if !frame.payload.is_empty() {
                self.took(frame.payload.len());
                return Ok(Some(frame.payload));
            }
        }
        Ok(None)
    }

    fn took(&mut self, bytes: usize) {
        self.owed += bytes as u32;
        if self.owed < REPLY_WINDOW / 4 || self.done {
            return;
        }
        let connection = &self.call.connection;
        if let Some(waiting) = connection.calls().open.get_mut(&self.call.id) {
            waiting.allowed += u64::from(self.owed);
        }
        let body = Credit {
            bytes: self.owed,
            request: self.call.id,
        }
        .encode_to_vec();
        let _ = connection
            .0
            .queue
            .send_now(Kind::Credit, Flags::LAST, self.call.id, body);
        self.owed = 0;
    }
}

impl<C: Call> Drop for Incoming<C> {
    fn drop(&mut self) {
        self.call.connection.0.slots.add_permits(1);
    }
}

impl<C: Call> Outgoing<C> {
    /// Sends more of the payload, at most [`limits::PAYLOAD_MAX`] bytes; `last` says that it is the end.
    /// Waits while the server grants no window.
    pub async fn more(&mut self, payload: Vec<Bytes>, last: bool) -> Result<(), CallError> {
        debug_assert!(
            payload.iter().map(Bytes::len).sum::<usize>() <= limits::PAYLOAD_MAX as usize
        );
        let connection = &self.call.connection;
        let window = connection.window(&payload).await?;
        let flags = if last { Flags::LAST } else { Flags::default() };
        let sent = connection
            .0
            .queue
            .send(Kind::Data, flags, self.call.id, Vec::new(), payload);
        sent.await.map_err(|_| connection.lost_error())?;
        window.forget();
        Ok(())
    }

    /// Whether the server has already answered (it failed): sending more is of no use.
    pub fn answered(&self) -> bool {
        !self.call.frames.is_empty() || self.call.frames.is_closed()
    }

    /// The reply.
    pub async fn reply(mut self) -> Result<C::Reply, CallError> {
        let frame = self.call.next().await?;
        self.call.finished = true;
        frame
            .body_as()
            .map_err(|e| self.call.connection.protocol(&e))
    }
}

impl<C: Call> Drop for Outgoing<C> {
    fn drop(&mut self) {
        self.call.connection.0.slots.add_permits(1);
    }
}

/// Pings while answers are awaited, and now and then otherwise; declares the connection lost after silence.
async fn keep_alive(weak: std::sync::Weak<Inner>, timing: Timing) {
    let mut quiet = 0;
    loop {
        tokio::time::sleep(timing.ping).await;
        let Some(inner) = weak.upgrade() else { return };
        let connection = Connection(inner);
        let (waiting, lost) = {
            let calls = connection.calls();
            (!calls.open.is_empty(), calls.lost.is_some())
        };
        if lost {
            return;
        }
        quiet += 1;
        let rounds = timing.idle.as_millis() / timing.ping.as_millis().max(1) / 3;
        if !waiting && quiet < rounds {
            continue;
        }
        quiet = 0;
        let inner = &connection.0;
        let now = inner.opened.elapsed().as_millis() as u64;
        let silent = now.saturating_sub(inner.heard_ms.load(Ordering::Relaxed));
        if waiting && u128::from(silent) > timing.silence.as_millis() {
            connection.lose(format!("no answer for {} ms", silent));
            return;
        }
        if !waiting {
            connection.heard();
        }
        // The pong only has to arrive: `receive` notes that the server was heard.
        let id = inner.next.fetch_add(1, Ordering::Relaxed);
        inner.counters.called(Kind::Ping);
        let _ = inner
            .queue
            .send_now(Ping::KIND, Flags::LAST, id, Vec::new());
    }
}
