//! The frames that wait to be sent on one connection, and the stream that they are written to.
//!
//! There are two lanes. The *urgent* lane holds small frames that are one direction of a call by
//! themselves, and frames of the connection itself; they overtake the *bulk* lane, whose large
//! frames wait for budget before they are queued, so that memory stays bounded and calls take turns
//! frame by frame.
//!
//! Invariants:
//! 1. Frames of one direction of a call leave in the order in which they were queued: all of them
//!    are in one lane. (A failure may overtake the data it ends; the receiver drops what follows
//!    it.)
//! 2. Neither lane starves: after [`URGENT_RUN`](crate::limits::URGENT_RUN) urgent bytes one bulk
//!    frame has its turn.
//! 3. What waits is bounded: bulk by [`BULK_BYTES_MAX`], urgent frames of calls by the calls in
//!    flight (a call's slot is free only when its last frame leaves), all other frames by
//!    [`CONTROL_FRAMES_MAX`], beyond which the peer evidently does not read and the queue closes.
//! 4. Frames are protected, and so numbered, where they are taken from the queue to be written: in
//!    the order in which they leave.
//! 5. Only one party writes at a time: whichever has taken the [`StreamWriter`] out of the state,
//!    and puts it back. That is the writing task, or a sender whose frame is the only one
//!    ([`SendMode::Direct`]), which saves the switch to that task.

mod frame;
mod lanes;
mod writer;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::poll_fn;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, Semaphore};
use weft_proto::HEADER_BYTES;

use crate::counters::Counters;
use crate::limits::{BULK_BYTES_MAX, CONTROL_FRAMES_MAX, DIRECT_SENDERS};
use crate::protection::Sealer;
use crate::transport::BoxWrite;

pub(crate) use frame::{BeforeWrite, OutgoingFrame};
pub(crate) use lanes::Lane;

use frame::EncodedFrame;
use lanes::Lanes;
use writer::StreamWriter;

/// The sending side of a connection. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SendQueue(Arc<SharedQueue>);

struct SharedQueue {
    state: Mutex<QueueState>,
    wake: Notify,
    ended: Notify,
    /// All frames were written.
    drained: Notify,
    bulk_budget: Semaphore,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct QueueState {
    lanes: Lanes,
    /// Why the queue is closed.
    closed: Option<String>,
    /// Frames that are queued from now on are protected.
    protected: bool,
    /// The sealer that was set since the writer was last taken.
    sealer: Option<Sealer>,
    /// The writer, while it is not in use.
    idle: Option<StreamWriter>,
    /// The writing task has ended, and the stream with it.
    over: bool,
}

/// How an urgent frame is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendMode {
    /// The sender writes the frame itself if nothing is in its way.
    Direct,
    /// The writing task gathers the frame with others, which saves system calls.
    Queued,
}

impl SendMode {
    /// The mode for one of `calls` in flight.
    pub(crate) fn for_calls(calls: usize) -> SendMode {
        if calls <= DIRECT_SENDERS {
            SendMode::Direct
        } else {
            SendMode::Queued
        }
    }
}

/// The connection is closed; nothing was queued.
#[derive(Debug)]
pub(crate) struct QueueClosed;

impl SendQueue {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        SendQueue(Arc::new(SharedQueue {
            state: Mutex::default(),
            wake: Notify::new(),
            ended: Notify::new(),
            drained: Notify::new(),
            bulk_budget: Semaphore::new(BULK_BYTES_MAX),
            counters,
        }))
    }

    /// Protects the frames that are queued from now on.
    pub(crate) fn protect(&self, sealer: Option<Sealer>) {
        let mut state = self.state();
        state.protected = sealer.is_some();
        state.sealer = sealer;
    }

    /// Queues a frame in the urgent lane at once; in [`SendMode::Direct`] it is written here as far
    /// as the stream takes it now.
    pub(crate) fn urgent(
        &self,
        frame: OutgoingFrame,
        before_write: Option<BeforeWrite>,
        mode: SendMode,
    ) -> Result<(), QueueClosed> {
        let mut frame = frame.encode();
        frame.before_write = before_write;
        if mode == SendMode::Queued {
            return self.push(Lane::Urgent, frame);
        }
        let mut state = self.state();
        if state.closed.is_some() {
            return Err(QueueClosed);
        }
        let free = state.lanes.is_empty();
        let Some(mut writer) = state.idle.take_if(|w| free && w.is_idle()) else {
            drop(state);
            return self.push(Lane::Urgent, frame);
        };
        writer.protect(state.sealer.take());
        frame.protected = state.protected;
        drop(state);
        writer.push(frame);
        writer.begin(&self.0.counters);
        // This waker wakes nothing: the writing task writes the rest.
        let written = writer.poll_write(&mut Context::from_waker(Waker::noop()));
        let unfinished = self.put_back(writer);
        if unfinished || !matches!(written, Poll::Ready(Ok(()))) {
            self.0.wake.notify_one();
        }
        Ok(())
    }

    /// Queues a frame in the bulk lane when there is budget for it.
    ///
    /// # Cancellation
    /// Safe: the frame is queued whole or not at all, and in the latter case `before_write` is not
    /// called.
    pub(crate) async fn bulk(
        &self,
        frame: OutgoingFrame,
        before_write: Option<BeforeWrite>,
    ) -> Result<(), QueueClosed> {
        let payload: usize = frame.payload.iter().map(Bytes::len).sum();
        let bulk_bytes = (HEADER_BYTES + frame.body.len() + payload).min(BULK_BYTES_MAX);
        let permit = self.0.bulk_budget.acquire_many(bulk_bytes as u32).await;
        permit.map_err(|_| QueueClosed)?.forget();
        let mut frame = frame.encode();
        (frame.bulk_bytes, frame.before_write) = (bulk_bytes, before_write);
        self.push(Lane::Bulk, frame)
    }

    /// Queues a frame of the connection itself at once.
    pub(crate) fn control(&self, lane: Lane, frame: OutgoingFrame) -> Result<(), QueueClosed> {
        debug_assert!(
            frame.payload.is_empty(),
            "frames with payload have a window or a budget"
        );
        if self.state().lanes.control_frames() >= CONTROL_FRAMES_MAX {
            self.close("the peer does not read what is sent to it");
        }
        let mut frame = frame.encode();
        frame.control = true;
        self.push(lane, frame)
    }

    fn push(&self, lane: Lane, mut frame: EncodedFrame) -> Result<(), QueueClosed> {
        let mut state = self.state();
        if state.closed.is_some() {
            return Err(QueueClosed);
        }
        frame.protected = state.protected;
        state.lanes.push(lane, frame);
        drop(state);
        self.0.wake.notify_one();
        Ok(())
    }

    /// Refuses further frames; the writing task ends after those queued. The first reason stands.
    pub(crate) fn close(&self, reason: &str) {
        self.state().closed.get_or_insert_with(|| reason.to_owned());
        self.0.bulk_budget.close();
        self.0.wake.notify_one();
        self.0.ended.notify_waiters();
    }

    /// Waits until the queue is closed; returns the reason.
    pub(crate) async fn closed(&self) -> String {
        loop {
            // Registered before the check, so that a close in between wakes it.
            let ended = self.0.ended.notified();
            if let Some(reason) = &self.state().closed {
                return reason.clone();
            }
            ended.await;
        }
    }

    /// Waits until everything that was queued is written to the stream; false if it never will be,
    /// because the queue is closed.
    pub(crate) async fn written(&self) -> bool {
        loop {
            // Registered before the check, so that a write in between wakes it.
            let (drained, ended) = (self.0.drained.notified(), self.0.ended.notified());
            {
                let state = self.state();
                if state.is_drained() {
                    return true;
                }
                if state.closed.is_some() {
                    return false;
                }
            }
            tokio::select! {
                () = drained => {}
                () = ended => {}
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.0.state.lock()
    }

    /// Puts the writer back after it has written; whether there is more to write, or to end.
    fn put_back(&self, writer: StreamWriter) -> bool {
        let mut state = self.state();
        let unfinished = !state.lanes.is_empty() || state.closed.is_some();
        let ended = state.give_back(writer);
        let drained = state.is_drained();
        // A stream is dropped without the lock.
        drop(state);
        drop(ended);
        if drained {
            self.0.drained.notify_waiters();
        }
        unfinished
    }

    /// Takes the writer with the frames to be written next.
    fn take(&self) -> NextBatch {
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(mut writer) = state.idle.take() else {
            return NextBatch::None;
        };
        writer.protect(state.sealer.take());
        if !writer.is_idle() {
            // These frames have left, as far as their calls know.
            return NextBatch::Rest(writer);
        }
        writer.fill(&mut state.lanes);
        if !writer.is_idle() {
            return NextBatch::Fresh(writer);
        }
        if state.closed.is_some() {
            return NextBatch::End(writer);
        }
        state.idle = Some(writer);
        NextBatch::None
    }

    /// Writes what is queued until the queue is closed and empty, or the stream fails; after the
    /// close, for no longer than `close_grace`.
    pub(crate) async fn write_to(&self, stream: BoxWrite, close_grace: Duration) {
        self.state().idle = Some(StreamWriter::new(stream));
        // However this ends, the stream ends with it.
        let _end = WriterEnd(self);
        let overdue = async {
            self.closed().await;
            tokio::time::sleep(close_grace).await;
        };
        tokio::select! {
            biased;
            (mut stream, result) = self.write_all() => {
                if let Err(error) = result {
                    self.close(&error.to_string());
                }
                let _ = tokio::time::timeout(close_grace, stream.shutdown()).await;
            }
            () = overdue => {}
        }
    }

    async fn write_all(&self) -> (BoxWrite, std::io::Result<()>) {
        loop {
            let mut writer = match self.take() {
                NextBatch::End(writer) => return (writer.into_stream(), Ok(())),
                NextBatch::None => {
                    self.0.wake.notified().await;
                    continue;
                }
                NextBatch::Rest(writer) => writer,
                NextBatch::Fresh(mut writer) => {
                    writer.begin(&self.0.counters);
                    writer
                }
            };
            let bulk_bytes = writer.bulk_bytes();
            let written = poll_fn(|context| writer.poll_write(context)).await;
            self.0.bulk_budget.add_permits(bulk_bytes);
            if written.is_err() {
                return (writer.into_stream(), written);
            }
            self.put_back(writer);
        }
    }
}

/// What the writing task finds.
enum NextBatch {
    /// Nothing to write, or a sender is writing.
    None,
    /// Frames that were not yet begun.
    Fresh(StreamWriter),
    /// What a sender could not write, or the error that it met, which the task will meet again.
    Rest(StreamWriter),
    /// The queue is closed and empty.
    End(StreamWriter),
}

/// Takes the stream out of a queue whose writing task ends.
struct WriterEnd<'a>(&'a SendQueue);

impl Drop for WriterEnd<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.over = true;
        let writer = state.idle.take();
        drop(state);
        drop(writer);
    }
}

impl QueueState {
    /// Whether all frames were written.
    fn is_drained(&self) -> bool {
        self.lanes.is_empty() && self.idle.as_ref().is_some_and(StreamWriter::is_idle)
    }

    /// Puts the writer back; returns it if the writing task has ended, to be dropped without the
    /// lock.
    fn give_back(&mut self, writer: StreamWriter) -> Option<StreamWriter> {
        if self.over {
            return Some(writer);
        }
        self.idle = Some(writer);
        None
    }
}

#[cfg(test)]
mod tests;
