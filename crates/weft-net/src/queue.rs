//! What waits to be sent on one connection.
//!
//! Two lanes. In the *urgent* lane go frames that are one direction of a call by themselves and
//! small, and the frames of the connection itself; they overtake the *bulk* lane, where large data
//! waits for room, so that memory stays bounded and calls take turns frame by frame.
//!
//! Invariants:
//! 1. Frames of one call's direction leave in the order they were queued: all of them are in one
//!    lane. (A failure may overtake the data it ends; the receiver drops what comes after it.)
//! 2. Neither lane starves: after [`URGENT_RUN`] urgent bytes one bulk frame has its turn.
//! 3. What waits is bounded: bulk by [`BULK_MAX`], calls' urgent frames by the calls in flight (a
//!    call's place is free only when its last frame leaves), all other frames by [`CONTROL_MAX`],
//!    beyond which the peer evidently does not read and the queue closes.
//! 4. Frames are protected, and so counted, where they are taken out to be written: in the order in
//!    which they leave.
//! 5. Whoever has taken the stream out of the state is the only one that writes, and puts it back:
//!    the writing task, or a sender whose frame is the only one ([`SendQueue::urgent`]), which
//!    spares the way to that task.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::poll_fn;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, Semaphore};
use weft_proto::{Flags, HEADER_BYTES, Header, Kind};

use crate::counters::Counters;
use crate::env::BoxWrite;
use crate::protection::{Sealer, TAG_BYTES};

/// Bulk bytes that may wait in one connection's queue.
const BULK_MAX: usize = 2 << 20;
/// Frames that belong to no call's flow (pings, credits, cancels) that may wait.
const CONTROL_MAX: usize = 4096;
/// Urgent bytes after which a bulk frame has its turn.
const URGENT_RUN: usize = 256 << 10;
/// Slices and bytes handed to the system at a time.
const BATCH_SLICES: usize = 256;
const BATCH_BYTES: usize = 512 << 10;

/// The sending side of a connection. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SendQueue(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    wake: Notify,
    ended: Notify,
    room: Semaphore,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct State {
    urgent: VecDeque<Ready>,
    bulk: VecDeque<Ready>,
    control: usize,
    urgent_run: usize,
    closed: Option<String>,
    /// Frames that are queued from now on are protected.
    protected: bool,
    /// What protects them, until the stream is next taken.
    sealer: Option<Sealer>,
    /// The stream, while nobody writes to it.
    idle: Option<Outlet>,
    /// The writing task has ended: there is no stream any more.
    over: bool,
}

/// The stream and what was taken from the queue for it.
struct Outlet {
    stream: BoxWrite,
    sealer: Option<Sealer>,
    batch: Vec<Ready>,
    written: usize,
}

/// Who sends an urgent frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// One of few: its frame leaves at once if nothing is in its way.
    Alone,
    /// One of many: frames are gathered, which spares calls of the system.
    Crowd,
}

impl Sender {
    /// Calls in flight on one connection up to which each sends for itself.
    const FEW: usize = 4;

    /// The sender of one of `calls` in flight.
    pub(crate) fn of(calls: usize) -> Sender {
        if calls <= Self::FEW {
            Sender::Alone
        } else {
            Sender::Crowd
        }
    }
}

/// One frame, not yet encoded.
pub(crate) struct Message {
    pub kind: Kind,
    pub flags: Flags,
    pub request: u64,
    pub body: Vec<u8>,
    pub payload: Vec<Bytes>,
    /// The payload's sum, where it is known.
    pub sum: Option<u32>,
}

/// Where a frame waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Urgent,
    Bulk,
}

/// Called when a frame is about to leave.
pub(crate) type Leaving = Box<dyn FnOnce() + Send + Sync>;

struct Ready {
    /// Header and body; their tag, too, once it is sealed.
    head: Vec<u8>,
    payload: Vec<Bytes>,
    /// Those of the payload.
    tags: Vec<u8>,
    /// It was queued after the frames had to be protected.
    protected: bool,
    bytes: usize,
    /// What it holds of the bulk lane's room.
    room: usize,
    control: bool,
    leaving: Option<Leaving>,
}

/// The connection is closed; nothing was queued.
#[derive(Debug)]
pub(crate) struct QueueClosed;

impl Message {
    /// A frame without payload.
    pub(crate) fn bare(kind: Kind, flags: Flags, request: u64, body: Vec<u8>) -> Self {
        Message {
            kind,
            flags,
            request,
            body,
            payload: Vec::new(),
            sum: None,
        }
    }

    fn ready(self) -> Ready {
        let (kind, flags, request) = (self.kind, self.flags, self.request);
        let header = match self.sum {
            None => Header::encode(kind, flags, request, &self.body, &self.payload),
            Some(sum) => {
                let length = self.payload.iter().map(Bytes::len).sum();
                Header::summed(kind, flags, request, &self.body, length, sum)
            }
        };
        let mut head = Vec::with_capacity(HEADER_BYTES + self.body.len() + TAG_BYTES);
        head.extend_from_slice(&header);
        head.extend_from_slice(&self.body);
        let mut payload = self.payload;
        payload.retain(|part| !part.is_empty());
        Ready {
            bytes: head.len() + payload.iter().map(Bytes::len).sum::<usize>(),
            head,
            payload,
            tags: Vec::new(),
            protected: false,
            room: 0,
            control: false,
            leaving: None,
        }
    }
}

impl Ready {
    /// What is written of it, one after another.
    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let payload = self.payload.iter().map(|part| &part[..]);
        let tags = (!self.tags.is_empty()).then_some(&self.tags[..]);
        std::iter::once(&self.head[..]).chain(payload).chain(tags)
    }

    /// How many parts there are, at most.
    fn slices(&self) -> usize {
        2 + self.payload.len()
    }
}

impl SendQueue {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        SendQueue(Arc::new(Shared {
            state: Mutex::default(),
            wake: Notify::new(),
            ended: Notify::new(),
            room: Semaphore::new(BULK_MAX),
            counters,
        }))
    }

    /// Protects the frames that are queued from now on.
    pub(crate) fn protect(&self, sealer: Option<Sealer>) {
        let mut state = self.state();
        state.protected = sealer.is_some();
        state.sealer = sealer;
    }

    /// Queues a frame in the urgent lane at once; that of a sender alone is written here if the
    /// stream takes it now.
    pub(crate) fn urgent(
        &self,
        message: Message,
        leaving: Option<Leaving>,
        sender: Sender,
    ) -> Result<(), QueueClosed> {
        let ready = message.ready();
        let ready = Ready { leaving, ..ready };
        if sender == Sender::Crowd {
            return self.push(Lane::Urgent, ready);
        }
        let mut state = self.state();
        if state.closed.is_some() {
            return Err(QueueClosed);
        }
        let free = state.is_empty();
        let Some(mut outlet) = state.idle.take_if(|o| free && o.batch.is_empty()) else {
            drop(state);
            return self.push(Lane::Urgent, ready);
        };
        outlet.sealer = state.sealer.take().or(outlet.sealer);
        let protected = state.protected;
        drop(state);
        outlet.batch.push(Ready { protected, ..ready });
        self.leave(&mut outlet);
        // Nobody waits with this waker: what is left is the writing task's.
        let done = outlet.poll_write(&mut Context::from_waker(Waker::noop()));
        let mut state = self.state();
        let left = !state.is_empty() || state.closed.is_some();
        let useless = state.give_back(outlet);
        drop(state);
        drop(useless);
        if left || !matches!(done, Poll::Ready(Ok(()))) {
            self.0.wake.notify_one();
        }
        Ok(())
    }

    /// Queues a frame in the bulk lane when there is room.
    ///
    /// # Cancellation
    /// Safe: the frame is queued whole or not at all, and in the latter case `leaving` is not
    /// called.
    pub(crate) async fn bulk(
        &self,
        message: Message,
        leaving: Option<Leaving>,
    ) -> Result<(), QueueClosed> {
        let payload: usize = message.payload.iter().map(Bytes::len).sum();
        let room = (HEADER_BYTES + message.body.len() + payload).min(BULK_MAX);
        let permit = self.0.room.acquire_many(room as u32).await;
        permit.map_err(|_| QueueClosed)?.forget();
        let ready = message.ready();
        self.push(
            Lane::Bulk,
            Ready {
                room,
                leaving,
                ..ready
            },
        )
    }

    /// Queues a frame of the connection itself at once.
    pub(crate) fn control(&self, lane: Lane, message: Message) -> Result<(), QueueClosed> {
        debug_assert!(
            message.payload.is_empty(),
            "what has payload has a window or room"
        );
        if self.state().control >= CONTROL_MAX {
            self.close("the peer does not read what is sent to it");
        }
        let ready = message.ready();
        self.push(
            lane,
            Ready {
                control: true,
                ..ready
            },
        )
    }

    fn push(&self, lane: Lane, ready: Ready) -> Result<(), QueueClosed> {
        let mut state = self.state();
        if state.closed.is_some() {
            return Err(QueueClosed);
        }
        state.control += usize::from(ready.control);
        let protected = state.protected;
        let ready = Ready { protected, ..ready };
        match lane {
            Lane::Urgent => state.urgent.push_back(ready),
            Lane::Bulk => state.bulk.push_back(ready),
        }
        drop(state);
        self.0.wake.notify_one();
        Ok(())
    }

    /// Refuses further frames; the writer ends after those queued. The first reason given stands.
    pub(crate) fn close(&self, reason: &str) {
        self.state().closed.get_or_insert_with(|| reason.to_owned());
        self.0.room.close();
        self.0.wake.notify_one();
        self.0.ended.notify_waiters();
    }

    /// Waits until the queue is closed; returns the reason.
    pub(crate) async fn closed(&self) -> String {
        loop {
            // Registered before the look, so that a close in between wakes it.
            let ended = self.0.ended.notified();
            if let Some(reason) = &self.state().closed {
                return reason.clone();
            }
            ended.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the stream with what is to be written next; `None` if there is nothing, or somebody
    /// else writes.
    fn take(&self) -> Take {
        let mut state = self.state();
        let Some(mut outlet) = state.idle.take() else {
            return Take::Nothing;
        };
        outlet.sealer = state.sealer.take().or(outlet.sealer);
        if outlet.batch.is_empty() {
            let (mut slices, mut bytes) = (0, 0);
            while slices < BATCH_SLICES && bytes < BATCH_BYTES {
                let Some(ready) = state.pop() else { break };
                slices += ready.slices();
                bytes += ready.bytes;
                outlet.batch.push(ready);
            }
        } else {
            // Its frames have left, as far as the calls know.
            return Take::Rest(outlet);
        }
        if !outlet.batch.is_empty() {
            return Take::Fresh(outlet);
        }
        if state.closed.is_some() {
            return Take::End(outlet);
        }
        state.idle = Some(outlet);
        Take::Nothing
    }

    /// Before the bytes leave: the peer's answer to them must find everything in place.
    fn leave(&self, outlet: &mut Outlet) {
        outlet.seal();
        for ready in &mut outlet.batch {
            self.0.counters.sent(ready.bytes);
            if let Some(leaving) = ready.leaving.take() {
                leaving();
            }
        }
    }

    /// Writes what is queued until the queue is closed and empty, or the stream fails; after the
    /// close, no longer than `linger`.
    pub(crate) async fn write_to(&self, stream: BoxWrite, linger: Duration) {
        self.state().idle = Some(Outlet {
            stream,
            sealer: None,
            batch: Vec::new(),
            written: 0,
        });
        // However this ends, the stream ends with it.
        let _ending = Ending(self);
        let too_long = async {
            self.closed().await;
            tokio::time::sleep(linger).await;
        };
        tokio::select! {
            biased;
            (mut stream, result) = self.write_all() => {
                if let Err(error) = result {
                    self.close(&error.to_string());
                }
                let _ = tokio::time::timeout(linger, stream.shutdown()).await;
            }
            () = too_long => {}
        }
    }

    async fn write_all(&self) -> (BoxWrite, std::io::Result<()>) {
        loop {
            let mut outlet = match self.take() {
                Take::End(outlet) => return (outlet.stream, Ok(())),
                Take::Nothing => {
                    self.0.wake.notified().await;
                    continue;
                }
                Take::Rest(outlet) => outlet,
                Take::Fresh(mut outlet) => {
                    self.leave(&mut outlet);
                    outlet
                }
            };
            let room = outlet.batch.iter().map(|r| r.room).sum();
            let written = poll_fn(|context| outlet.poll_write(context)).await;
            self.0.room.add_permits(room);
            if written.is_err() {
                return (outlet.stream, written);
            }
            // Dropped without the lock.
            let _useless = self.state().give_back(outlet);
        }
    }
}

/// What the writing task finds.
enum Take {
    Nothing,
    /// Frames that nobody has begun to write.
    Fresh(Outlet),
    /// What a sender could not write, or the error that it met and will be met again.
    Rest(Outlet),
    /// The queue is closed and empty.
    End(Outlet),
}

/// Takes the stream out of a queue whose writing task has ended.
struct Ending<'a>(&'a SendQueue);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.over = true;
        let stream = state.idle.take();
        drop(state);
        drop(stream);
    }
}

impl Outlet {
    /// Protects what was taken, in the order in which it leaves.
    fn seal(&mut self) {
        for ready in self.batch.iter_mut().filter(|ready| ready.protected) {
            let Some(sealer) = &mut self.sealer else {
                unreachable!(
                    "what protects frames comes with the word that they are to be protected"
                )
            };
            ready.tags = sealer.seal(&mut ready.head, &mut ready.payload);
            ready.bytes = ready.parts().map(<[u8]>::len).sum();
        }
    }

    /// Writes the batch, as far as the stream takes it; ready when all of it is written, with an
    /// empty batch.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let parts = || self.batch.iter().flat_map(Ready::parts);
        let total: usize = parts().map(<[u8]>::len).sum();
        let mut slices: Vec<IoSlice<'_>> = parts().map(IoSlice::new).collect();
        let mut rest = &mut slices[..];
        IoSlice::advance_slices(&mut rest, self.written);
        while self.written < total {
            let n = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, rest))?;
            if n == 0 {
                return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
            }
            self.written += n;
            IoSlice::advance_slices(&mut rest, n);
        }
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        drop(slices);
        self.batch.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.bulk.is_empty()
    }

    /// Puts the stream back; returns it if nobody will write to it any more.
    fn give_back(&mut self, outlet: Outlet) -> Option<Outlet> {
        if self.over {
            return Some(outlet);
        }
        self.idle = Some(outlet);
        None
    }

    fn pop(&mut self) -> Option<Ready> {
        let turn_of_bulk = self.urgent_run >= URGENT_RUN || self.urgent.is_empty();
        let bulk = if turn_of_bulk {
            self.bulk.pop_front()
        } else {
            None
        };
        let ready = if let Some(ready) = bulk {
            self.urgent_run = 0;
            ready
        } else {
            let ready = self.urgent.pop_front()?;
            self.urgent_run += ready.bytes;
            ready
        };
        self.control -= usize::from(ready.control);
        Some(ready)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::AsyncReadExt;

    use super::*;

    fn queue() -> SendQueue {
        SendQueue::new(Arc::new(Counters::default()))
    }

    fn message(kind: Kind, request: u64, payload: usize) -> Message {
        let payload = Some(Bytes::from(vec![0; payload])).filter(|p| !p.is_empty());
        Message {
            payload: payload.into_iter().collect(),
            ..Message::bare(kind, Flags::LAST, request, Vec::new())
        }
    }

    /// The request ids in the order in which they leave.
    async fn order(queue: &SendQueue) -> Vec<u64> {
        queue.close("done");
        let (ours, mut theirs) = tokio::io::duplex(64 << 20);
        queue.write_to(Box::new(ours), Duration::from_secs(5)).await;
        let mut bytes = Vec::new();
        theirs.read_to_end(&mut bytes).await.unwrap();
        let (mut at, mut ids) = (0, Vec::new());
        while at < bytes.len() {
            let head = bytes[at..at + HEADER_BYTES].try_into().unwrap();
            let header = Header::decode(&head).unwrap();
            at += HEADER_BYTES + (header.body_len + header.payload_len) as usize;
            ids.push(header.request);
        }
        ids
    }

    #[tokio::test]
    async fn urgent_frames_overtake_bulk_and_neither_lane_starves() {
        let queue = queue();
        for id in 0..3 {
            let frame = message(Kind::Data, 1000 + id, 100 << 10);
            queue.bulk(frame, None).await.unwrap();
        }
        for id in 0..16 {
            queue
                .urgent(message(Kind::Write, id, 60 << 10), None, Sender::Crowd)
                .unwrap();
        }
        let order = order(&queue).await;
        let bulk = |n: u64| order.iter().position(|id| *id == 1000 + n).unwrap();
        assert_eq!([bulk(0), bulk(1), bulk(2)], [5, 11, 17]);
        let urgent: Vec<u64> = order.into_iter().filter(|id| *id < 1000).collect();
        assert_eq!(urgent, (0..16).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_cancel_leaves_after_what_it_cancels_in_either_lane() {
        let queue = queue();
        let cancel = |id: u64| message(Kind::Cancel, 100 + id, 0);
        queue
            .bulk(message(Kind::Write, 1, 1000), None)
            .await
            .unwrap();
        queue.control(Lane::Bulk, cancel(1)).unwrap();
        for _ in 0..5 {
            queue
                .urgent(message(Kind::Write, 3, 60 << 10), None, Sender::Crowd)
                .unwrap();
        }
        queue
            .urgent(message(Kind::Read, 2, 0), None, Sender::Crowd)
            .unwrap();
        queue.control(Lane::Urgent, cancel(2)).unwrap();
        let order = order(&queue).await;
        let place = |id| order.iter().position(|i| *i == id).unwrap();
        assert!(place(1) < place(101), "{order:?}");
        assert!(place(2) < place(102), "{order:?}");
    }

    #[tokio::test]
    async fn bulk_waits_for_room_and_a_dropped_wait_leaves_nothing() {
        let queue = queue();
        for id in 0..2 {
            queue
                .bulk(message(Kind::Data, id, 1000 << 10), None)
                .await
                .unwrap();
        }
        let third = queue.bulk(message(Kind::Data, 2, 1000 << 10), None);
        assert!(
            tokio::time::timeout(Duration::from_millis(20), third)
                .await
                .is_err()
        );
        queue.bulk(message(Kind::Data, 3, 1), None).await.unwrap();
        assert_eq!(order(&queue).await, [0, 1, 3]);
        assert_eq!(queue.0.counters.snapshot().frames_sent, 3);
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_closes_the_queue() {
        let queue = queue();
        let pong = || message(Kind::Ping, 1, 0);
        for _ in 0..CONTROL_MAX {
            queue.control(Lane::Urgent, pong()).unwrap();
        }
        assert!(queue.control(Lane::Urgent, pong()).is_err());
        assert!(queue.closed().await.contains("does not read"));
    }

    #[tokio::test]
    async fn a_sender_alone_writes_and_what_the_stream_does_not_take_follows_in_order() {
        let queue = queue();
        let (ours, mut theirs) = tokio::io::duplex(256);
        let writer = queue.clone();
        let writing = tokio::spawn(async move {
            writer
                .write_to(Box::new(ours), Duration::from_secs(5))
                .await;
        });
        tokio::task::yield_now().await;
        queue
            .urgent(message(Kind::Read, 1, 0), None, Sender::Alone)
            .unwrap();
        // No other task had a turn.
        let mut first = [0; HEADER_BYTES];
        let read = theirs.read_exact(&mut first).now_or_never();
        assert_eq!(read.expect("it is there").unwrap(), HEADER_BYTES);
        for id in 2..8 {
            queue
                .urgent(message(Kind::Write, id, 1000), None, Sender::Alone)
                .unwrap();
        }
        queue.close("done");
        let mut bytes = Vec::new();
        theirs.read_to_end(&mut bytes).await.unwrap();
        writing.await.unwrap();
        let ids: Vec<u64> = bytes
            .chunks(HEADER_BYTES + 1000)
            .map(|frame| {
                let head = frame[..HEADER_BYTES].try_into().unwrap();
                Header::decode(&head).unwrap().request
            })
            .collect();
        assert_eq!(ids, (2..8).collect::<Vec<_>>());
        assert!(
            queue
                .urgent(message(Kind::Read, 9, 0), None, Sender::Alone)
                .is_err()
        );
    }

    #[tokio::test]
    async fn a_stuck_stream_is_given_up_after_the_linger() {
        let queue = queue();
        queue
            .bulk(message(Kind::Data, 1, 1 << 20), None)
            .await
            .unwrap();
        let (ours, _theirs) = tokio::io::duplex(1024);
        let writer = queue.clone();
        let linger = Duration::from_millis(20);
        let writing = tokio::spawn(async move { writer.write_to(Box::new(ours), linger).await });
        queue.close("done");
        let ended = tokio::time::timeout(Duration::from_secs(5), writing).await;
        ended.expect("the writer ends").unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_up_is_lost_between_many_senders_and_the_writer() {
        let queue = queue();
        let (ours, mut theirs) = tokio::io::duplex(4096);
        let writer = queue.clone();
        tokio::spawn(async move {
            writer
                .write_to(Box::new(ours), Duration::from_secs(5))
                .await;
        });
        let senders = (0..8).map(|sender| {
            let queue = queue.clone();
            tokio::spawn(async move {
                for i in 0..500 {
                    let frame = message(Kind::Data, sender, i % 7 * 1000);
                    if i % 2 == 0 {
                        queue.bulk(frame, None).await.unwrap();
                    } else {
                        let sender = Sender::of(i / 10 % 8);
                        queue.urgent(frame, None, sender).unwrap();
                    }
                    if i % 50 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        });
        let closing = queue.clone();
        let senders: Vec<_> = senders.collect();
        let all = tokio::spawn(async move {
            for sender in senders {
                sender.await.unwrap();
            }
            closing.close("done");
        });
        let mut bytes = Vec::new();
        let read = theirs.read_to_end(&mut bytes);
        let read = tokio::time::timeout(Duration::from_secs(20), read).await;
        read.expect("nothing hangs").unwrap();
        all.await.unwrap();
        let payload: usize = 8 * (0..500).map(|i| i % 7 * 1000).sum::<usize>();
        assert_eq!(bytes.len(), payload + 8 * 500 * HEADER_BYTES);
    }
}
