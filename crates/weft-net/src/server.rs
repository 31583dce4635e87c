//! The serving side: accepts, proves, and hands each call to a [`Service`].

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use weft_proto::session::{Cancel, Credit};
use weft_proto::{Call, Code, Failure, Flags, FrameError, Kind, body_from, prost::Message};

use crate::counters::Counters;
use crate::env::{Env, Listener};
use crate::frames::{Frame, FrameReader};
use crate::handshake::{Halves, Identity, Peer, receive};
use crate::pool::BufferPool;
use crate::queue::SendQueue;

/// What one connection may cost, and how many there may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Payload bytes a client may have sent that are not yet consumed.
    pub window: u32,
    /// Calls a client may have in flight.
    pub calls: u32,
    /// Connections; more are refused.
    pub connections: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            window: 2 << 20,
            calls: 256,
            connections: 1024,
        }
    }
}

/// What serves calls.
pub trait Service: Send + Sync + 'static {
    /// Serves one call; answers through [`Served::reply`].
    fn serve(self: Arc<Self>, call: Served) -> BoxFuture<'static, ()>;
    /// A connection was proven.
    fn opened(&self, peer: &Peer);
    /// A connection has ended.
    fn closed(&self, peer: &Peer);
}

/// A call as it arrived.
pub struct Served {
    /// Which call.
    pub kind: Kind,
    /// Its number on its connection, for traces.
    pub id: u64,
    /// Who calls.
    pub peer: Arc<Peer>,
    /// Its payload.
    pub payload: Payload,
    /// The way back.
    pub reply: Reply,
    body: Bytes,
}

impl Served {
    /// Decodes the request.
    pub fn request<C: Call>(&self) -> Result<C, FrameError> {
        body_from(self.kind, &self.body)
    }
}

/// The payload of a call, as it arrives.
pub struct Payload {
    chunks: mpsc::UnboundedReceiver<Bytes>,
    wire: Arc<Wire>,
    held: u32,
}

/// The way back to the caller. Dropped without an answer, it says that the service failed.
pub struct Reply {
    kind: Kind,
    id: u64,
    wire: Arc<Wire>,
    flow: Arc<Flow>,
    begun: bool,
    answered: bool,
}

/// The caller is gone or no longer wants the answer.
#[derive(Clone, Copy, Debug)]
pub struct Gone;

/// What all calls of a connection share.
struct Wire {
    queue: SendQueue,
    calls: Mutex<HashMap<u64, Open>>,
    window_used: AtomicU64,
    /// Jobs that may run, those of cancelled calls included.
    jobs: Arc<Semaphore>,
}

struct Open {
    payload: Option<mpsc::UnboundedSender<Bytes>>,
    flow: Arc<Flow>,
}

/// Whether a call's reply may go on.
struct Flow {
    room: Semaphore,
    cancelled: AtomicBool,
}

impl Wire {
    fn calls(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Open>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, bytes: u32) {
        if bytes > 0 {
            self.window_used
                .fetch_sub(u64::from(bytes), Ordering::AcqRel);
            let body = Credit { bytes, request: 0 }.encode_to_vec();
            let _ = self
                .queue
                .send_now(Kind::Credit, Flags::REPLY.with(Flags::LAST), 0, body);
        }
    }
}

impl Payload {
    /// The next bytes; `None` at the end, also when the caller is gone before it.
    pub async fn next(&mut self) -> Option<Bytes> {
        let chunk = self.chunks.recv().await?;
        self.held += chunk.len() as u32;
        Some(chunk)
    }

    /// Lets the client send as much again as was taken so far: call it when that memory is free.
    pub fn release(&mut self) {
        self.wire.give_back(std::mem::take(&mut self.held));
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.chunks.close();
        while let Ok(chunk) = self.chunks.try_recv() {
            self.held += chunk.len() as u32;
        }
        self.release();
    }
}

impl Reply {
    /// Answers with a body and no payload.
    pub fn done<M: Message>(mut self, reply: &M) {
        self.end();
        let flags = Flags::REPLY.with(Flags::LAST);
        let _ = self
            .wire
            .queue
            .send_now(self.kind, flags, self.id, reply.encode_to_vec());
    }

    /// Answers with an error; also in the middle of a stream.
    pub fn fail(mut self, failure: &Failure) {
        self.end();
        self.send_failure(failure);
    }

    /// Begins a reply that carries payload; `last` if `payload` is all of it.
    pub async fn head<M: Message>(
        &mut self,
        reply: &M,
        payload: Vec<Bytes>,
        last: bool,
    ) -> Result<(), Gone> {
        self.begun = true;
        self.send(self.kind, reply.encode_to_vec(), payload, last)
            .await
    }

    /// Sends more of the payload; waits while the client grants no room.
    pub async fn data(&mut self, payload: Vec<Bytes>, last: bool) -> Result<(), Gone> {
        debug_assert!(self.begun, "a reply begins with its head");
        self.send(Kind::Data, Vec::new(), payload, last).await
    }

    /// Whether nobody waits for the answer any more.
    pub fn cancelled(&self) -> bool {
        self.flow.cancelled.load(Ordering::Acquire)
    }

    async fn send(
        &mut self,
        kind: Kind,
        body: Vec<u8>,
        payload: Vec<Bytes>,
        last: bool,
    ) -> Result<(), Gone> {
        let bytes: usize = payload.iter().map(Bytes::len).sum();
        if bytes > 0 {
            let permit = self
                .flow
                .room
                .acquire_many(bytes as u32)
                .await
                .map_err(|_| Gone)?;
            permit.forget();
        }
        if self.cancelled() {
            return Err(Gone);
        }
        let flags = if last {
            Flags::REPLY.with(Flags::LAST)
        } else {
            Flags::REPLY
        };
        if last {
            self.end();
        }
        let sent = self
            .wire
            .queue
            .send(kind, flags, self.id, body, payload)
            .await;
        sent.map_err(|_| Gone)
    }

    /// The call's place is free before its answer leaves, because the client may use it at once.
    fn end(&mut self) {
        self.answered = true;
        self.wire.calls().remove(&self.id);
    }

    fn send_failure(&self, failure: &Failure) {
        let flags = Flags::REPLY.with(Flags::LAST).with(Flags::FAILED);
        let _ = self
            .wire
            .queue
            .send_now(self.kind, flags, self.id, failure.encode_to_vec());
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.answered || self.cancelled() {
            return;
        }
        self.end();
        let what = format!(
            "the server gave no answer to {}; see its log",
            self.kind.name()
        );
        self.send_failure(&Failure::new(Code::Internal, what));
    }
}

/// Accepts connections until `stop` completes, then closes them all.
#[allow(clippy::too_many_arguments)] // one call site per endpoint; a builder would only rename them
pub async fn serve(
    env: Env,
    mut listener: Box<dyn Listener>,
    identity: Identity,
    server: Option<u32>,
    bounds: Bounds,
    service: Arc<dyn Service>,
    counters: Arc<Counters>,
    stop: impl Future<Output = ()>,
) {
    let identity = Arc::new(identity);
    let places = Arc::new(Semaphore::new(bounds.connections));
    let pool = BufferPool::default();
    let mut connections = tokio::task::JoinSet::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        let (read, write, address) = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                // Out of descriptors, most likely: those in use go on, and one will be free.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(env.timing.backoff).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!(%address, limit = bounds.connections, "refused: too many connections");
            continue;
        };
        let accepting = Accepting {
            env: env.clone(),
            identity: identity.clone(),
            server,
            bounds,
            service: service.clone(),
            counters: counters.clone(),
            pool: pool.clone(),
        };
        connections.spawn(async move {
            accepting.run((read, write), address).await;
            drop(place);
        });
    }
    connections.shutdown().await;
}

struct Accepting {
    env: Env,
    identity: Arc<Identity>,
    server: Option<u32>,
    bounds: Bounds,
    service: Arc<dyn Service>,
    counters: Arc<Counters>,
    pool: BufferPool,
}

/// Tells the service that a connection has ended, however it ends.
struct Session {
    service: Arc<dyn Service>,
    peer: Arc<Peer>,
    wire: Arc<Wire>,
}

impl Drop for Session {
    fn drop(&mut self) {
        for open in self.wire.calls().values() {
            open.flow.cancelled.store(true, Ordering::Release);
            open.flow.room.close();
        }
        for open in self.wire.calls().values_mut() {
            open.payload = None;
        }
        self.wire.queue.close();
        self.service.closed(&self.peer);
    }
}

impl Accepting {
    async fn run(self, (read, write): Halves, address: String) {
        let queue = SendQueue::new(self.counters.clone());
        let writer = queue.clone();
        tokio::spawn(async move { writer.write_to(write).await });
        let mut reader = FrameReader::new(read, self.pool.clone(), self.counters.clone());
        let proving = receive(
            &self.env,
            &self.identity,
            self.server,
            &self.bounds,
            address.clone(),
            &mut reader,
            &queue,
        );
        let (peer, reply_window) = match timeout(self.env.timing.connect, proving).await {
            Ok(Ok(proven)) => proven,
            Ok(Err(reason)) => {
                tracing::warn!(%address, %reason, "refused a connection");
                queue.close();
                return;
            }
            Err(_) => {
                tracing::warn!(%address, "refused a connection: it proved no key in time");
                queue.close();
                return;
            }
        };
        let peer = Arc::new(peer);
        self.service.opened(&peer);
        let wire = Arc::new(Wire {
            queue,
            calls: Mutex::default(),
            window_used: AtomicU64::new(0),
            jobs: Arc::new(Semaphore::new(2 * self.bounds.calls as usize)),
        });
        let session = Session {
            service: self.service.clone(),
            peer: peer.clone(),
            wire: wire.clone(),
        };
        let reason = loop {
            match timeout(self.env.timing.idle, reader.next()).await {
                Ok(Ok(frame)) => {
                    if let Err(reason) = self.receive(&wire, &peer, reply_window, frame) {
                        break reason;
                    }
                }
                Ok(Err(error)) => break error.to_string(),
                Err(_) => break "silent for too long".to_owned(),
            }
        };
        tracing::debug!(%address, %reason, "connection ended");
        drop(session);
    }

    fn receive(
        &self,
        wire: &Arc<Wire>,
        peer: &Arc<Peer>,
        reply_window: u32,
        frame: Frame,
    ) -> Result<(), String> {
        let header = frame.header;
        let text = |e: FrameError| e.to_string();
        if header.flags.has(Flags::REPLY) {
            return Err("a client sent a reply".to_owned());
        }
        let bytes = u64::from(header.payload_len);
        let used = wire.window_used.fetch_add(bytes, Ordering::AcqRel) + bytes;
        if used > u64::from(self.bounds.window) {
            return Err("the client sent more payload than it was granted".to_owned());
        }
        match header.kind {
            Kind::Ping => {
                let flags = Flags::REPLY.with(Flags::LAST);
                let _ = wire
                    .queue
                    .send_now(Kind::Ping, flags, header.request, Vec::new());
                wire.give_back(header.payload_len);
            }
            Kind::Credit => {
                let credit: Credit = frame.body_as().map_err(text)?;
                if let Some(open) = wire.calls().get(&credit.request) {
                    let room = open.flow.room.available_permits() + credit.bytes as usize;
                    if room > Semaphore::MAX_PERMITS / 2 {
                        return Err("the client credits more than any reply needs".to_owned());
                    }
                    open.flow.room.add_permits(credit.bytes as usize);
                }
            }
            Kind::Cancel => {
                let cancel: Cancel = frame.body_as().map_err(text)?;
                if let Some(open) = wire.calls().remove(&cancel.request) {
                    open.flow.cancelled.store(true, Ordering::Release);
                    open.flow.room.close();
                }
            }
            Kind::Data => {
                let mut calls = wire.calls();
                let open = calls.get_mut(&header.request);
                let taken = open.is_some_and(|open| {
                    let taken = open
                        .payload
                        .as_ref()
                        .is_some_and(|p| p.send(frame.payload).is_ok());
                    if header.flags.has(Flags::LAST) {
                        open.payload = None;
                    }
                    taken
                });
                drop(calls);
                if !taken {
                    // The call failed before all its data came: what comes still is dropped.
                    wire.give_back(header.payload_len);
                }
            }
            Kind::Hello | Kind::Proof => return Err("a second handshake".to_owned()),
            _ => return self.begin(wire, peer, reply_window, frame),
        }
        Ok(())
    }

    fn begin(
        &self,
        wire: &Arc<Wire>,
        peer: &Arc<Peer>,
        reply_window: u32,
        frame: Frame,
    ) -> Result<(), String> {
        let header = frame.header;
        let Ok(job) = wire.jobs.clone().try_acquire_owned() else {
            return Err("the client cancels calls faster than they end".to_owned());
        };
        let (sender, chunks) = mpsc::unbounded_channel();
        let flow = Arc::new(Flow {
            room: Semaphore::new(reply_window as usize),
            cancelled: AtomicBool::new(false),
        });
        if !frame.payload.is_empty() {
            let _ = sender.send(frame.payload);
        }
        let payload = (!header.flags.has(Flags::LAST)).then_some(sender);
        {
            let mut calls = wire.calls();
            if calls.len() >= self.bounds.calls as usize {
                return Err("the client has more calls in flight than it was granted".to_owned());
            }
            let open = Open {
                payload,
                flow: flow.clone(),
            };
            if calls.insert(header.request, open).is_some() {
                return Err("the client used a request id twice".to_owned());
            }
        }
        self.counters.called(header.kind);
        let reply = Reply {
            kind: header.kind,
            id: header.request,
            wire: wire.clone(),
            flow,
            begun: false,
            answered: false,
        };
        let call = Served {
            kind: header.kind,
            id: header.request,
            peer: peer.clone(),
            payload: Payload {
                chunks,
                wire: wire.clone(),
                held: 0,
            },
            reply,
            body: frame.body,
        };
        let serving = self.service.clone().serve(call);
        tokio::spawn(async move {
            serving.await;
            drop(job);
        });
        Ok(())
    }
}
