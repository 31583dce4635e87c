//! What waits to be sent on one connection. Frames that are a whole call's direction by themselves overtake
//! bulk data; bulk data waits for room, so that memory stays bounded and calls take turns frame by frame.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, Semaphore};
use weft_proto::{Flags, Header, Kind};

use crate::counters::Counters;
use crate::env::BoxWrite;

/// Bulk bytes that may wait in one connection's queue.
const BULK_MAX: usize = 2 << 20;
/// Payloads up to this size count as small: their frames overtake bulk data.
const SMALL: usize = 64 << 10;
/// Slices and bytes handed to the system at a time.
const BATCH_SLICES: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// The sending side of a connection. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SendQueue(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    wake: Notify,
    room: Semaphore,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct State {
    urgent: VecDeque<Ready>,
    bulk: VecDeque<Ready>,
    closed: bool,
}

struct Ready {
    parts: Vec<Bytes>,
    room: usize,
}

/// The connection is closed; nothing was queued.
#[derive(Debug)]
pub(crate) struct QueueClosed;

impl SendQueue {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        SendQueue(Arc::new(Shared {
            state: Mutex::default(),
            wake: Notify::new(),
            room: Semaphore::new(BULK_MAX),
            counters,
        }))
    }

    /// Queues one frame.
    ///
    /// # Errors
    /// When the connection is closed; nothing was queued then.
    /// # Cancellation
    /// Safe: the frame is queued whole or not at all.
    pub(crate) async fn send(
        &self,
        kind: Kind,
        flags: Flags,
        request: u64,
        body: Vec<u8>,
        payload: Vec<Bytes>,
    ) -> Result<(), QueueClosed> {
        let size: usize = payload.iter().map(Bytes::len).sum();
        let small = flags.has(Flags::LAST) && kind != Kind::Data && size <= SMALL;
        let room = if small { 0 } else { size };
        if room > 0 {
            let permit = self
                .0
                .room
                .acquire_many(room as u32)
                .await
                .map_err(|_| QueueClosed)?;
            permit.forget();
        }
        self.push(kind, flags, request, body, payload, room)
    }

    /// Queues a frame without payload at once.
    pub(crate) fn send_now(
        &self,
        kind: Kind,
        flags: Flags,
        request: u64,
        body: Vec<u8>,
    ) -> Result<(), QueueClosed> {
        self.push(kind, flags, request, body, Vec::new(), 0)
    }

    fn push(
        &self,
        kind: Kind,
        flags: Flags,
        request: u64,
        body: Vec<u8>,
        payload: Vec<Bytes>,
        room: usize,
    ) -> Result<(), QueueClosed> {
        let header = Header::encode(kind, flags, request, &body, &payload);
        let mut parts = Vec::with_capacity(1 + payload.len());
        let mut head = Vec::with_capacity(header.len() + body.len());
        head.extend_from_slice(&header);
        head.extend_from_slice(&body);
        parts.push(Bytes::from(head));
        parts.extend(payload.into_iter().filter(|p| !p.is_empty()));
        self.0.counters.sent(parts.iter().map(Bytes::len).sum());
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Err(QueueClosed);
        }
        let single = flags.has(Flags::LAST) && !matches!(kind, Kind::Data | Kind::Cancel);
        let ready = Ready { parts, room };
        if room == 0 && (single || kind == Kind::Credit) {
            state.urgent.push_back(ready);
        } else {
            state.bulk.push_back(ready);
        }
        drop(state);
        self.0.wake.notify_one();
        Ok(())
    }

    /// Refuses further frames; the writer ends after those queued.
    pub(crate) fn close(&self) {
        self.0
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .closed = true;
        self.0.room.close();
        self.0.wake.notify_one();
    }

    fn take(&self, batch: &mut Vec<Ready>) -> bool {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut slices, mut bytes) = (0, 0);
        while slices < BATCH_SLICES && bytes < BATCH_BYTES {
            let next = state.urgent.pop_front().or_else(|| state.bulk.pop_front());
            let Some(ready) = next else { break };
            slices += ready.parts.len();
            bytes += ready.room;
            batch.push(ready);
        }
        state.closed
    }

    /// Writes what is queued until the queue is closed and empty, or the stream fails.
    pub(crate) async fn write_to(&self, mut stream: BoxWrite) -> std::io::Result<()> {
        let mut batch = Vec::new();
        let result = loop {
            let closed = self.take(&mut batch);
            if batch.is_empty() {
                if closed {
                    break Ok(());
                }
                self.0.wake.notified().await;
                continue;
            }
            let room = batch.iter().map(|r| r.room).sum();
            let written = write_all(&mut stream, &batch).await;
            batch.clear();
            self.0.room.add_permits(room);
            if written.is_err() {
                break written;
            }
        };
        self.close();
        let _ = stream.shutdown().await;
        result
    }
}

async fn write_all(stream: &mut BoxWrite, batch: &[Ready]) -> std::io::Result<()> {
    let parts = || batch.iter().flat_map(|r| r.parts.iter());
    let total: usize = parts().map(Bytes::len).sum();
    let mut slices: Vec<IoSlice<'_>> = parts().map(|p| IoSlice::new(p)).collect();
    let mut rest = &mut slices[..];
    let mut written = 0;
    while written < total {
        let n = stream.write_vectored(rest).await?;
        if n == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        written += n;
        IoSlice::advance_slices(&mut rest, n);
    }
    stream.flush().await
}
