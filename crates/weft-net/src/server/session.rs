//! One accepted connection, from its first byte to its last.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;
use weft_proto::session::{Cancel, Credit};
use weft_proto::{Flags, FrameError, Kind};

use super::call::{Payload, Reply, Served};
use super::wire::Wire;
use super::young::YoungCalls;
use super::{Bounds, Guest, Service, Windows};
use crate::counters::Counters;
use crate::env::Env;
use crate::error::ReadError;
use crate::frames::{Frame, FrameReader};
use crate::handshake::{Door, Halves, Identity, Peer, Proven, receive, turn_away};
use crate::pool::BufferPool;
use crate::queue::{Lane, Message, SendQueue};
use crate::quiet::Quiet;

/// What all connections of a server share.
pub(super) struct Hall {
    pub(super) env: Env,
    pub(super) identity: Identity,
    pub(super) server: Option<u32>,
    pub(super) bounds: Bounds,
    pub(super) service: Arc<dyn Service>,
    pub(super) counters: Arc<Counters>,
    pub(super) pool: BufferPool,
    /// The server's local socket; empty: it has none.
    pub(super) local: String,
    /// Those of proven connections.
    pub(super) places: Arc<Semaphore>,
    pub(super) windows: Arc<Windows>,
    /// Lines about connections that were refused.
    pub(super) refused: Quiet,
    /// Lines about connections whose frames were tampered with.
    pub(super) tampered: Quiet,
}

pub(super) struct Accepting {
    pub(super) hall: Arc<Hall>,
    pub(super) address: String,
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
    pub(super) async fn run(self, (read, write): Halves, guest: Guest) {
        let hall = &self.hall;
        let queue = SendQueue::new(hall.counters.clone());
        let (writer, linger) = (queue.clone(), hall.env.timing.silence);
        let writing = tokio::spawn(async move { writer.write_to(write, linger).await });
        let closing = Closing(queue.clone());
        let mut reader = FrameReader::new(read, hall.pool.clone(), hall.counters.clone());
        match self.prove(&mut reader, &queue, guest).await {
            Ok(proven) => self.serve(proven, reader, queue).await,
            Err(reason) => {
                if let Some(left_out) = hall.refused.pass() {
                    let (address, left_out) = (&self.address, left_out.field());
                    tracing::warn!(%address, %reason, left_out, "refused a connection");
                }
            }
        }
        drop(closing);
        let _ = writing.await;
    }

    /// Waits for the proof, for as long as the connection has a place among those that have given
    /// none.
    async fn prove(
        &self,
        reader: &mut FrameReader,
        queue: &SendQueue,
        guest: Guest,
    ) -> Result<Proven, String> {
        let hall = &self.hall;
        let door = Door {
            address: &self.address,
            local: &hall.local,
            came_locally: self.came_locally,
            guest: &guest,
            places: &hall.places,
            windows: &hall.windows,
        };
        let proving = receive(
            &hall.env,
            &hall.identity,
            (hall.server, hall.service.incarnation()),
            &hall.bounds,
            door,
            reader,
            queue,
        );
        tokio::select! {
            biased;
            proven = timeout(hall.env.timing.connect, proving) => {
                proven.unwrap_or_else(|_| Err("it proved no key in time".to_owned()))
            }
            () = guest.gives_way() => Err(turn_away(queue)),
        }
    }

    async fn serve(&self, proven: Proven, mut reader: FrameReader, queue: SendQueue) {
        let Proven {
            peer,
            reply_window,
            window,
            place: _place,
        } = proven;
        let (hall, address) = (&self.hall, &self.address);
        let peer = Arc::new(peer);
        hall.service.opened(&peer);
        reader.land_in(hall.service.landing());
        let bounds = Bounds {
            window: window.bytes(),
            ..hall.bounds
        };
        let session = Session {
            service: hall.service.clone(),
            peer: peer.clone(),
            wire: Arc::new(Wire::new(queue.clone(), bounds, reply_window)),
        };
        let wire = session.wire.clone();
        reader.admit_by(Box::new(move |header| wire.admits(header)));
        let mut calls = YoungCalls::default();
        let mut closed = pin!(queue.closed());
        let reason = loop {
            let frame = tokio::select! {
                biased;
                frame = next_frame(hall.env.timing.idle, &mut reader, &mut calls) => frame,
                reason = &mut closed => break reason,
            };
            let taken = match frame {
                Ok(frame) => self.receive(&session.wire, &peer, frame, &calls),
                Err(error) => Err(self.note(&error)),
            };
            if let Err(reason) = taken {
                break reason;
            }
        };
        tracing::debug!(%address, %reason, "connection ended");
    }

    /// What ended the connection; the log says so where that may have been an attack.
    fn note(&self, error: &ReadError) -> String {
        let reason = error.to_string();
        if let ReadError::Tampered(_) = error
            && let Some(left_out) = self.hall.tampered.pass()
        {
            let (address, left_out) = (&self.address, left_out.field());
            tracing::warn!(%address, %reason, left_out, "ended a connection: its frames were tampered with");
        }
        reason
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
        if header.request == 0 {
            return Err("the client used the request id 0".to_owned());
        }
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
                // Whoever floods the connection keeps its reader busy: that the queue was closed is
                // seen here, not by waiting.
                let queued = wire.queue.control(Lane::Urgent, pong);
                queued.map_err(|_| "it is closed".to_owned())?;
            }
            Kind::Credit => wire.credited(frame.body_as::<Credit>().map_err(text)?)?,
            Kind::Cancel => wire.cancel(frame.body_as::<Cancel>().map_err(text)?.request),
            Kind::Data => {
                let last = header.flags.has(Flags::LAST);
                wire.data(header.request, frame.into_chunk(), last);
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
        self.hall.counters.called(kind);
        let call = Served {
            kind,
            id,
            peer: peer.clone(),
            payload: Payload::new(wire.clone(), id, flow.clone(), chunks),
            reply: Reply::new(kind, id, wire.clone(), flow.clone()),
            body,
        };
        let brief = self.hall.service.is_brief(kind);
        let call = self.hall.service.clone().serve(call);
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
) -> Result<Frame, ReadError> {
    let mut frame = pin!(timeout(idle, reader.next()));
    loop {
        tokio::select! {
            biased;
            // First: each is few steps, while a flood of frames has no end.
            () = calls.next() => {}
            frame = &mut frame => {
                return frame.unwrap_or(Err(ReadError::Silent));
            }
        }
    }
}
