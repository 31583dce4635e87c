//! One accepted connection, from its first byte to its last.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use weft_proto::session::{Cancel, Credit};
use weft_proto::{Flags, FrameError, Kind};

use super::brief_calls::BriefCalls;
use super::call::{Payload, Reply, Served};
use super::call_table::CallTable;
use super::service::Service;
use crate::admission::{Admission, ConnectionUsage, PendingSlot};
use crate::buffers::BufferPool;
use crate::counters::Counters;
use crate::env::Env;
use crate::error::ReadError;
use crate::framing::{Frame, FrameReader};
use crate::handshake::{Arrival, AuthenticatedClient, evict, handshake_as_server};
use crate::identity::{Identity, Peer};
use crate::log_limit::LogLimit;
use crate::send_queue::{Lane, OutgoingFrame, SendQueue};
use crate::transport::{BoxRead, BoxWrite};

/// What all connections of a server share.
pub(super) struct Endpoint {
    pub(super) env: Env,
    pub(super) identity: Identity,
    pub(super) server: Option<u32>,
    pub(super) admission: Admission,
    pub(super) service: Arc<dyn Service>,
    pub(super) counters: Arc<Counters>,
    pub(super) pool: BufferPool,
    /// The server's local socket; empty: it has none.
    pub(super) local: String,
    /// Limits log lines about connections that were refused.
    pub(super) refused: LogLimit,
    /// Limits log lines about connections whose frames were tampered with.
    pub(super) tampered: LogLimit,
}

/// A connection that was just accepted.
pub(super) struct AcceptedConnection {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) address: String,
    pub(super) came_locally: bool,
    pub(super) process: Option<u32>,
}

/// Closes the queue however the handling of a connection ends.
struct Closing(SendQueue);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close("the connection has ended");
    }
}

/// Notifies calls and service that a connection has ended, however it ends.
struct Session {
    service: Arc<dyn Service>,
    peer: Arc<Peer>,
    calls: Arc<CallTable>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.calls.close("the connection has ended");
        self.service.closed(&self.peer);
    }
}

impl AcceptedConnection {
    /// Serves the connection to its end, which is when the last frames were written or dropped.
    pub(super) async fn run(self, read: BoxRead, write: BoxWrite, slot: PendingSlot) {
        let endpoint = &self.endpoint;
        let queue = SendQueue::new(endpoint.counters.clone());
        let (writer, close_grace) = (queue.clone(), endpoint.env.timing.silence);
        let writing = tokio::spawn(async move { writer.write_to(write, close_grace).await });
        let closing = Closing(queue.clone());
        let mut reader = FrameReader::new(read, endpoint.pool.clone(), endpoint.counters.clone());
        match self.authenticate(&mut reader, &queue, slot).await {
            Ok(client) => self.serve(client, reader, queue).await,
            Err(reason) => {
                if let Some(suppressed) = endpoint.refused.pass() {
                    let (address, left_out) = (&self.address, suppressed.field());
                    tracing::warn!(%address, %reason, left_out, "refused a connection");
                }
            }
        }
        drop(closing);
        let _ = writing.await;
    }

    /// Performs the handshake, for as long as the connection has its slot. The slot is free on
    /// return.
    async fn authenticate(
        &self,
        reader: &mut FrameReader,
        queue: &SendQueue,
        slot: PendingSlot,
    ) -> Result<AuthenticatedClient, String> {
        let endpoint = &self.endpoint;
        let arrival = Arrival {
            address: &self.address,
            local: &endpoint.local,
            came_locally: self.came_locally,
            process: self.process,
            slot: &slot,
        };
        let handshake = handshake_as_server(
            &endpoint.env,
            &endpoint.identity,
            (endpoint.server, endpoint.service.incarnation()),
            &endpoint.admission,
            arrival,
            reader,
            queue,
        );
        tokio::select! {
            biased;
            client = timeout(endpoint.env.timing.connect, handshake) => {
                client.unwrap_or_else(|_| Err("it did not prove the key in time".to_owned()))
            }
            () = slot.evicted() => Err(evict(queue)),
        }
    }

    async fn serve(&self, client: AuthenticatedClient, mut reader: FrameReader, queue: SendQueue) {
        let AuthenticatedClient {
            peer,
            reply_window,
            grant,
        } = client;
        let (endpoint, address) = (&self.endpoint, &self.address);
        let peer = Arc::new(peer);
        endpoint.service.opened(&peer);
        reader.receive_into(endpoint.service.receive_buffers());
        let usage = ConnectionUsage::new(grant.calls(), grant.window());
        let session = Session {
            service: endpoint.service.clone(),
            peer: peer.clone(),
            calls: Arc::new(CallTable::new(queue.clone(), usage, reply_window)),
        };
        let calls = session.calls.clone();
        reader.admit_by(Box::new(move |header| calls.admit(header)));
        let mut brief = BriefCalls::default();
        let mut closed = pin!(queue.closed());
        let reason = loop {
            let frame = tokio::select! {
                biased;
                frame = next_frame(endpoint.env.timing.idle, &mut reader, &mut brief) => frame,
                reason = &mut closed => break reason,
            };
            let received = match frame {
                Ok(frame) => self.receive(&session.calls, &peer, frame, &brief),
                Err(error) => Err(self.describe(&error)),
            };
            if let Err(reason) = received {
                break reason;
            }
        };
        tracing::debug!(%address, %reason, "connection ended");
    }

    /// Why the connection ended; also a line in the log where that may have been an attack.
    fn describe(&self, error: &ReadError) -> String {
        let reason = error.to_string();
        if let ReadError::Tampered(_) = error
            && let Some(suppressed) = self.endpoint.tampered.pass()
        {
            let (address, left_out) = (&self.address, suppressed.field());
            tracing::warn!(%address, %reason, left_out, "ended a connection: its frames were tampered with");
        }
        reason
    }

    /// Handles one frame; never waits, so that credits and cancels always get through.
    fn receive(
        &self,
        calls: &Arc<CallTable>,
        peer: &Arc<Peer>,
        frame: Frame,
        brief: &BriefCalls,
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
                let pong = OutgoingFrame::bare(Kind::Ping, flags, header.request, Vec::new());
                // A flood of pings keeps this task busy, so it must notice here that the queue was
                // closed.
                let queued = calls.queue().control(Lane::Urgent, pong);
                queued.map_err(|_| "it is closed".to_owned())?;
            }
            Kind::Credit => calls.credited(frame.body_as::<Credit>().map_err(text)?)?,
            Kind::Cancel => calls.cancel(frame.body_as::<Cancel>().map_err(text)?.request),
            Kind::Data => {
                let last = header.flags.has(Flags::LAST);
                calls.data(header.request, frame.into_chunk(), last);
            }
            Kind::Hello | Kind::Proof => return Err("a second handshake".to_owned()),
            _ => return self.begin(calls, peer, frame, brief),
        }
        Ok(())
    }

    fn begin(
        &self,
        calls: &Arc<CallTable>,
        peer: &Arc<Peer>,
        frame: Frame,
        brief: &BriefCalls,
    ) -> Result<(), String> {
        let (kind, id) = (frame.header.kind, frame.header.request);
        let last = frame.header.flags.has(Flags::LAST);
        let body = frame.body.clone();
        let (chunks, flow) = calls.begin(id, body.len(), frame.into_chunk(), last)?;
        self.endpoint.counters.called(kind);
        self.endpoint.env.processors.note_request();
        let call = Served {
            kind,
            id,
            peer: peer.clone(),
            payload: Payload::new(calls.clone(), id, flow.clone(), chunks),
            reply: Reply::new(kind, id, calls.clone(), flow.clone()),
            body,
        };
        let is_brief = self.endpoint.service.is_brief(kind);
        let call = self.endpoint.service.clone().serve(call);
        if is_brief {
            brief.begin(call, flow);
        } else {
            tokio::spawn(call);
        }
        Ok(())
    }
}

/// The next frame; brief calls run until it has arrived.
///
/// # Cancellation
/// As [`FrameReader::next`].
async fn next_frame(
    idle: Duration,
    reader: &mut FrameReader,
    brief: &mut BriefCalls,
) -> Result<Frame, ReadError> {
    let mut frame = pin!(timeout(idle, reader.next()));
    loop {
        tokio::select! {
            biased;
            // First, because each call takes few steps, while a flood of frames has no end.
            () = brief.next() => {}
            frame = &mut frame => {
                return frame.unwrap_or(Err(ReadError::Silent));
            }
        }
    }
}
