//! A connection and its calls.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::timeout;
use weft_proto::limits::{self, window_cost};
use weft_proto::session::Wire;
use weft_proto::stamp::Stamp;
use weft_proto::{Call, Flags};

use super::call::OpenCall;
use super::call_table::CallTable;
use super::incoming::Incoming;
use super::keep_alive;
use super::outgoing::Outgoing;
use crate::buffers::BufferPool;
use crate::counters::Counters;
use crate::env::Env;
use crate::error::{CallError, ConnectError, ReadError};
use crate::framing::{Frame, FrameReader};
use crate::handshake::{Greeting, handshake_as_client};
use crate::identity::Identity;
use crate::limits::REPLY_WINDOW;
use crate::send_queue::SendQueue;
use crate::transport::Opened;

/// An open, authenticated connection to one server. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Connection {
    calls: Arc<CallTable>,
    server: Option<u32>,
    incarnation: u64,
    wire: Wire,
    local: bool,
}

/// Closes the queue, and with it the stream, of a connection whose handshake is cancelled or fails.
struct Handshaking(Option<SendQueue>);

impl Drop for Handshaking {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.close("the handshake was cancelled");
        }
    }
}

impl Connection {
    /// Opens a connection and authenticates both sides; to a server of this machine through its
    /// local socket (`docs/design/0016-local-sockets.md`).
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
        let connect = |local, opened| {
            let (pool, counters) = (pool.clone(), counters.clone());
            Self::connect(env, identity, address, local, opened, pool, counters)
        };
        let opening = async {
            let opened = env.network.connect(address).await;
            let opened = opened.map_err(|e| ConnectError::Unreachable {
                address: address.to_owned(),
                reason: e.to_string(),
            })?;
            connect(None, opened).await
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
        let over_local = async {
            let opened = env.network.connect_local(&local).await;
            let opened = opened.map_err(|e| e.to_string())?;
            let connected = connect(Some(&local), opened).await;
            Ok::<_, String>(connected.map_err(|e| e.to_string())?.0)
        };
        // The first connection stays good, whatever listens under that name here.
        match timeout(waited / 3, over_local).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(reason)) => tracing::debug!(%address, %reason, "cannot use the local socket"),
            Err(_) => tracing::debug!(%address, "the local socket does not answer"),
        }
        Ok(connection)
    }

    /// Makes a connection of a stream; returns also the server's local socket. `local` is that
    /// socket if the stream goes there.
    async fn connect(
        env: &Env,
        identity: &Identity,
        address: &str,
        local: Option<&str>,
        opened: Opened,
        pool: BufferPool,
        counters: Arc<Counters>,
    ) -> Result<(Connection, String), ConnectError> {
        let over_local = local.is_some();
        let queue = SendQueue::new(counters.clone());
        let mut handshaking = Handshaking(Some(queue.clone()));
        let (writer, close_grace) = (queue.clone(), env.timing.silence);
        tokio::spawn(async move { writer.write_to(opened.write, close_grace).await });
        let mut reader = FrameReader::new(opened.read, pool.clone(), counters.clone());
        let greeting = handshake_as_client(
            env,
            identity,
            address,
            local,
            REPLY_WINDOW,
            &mut reader,
            &queue,
        );
        let Greeting {
            welcome,
            local,
            wire,
        } = greeting.await?;
        handshaking.0 = None;
        let calls = Arc::new(CallTable::new(address, &welcome, queue, counters));
        let keep_alive = keep_alive::run(
            Arc::downgrade(&calls),
            reader.arrived(),
            opened.gauge,
            env.timing,
            pool,
        );
        read_frames(&calls, reader);
        tokio::spawn(keep_alive);
        let connection = Connection {
            calls,
            server: welcome.server,
            incarnation: welcome.incarnation,
            wire,
            local: over_local,
        };
        Ok((connection, local))
    }

    /// The server's id, if the peer is an I/O server.
    pub fn server(&self) -> Option<u32> {
        self.server
    }

    /// The incarnation of what the peer serves; 0: unknown.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// How frames are protected; over a local socket only their heads are.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Why the connection was lost, if it was.
    pub fn lost(&self) -> Option<String> {
        self.calls.lost()
    }

    /// One request, one reply, no payload.
    ///
    /// # Cancellation
    /// Safe: the server is told to cancel; what it did until then stays done.
    pub async fn call<C: Call>(&self, request: &C) -> Result<C::Reply, CallError> {
        let frame = self.only_frame(request).await?;
        frame
            .body_as()
            .map_err(|e| self.calls.protocol_error(&e.to_string()))
    }

    /// As [`Connection::call`], with the stamp of the change that the call made.
    pub async fn call_stamped<C: Call>(&self, request: &C) -> Result<(C::Reply, Stamp), CallError> {
        let frame = self.only_frame(request).await?;
        frame
            .stamped()
            .map_err(|e| self.calls.protocol_error(&e.to_string()))
    }

    /// As [`Connection::call_stamped`]; calls `handed_over` as soon as the whole request is in the
    /// receive queue of the server's socket. There it outlives this process. Only over a local
    /// socket: what the kernel sends over a network can be lost when a process is killed.
    pub async fn call_handed_over<C: Call>(
        &self,
        request: &C,
        handed_over: impl FnOnce(),
    ) -> Result<(C::Reply, Stamp), CallError> {
        let mut call = self.request(request).await?;
        let mut answer = pin!(self.last_frame(&mut call));
        let written = async {
            if self.local {
                self.calls.queue().written().await
            } else {
                false
            }
        };
        let frame = tokio::select! {
            biased;
            is_written = written => {
                if is_written {
                    handed_over();
                }
                answer.await?
            }
            // Other frames may keep the queue from ever being empty.
            frame = &mut answer => frame?,
        };
        frame
            .stamped()
            .map_err(|e| self.calls.protocol_error(&e.to_string()))
    }

    async fn only_frame<C: Call>(&self, request: &C) -> Result<Frame, CallError> {
        let mut call = self.request(request).await?;
        self.last_frame(&mut call).await
    }

    async fn last_frame(&self, call: &mut OpenCall) -> Result<Frame, CallError> {
        let frame = call.next().await?;
        if !frame.header.flags.has(Flags::LAST) {
            return Err(self
                .calls
                .protocol_error("unexpected continuation of the reply"));
        }
        Ok(frame)
    }

    /// A request whose reply carries payload.
    ///
    /// # Cancellation
    /// As [`Connection::call`].
    pub async fn fetch<C: Call>(&self, request: &C) -> Result<(C::Reply, Incoming<C>), CallError> {
        let mut call = self.request(request).await?;
        let frame = call.next().await?;
        let head = frame
            .body_as()
            .map_err(|e| self.calls.protocol_error(&e.to_string()))?;
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
        let mut call = OpenCall::begin(&self.calls, C::KIND, body.len(), cost).await?;
        if whole {
            call.urgent(C::KIND, body, payload)?;
        } else {
            call.stream(C::KIND, body, payload, last).await?;
        }
        self.calls.count(C::KIND);
        Ok(Outgoing::new(call))
    }

    async fn request<C: Call>(&self, request: &C) -> Result<OpenCall, CallError> {
        let body = request.encode_to_vec();
        let mut call = OpenCall::begin(&self.calls, C::KIND, body.len(), 0).await?;
        call.urgent(C::KIND, body, Vec::new())?;
        self.calls.count(C::KIND);
        Ok(call)
    }
}

/// Spawns a task that handles frames until the connection ends, which is also when the last handle
/// to it is dropped.
fn read_frames(calls: &Arc<CallTable>, mut reader: FrameReader) {
    let weak = Arc::downgrade(calls);
    let queue = calls.queue().clone();
    tokio::spawn(async move {
        let mut closed = pin!(queue.closed());
        let reason = loop {
            let frame = tokio::select! {
                biased;
                frame = reader.next() => frame,
                reason = &mut closed => break reason,
            };
            let Some(calls) = weak.upgrade() else { return };
            let received = match frame {
                Ok(frame) => calls.receive(frame),
                Err(e) => {
                    if let ReadError::Tampered(_) = e {
                        let address = calls.address();
                        tracing::warn!(%address, reason = %e, "ended a connection: its frames were tampered with");
                    }
                    Err(e.to_string())
                }
            };
            if let Err(reason) = received {
                break reason;
            }
        };
        if let Some(calls) = weak.upgrade() {
            calls.lose(&reason);
        }
    });
}
