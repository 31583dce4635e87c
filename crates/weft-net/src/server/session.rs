//! One accepted connection, from its first byte to its last.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use weft_proto::session::{Cancel, Credit};
use weft_proto::{Flags, FrameError, Kind};

use super::call::{Payload, Reply, Served};
use super::wire::Wire;
use super::young::YoungCalls;
use super::{Bounds, Service};
use crate::counters::Counters;
use crate::env::Env;
use crate::frames::{Frame, FrameReader};
use crate::handshake::{Door, Halves, Identity, Peer, receive, turn_away};
use crate::pool::BufferPool;
use crate::queue::{Lane, Message, SendQueue};

pub(super) struct Accepting {
    pub(super) env: Env,
    pub(super) identity: Arc<Identity>,
    pub(super) server: Option<u32>,
    pub(super) bounds: Bounds,
    pub(super) service: Arc<dyn Service>,
    pub(super) counters: Arc<Counters>,
    pub(super) pool: BufferPool,
    /// The server's local socket; empty: it has none.
    pub(super) local: Arc<str>,
    pub(super) came_locally: bool,
}

/// Closes the queue however the handling of a connection ends.
struct Closing(SendQueue);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close("the connection has ended");
    }
}

/// Tells calls and service that a connection has ended, however it ends.
struct Session {
    service: Arc<dyn Service>,
    peer: Arc<Peer>,
    wire: Arc<Wire>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.wire.close("the connection has ended");
        self.service.closed(&self.peer);
    }
}

impl Accepting {
    /// Serves the connection to its end, which is when the last frames were written or given up.
    pub(super) async fn run(self, (read, write): Halves, address: String) {
        let queue = SendQueue::new(self.counters.clone());
        let (writer, linger) = (queue.clone(), self.env.timing.silence);
        let writing = tokio::spawn(async move { writer.write_to(write, linger).await });
        let closing = Closing(queue.clone());
        let reader = FrameReader::new(read, self.pool.clone(), self.counters.clone());
        self.serve(reader, queue, address).await;
        drop(closing);
        let _ = writing.await;
    }

    /// Says that there is no place.
    pub(super) async fn turn_away(self, (read, write): Halves) {
        let queue = SendQueue::new(self.counters.clone());
        let mut reader = FrameReader::new(read, self.pool.clone(), self.counters.clone());
        let connect = self.env.timing.connect;
        let _ = timeout(connect, turn_away(&mut reader, &queue)).await;
        queue.close("no place");
        queue.write_to(write, connect).await;
    }

    async fn serve(&self, mut reader: FrameReader, queue: SendQueue, address: String) {
        let door = Door {
            address: address.clone(),
            local: &self.local,
            came_locally: self.came_locally,
        };
        let proving = receive(
            &self.env,
            &self.identity,
            (self.server, self.service.incarnation()),
            &self.bounds,
            door,
            &mut reader,
            &queue,
        );
        let (peer, reply_window) = match timeout(self.env.timing.connect, proving).await {
            Ok(Ok(proven)) => proven,
            Ok(Err(reason)) => {
                tracing::warn!(%address, %reason, "refused a connection");
                return;
            }
            Err(_) => {
                tracing::warn!(%address, "refused a connection: it proved no key in time");
                return;
            }
        };
        let peer = Arc::new(peer);
        self.service.opened(&peer);
        reader.land_in(self.service.landing());
        let session = Session {
            service: self.service.clone(),
            peer: peer.clone(),
            wire: Arc::new(Wire::new(queue.clone(), self.bounds, reply_window)),
        };
        let mut calls = YoungCalls::default();
        let mut closed = pin!(queue.closed());
        let reason = loop {
            let frame = tokio::select! {
                biased;
                frame = next_frame(self.env.timing.idle, &mut reader, &mut calls) => frame,
                reason = &mut closed => break reason,
            };
            let taken = frame.and_then(|frame| self.receive(&session.wire, &peer, frame, &calls));
            if let Err(reason) = taken {
                break reason;
            }
        };
        tracing::debug!(%address, %reason, "connection ended");
    }

    /// Takes one frame; never waits, so that credits and cancels are always heard.
    fn receive(
        &self,
        wire: &Arc<Wire>,
        peer: &Arc<Peer>,
        frame: Frame,
        calls: &YoungCalls,
    ) -> Result<(), String> {
        let header = frame.header;
        let text = |e: FrameError| e.to_string();
        if header.flags.has(Flags::REPLY) || header.flags.has(Flags::FAILED) {
            return Err("a client sent a reply".to_owned());
        }
        match header.kind {
            Kind::Ping | Kind::Credit | Kind::Cancel if !frame.payload.is_empty() => {
                return Err(format!("{} carries payload", header.kind.name()));
            }
            Kind::Ping => {
                let flags = Flags::REPLY.with(Flags::LAST);
                let pong = Message::bare(Kind::Ping, flags, header.request, Vec::new());
                // Whoever floods the connection keeps its reader busy: that the queue was closed is seen here, not by waiting.
                let queued = wire.queue.control(Lane::Urgent, pong);
                queued.map_err(|_| "it is closed".to_owned())?;
            }
            Kind::Credit => wire.credited(frame.body_as::<Credit>().map_err(text)?)?,
            Kind::Cancel => wire.cancel(frame.body_as::<Cancel>().map_err(text)?.request),
            Kind::Data => {
                let last = header.flags.has(Flags::LAST);
                wire.data(header.request, frame.into_chunk(), last)?;
            }
            Kind::Hello | Kind::Proof => return Err("a second handshake".to_owned()),
            _ => return self.begin(wire, peer, frame, calls),
        }
        Ok(())
    }

    fn begin(
        &self,
        wire: &Arc<Wire>,
        peer: &Arc<Peer>,
        frame: Frame,
        calls: &YoungCalls,
    ) -> Result<(), String> {
        let (kind, id) = (frame.header.kind, frame.header.request);
        let last = frame.header.flags.has(Flags::LAST);
        let body = frame.body.clone();
        let (chunks, flow) = wire.begin(id, body.len(), frame.into_chunk(), last)?;
        self.counters.called(kind);
        let call = Served {
            kind,
            id,
            peer: peer.clone(),
            payload: Payload::new(wire.clone(), id, flow.clone(), chunks),
            reply: Reply::new(kind, id, wire.clone(), flow.clone()),
            body,
        };
        let brief = self.service.is_brief(kind);
        let call = self.service.clone().serve(call);
        if brief {
            calls.begin(call, flow);
        } else {
            tokio::spawn(call);
        }
        Ok(())
    }
}

/// The next frame; until it is here, calls go on.
///
/// # Cancellation
/// As [`FrameReader::next`].
async fn next_frame(
    idle: Duration,
    reader: &mut FrameReader,
    calls: &mut YoungCalls,
) -> Result<Frame, String> {
    let mut frame = pin!(timeout(idle, reader.next()));
    loop {
        tokio::select! {
            biased;
            // First: each is few steps, while a flood of frames has no end.
            () = calls.next() => {}
            frame = &mut frame => {
                return match frame {
                    Ok(frame) => frame.map_err(|error| error.to_string()),
                    Err(_) => Err("silent for too long".to_owned()),
                };
            }
        }
    }
}
