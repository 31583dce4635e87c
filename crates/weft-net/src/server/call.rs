//! One call as its service holds it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use weft_proto::limits::{self, window_cost};
use weft_proto::stamp::Stamp;
use weft_proto::{Call, Code, Failure, Flags, FrameError, Kind, body_from, prost::Message};
use weft_sum::Sums;

use super::wire::{Flow, Wire};
use crate::handshake::Peer;
use crate::queue;

/// Bytes of a failure's message that travel.
const MESSAGE_MAX: usize = 16 << 10;

/// A call as it arrived. An `async move` block that names only some of its fields takes only those
/// along: the others are dropped at once, which for [`Served::reply`] is an answer.
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
    pub(super) body: Bytes,
}

impl Served {
    /// Decodes the request.
    pub fn request<C: Call>(&self) -> Result<C, FrameError> {
        body_from(self.kind, &self.body)
    }
}

/// The payload of a call, as it arrives. Dropping it lets the rest go unread.
pub struct Payload {
    chunks: mpsc::UnboundedReceiver<Chunk>,
    wire: Arc<Wire>,
    id: u64,
    flow: Arc<Flow>,
    /// Window of the chunks taken and not released.
    held: u64,
    /// Window released and not yet credited.
    owed: u64,
}

/// The way back to the caller. Dropped without an answer, it says that the service failed (or, to a
/// caller that has cancelled, that the call was cancelled).
pub struct Reply {
    kind: Kind,
    id: u64,
    wire: Arc<Wire>,
    flow: Arc<Flow>,
    begun: bool,
    answered: bool,
}

/// Tells of a caller, apart from the way back to it.
#[derive(Clone)]
pub struct Caller(Arc<Flow>);

impl Caller {
    /// Whether it no longer waits for the answer. Means nothing once it was answered.
    pub fn gone(&self) -> bool {
        self.0.cancelled()
    }

    /// Grows with what it takes of the answer.
    pub fn taken(&self) -> u64 {
        self.0.taken()
    }
}

/// The caller is gone or no longer wants the answer.
#[derive(Clone, Copy, Debug)]
pub struct Gone;

/// Payload of a reply.
#[derive(Clone, Debug, Default)]
pub struct Parcel {
    /// The bytes, one part after another.
    pub parts: Vec<Bytes>,
    /// Their CRC-32C where it is known from when they were stored: the client sees by it what
    /// became of them since then.
    pub sum: Option<u32>,
}

impl From<Vec<Bytes>> for Parcel {
    fn from(parts: Vec<Bytes>) -> Parcel {
        Parcel { parts, sum: None }
    }
}

impl Parcel {
    /// How many bytes there are.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    /// Several, one after another.
    pub fn joined(parcels: impl IntoIterator<Item = Parcel>) -> Parcel {
        let (mut parts, mut sum) = (Vec::new(), Some(0));
        for parcel in parcels {
            let length = parcel.bytes() as usize;
            let both = sum.zip(parcel.sum);
            sum = both.map(|(first, second)| weft_sum::joined(first, second, length));
            parts.extend(parcel.parts);
        }
        Parcel { parts, sum }
    }
}

/// Bytes of a call's payload with their sums.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The bytes; they matched when they arrived.
    pub bytes: Bytes,
    /// Their CRC-32C, which is the one that the client computed, and those of their blocks, where
    /// they were received to stay.
    pub sums: Sums,
}

impl Payload {
    pub(super) fn new(
        wire: Arc<Wire>,
        id: u64,
        flow: Arc<Flow>,
        chunks: mpsc::UnboundedReceiver<Chunk>,
    ) -> Self {
        Payload {
            chunks,
            wire,
            id,
            flow,
            held: 0,
            owed: 0,
        }
    }

    /// The next bytes; `None` at the end, also when the caller is gone before it (so compare with
    /// the length the request announced).
    ///
    /// The caller sends no more than its window until [`Payload::release`] is called.
    pub async fn next(&mut self) -> Option<Bytes> {
        Some(self.next_chunk().await?.bytes)
    }

    /// As [`Payload::next`], with the sum: what was sent as one frame comes as one chunk.
    pub async fn next_chunk(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.recv().await?;
        self.held += window_cost(chunk.bytes.len());
        Some(chunk)
    }

    /// Lets the client send as much again as was taken so far: call it when all that memory is
    /// free.
    pub fn release(&mut self) {
        self.give_back(self.held);
    }

    /// Lets the client send as much again as one chunk of this length, where several are held at a
    /// time.
    pub fn release_chunk(&mut self, len: usize) {
        self.give_back(window_cost(len).min(self.held));
    }

    fn give_back(&mut self, cost: u64) {
        self.held -= cost;
        self.owed += cost;
        // In few frames: no caller runs dry for what is owed here.
        if self.owed >= u64::from(limits::CREDIT_MAX) {
            let owed = std::mem::take(&mut self.owed);
            self.wire.release(self.id, &self.flow, owed);
        }
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.chunks.close();
        while let Ok(chunk) = self.chunks.try_recv() {
            self.held += window_cost(chunk.bytes.len());
        }
        self.release();
    }
}

impl Reply {
    pub(super) fn new(kind: Kind, id: u64, wire: Arc<Wire>, flow: Arc<Flow>) -> Self {
        Reply {
            kind,
            id,
            wire,
            flow,
            begun: false,
            answered: false,
        }
    }

    /// Answers with a body and no payload.
    pub fn done<M: Message>(mut self, reply: &M) {
        debug_assert!(
            !self.begun,
            "a reply that began with its head ends with data"
        );
        match self.encode(reply) {
            Ok(body) => self.last(Flags::default(), body),
            Err(failure) => self.send_failure(&failure),
        }
    }

    /// As [`Reply::done`], of a call that changed something; `stamp` says what the change survives.
    pub fn done_at<M: Message>(mut self, reply: &M, stamp: &Stamp) {
        match self.encode(reply) {
            Ok(mut body) => {
                // Fields of their own numbers: appended, they are fields of the reply.
                body.extend(stamp.encode_to_vec());
                self.last(Flags::default(), body);
            }
            Err(failure) => self.send_failure(&failure),
        }
    }

    /// Answers with an error; also in the middle of a stream.
    pub fn fail(mut self, failure: &Failure) {
        self.send_failure(failure);
    }

    /// Begins a reply that carries payload, of any length; `last` if `payload` is all of it. Waits
    /// while the client grants no room.
    ///
    /// # Cancellation
    /// Dropped half way, the reply can only [`fail`](Reply::fail) or be dropped.
    pub async fn head<M: Message>(
        &mut self,
        reply: &M,
        payload: impl Into<Parcel>,
        last: bool,
    ) -> Result<(), Gone> {
        debug_assert!(!self.begun, "a reply has one head");
        self.begun = true;
        match self.encode(reply) {
            Ok(body) => self.send(self.kind, body, payload.into(), last).await,
            Err(failure) => {
                self.send_failure(&failure);
                Err(Gone)
            }
        }
    }

    /// Sends more of the payload; waits while the client grants no room.
    ///
    /// # Cancellation
    /// As [`Reply::head`].
    pub async fn data(&mut self, payload: impl Into<Parcel>, last: bool) -> Result<(), Gone> {
        debug_assert!(self.begun, "a reply begins with its head");
        self.send(Kind::Data, Vec::new(), payload.into(), last)
            .await
    }

    /// Whether nobody waits for the answer any more.
    pub fn cancelled(&self) -> bool {
        self.flow.cancelled()
    }

    /// Says that much is left to do: the call goes on in a task of its own, beside the others of
    /// its connection.
    pub async fn long(&self) {
        if !self.flow.is_long() {
            self.flow.becomes_long();
            tokio::task::yield_now().await;
        }
    }

    /// What tells of the caller while the reply is on its way.
    pub fn caller(&self) -> Caller {
        Caller(self.flow.clone())
    }

    /// Completes when nobody waits for the answer any more. Not for a reply that carries payload:
    /// this holds up its frames.
    pub async fn gone(&self) {
        // Never so much: the semaphore only closes, which is what a cancelled call's does.
        let _ = self.flow.room.acquire_many(u32::MAX).await;
    }

    async fn send(
        &mut self,
        kind: Kind,
        body: Vec<u8>,
        payload: Parcel,
        last: bool,
    ) -> Result<(), Gone> {
        debug_assert!(!self.answered, "nothing follows the last frame");
        let mut message = queue::Message {
            payload: payload.parts,
            sum: payload.sum,
            ..queue::Message::bare(kind, Flags::REPLY, self.id, body)
        };
        while let Some(rest) = cut(&mut message.payload) {
            // One sum of what leaves now, for its own frame and for the rest: what changes
            // meanwhile fits to neither.
            let now = message.sum.map(|_| sum_of(&message.payload));
            let sums = message.sum.zip(now);
            let later = sums.map(|(all, now)| sum_of_rest(now, all, &rest));
            message.sum = now;
            let kind = Kind::Data;
            let next = queue::Message {
                payload: rest,
                sum: later,
                ..queue::Message::bare(kind, Flags::REPLY, self.id, Vec::new())
            };
            self.send_frame(std::mem::replace(&mut message, next), false)
                .await?;
        }
        self.send_frame(message, last).await
    }

    async fn send_frame(&mut self, mut message: queue::Message, last: bool) -> Result<(), Gone> {
        let bytes: usize = message.payload.iter().map(Bytes::len).sum();
        let cost = window_cost(bytes);
        let room = self.flow.room.acquire_many(cost as u32).await;
        room.map_err(|_| Gone)?.forget();
        let leaving = last.then(|| {
            message.flags = message.flags.with(Flags::LAST);
            self.wire.leaving(self.id, &self.flow)
        });
        let whole = last && message.kind != Kind::Data;
        let queue = &self.wire.queue;
        let sent = if whole && cost <= u64::from(limits::CALL_WINDOW) {
            queue.urgent(message, leaving, self.wire.sender())
        } else {
            queue.bulk(message, leaving).await
        };
        sent.map_err(|_| Gone)?;
        self.answered = last;
        Ok(())
    }

    fn encode<M: Message>(&self, reply: &M) -> Result<Vec<u8>, Failure> {
        let body = reply.encode_to_vec();
        if body.len() <= limits::BODY_MAX as usize {
            return Ok(body);
        }
        let what = format!(
            "the reply to {} has {} bytes, which exceeds the limit of {}",
            self.kind.name(),
            body.len(),
            limits::BODY_MAX
        );
        Err(Failure::new(Code::Internal, what))
    }

    fn send_failure(&mut self, failure: &Failure) {
        let mut body = failure.encode_to_vec();
        if failure.message.len() > MESSAGE_MAX {
            let mut failure = failure.clone();
            let end = failure.message.floor_char_boundary(MESSAGE_MAX);
            failure.message.truncate(end);
            body = failure.encode_to_vec();
        }
        self.last(Flags::FAILED, body);
    }

    fn last(&mut self, flags: Flags, body: Vec<u8>) {
        self.answered = true;
        let flags = Flags::REPLY.with(Flags::LAST).with(flags);
        let message = queue::Message::bare(self.kind, flags, self.id, body);
        let leaving = self.wire.leaving(self.id, &self.flow);
        // On a closed queue there is nobody to answer.
        let _ = self
            .wire
            .queue
            .urgent(message, Some(leaving), self.wire.sender());
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let kind = self.kind.name();
        let failure = if self.cancelled() {
            Failure::new(
                Code::Cancelled,
                format!("{kind} was cancelled by its caller"),
            )
        } else {
            let what = format!("the server gave no answer to {kind}; see its log");
            Failure::new(Code::Internal, what)
        };
        self.send_failure(&failure);
    }
}

fn sum_of(parts: &[Bytes]) -> u32 {
    let join = |sum, part: &Bytes| weft_sum::joined(sum, weft_sum::of(part), part.len());
    parts.iter().fold(0, join)
}

/// The sum of the rest that goes with the sum of `all` and the one of what comes `now`: bytes that
/// changed since that of all was computed do not fit to it.
fn sum_of_rest(now: u32, all: u32, rest: &[Bytes]) -> u32 {
    let length = rest.iter().map(Bytes::len).sum();
    weft_sum::joined(now, 0, length) ^ all
}

/// Leaves in `payload` what one frame can carry and returns the rest, if there is any.
fn cut(payload: &mut Vec<Bytes>) -> Option<Vec<Bytes>> {
    let mut room = limits::PAYLOAD_MAX as usize;
    let at = payload.iter().position(|part| {
        let fits = part.len() <= room;
        room -= part.len().min(room);
        !fits
    })?;
    // `room` was what the part at `at` found, less what it took: recount.
    let before: usize = payload[..at].iter().map(Bytes::len).sum();
    let mut rest = payload.split_off(at);
    let fitting = rest[0].split_to(limits::PAYLOAD_MAX as usize - before);
    if !fitting.is_empty() {
        payload.push(fitting);
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_what_is_cut_goes_with_the_sum_of_all() {
        let (now, rest) = (weft_sum::of(b"we"), [Bytes::from_static(b"ft")]);
        let sum = sum_of_rest(now, weft_sum::of(b"weft"), &rest);
        assert_eq!(sum, weft_sum::of(b"ft"));
        assert_ne!(sum_of_rest(now, weft_sum::of(b"wift"), &rest), sum);
    }

    #[test]
    fn payload_is_cut_at_what_a_frame_can_carry() {
        let max = limits::PAYLOAD_MAX as usize;
        let parts = |sizes: &[usize]| -> Vec<Bytes> {
            sizes.iter().map(|n| Bytes::from(vec![0; *n])).collect()
        };
        let sizes = |parts: &[Bytes]| parts.iter().map(Bytes::len).collect::<Vec<_>>();
        let mut fits = parts(&[10, max - 10]);
        assert!(cut(&mut fits).is_none());
        let mut long = parts(&[10, max, 5]);
        let rest = cut(&mut long).unwrap();
        assert_eq!(sizes(&long), [10, max - 10]);
        assert_eq!(sizes(&rest), [10, 5]);
        let mut edge = parts(&[max, 1]);
        let rest = cut(&mut edge).unwrap();
        assert_eq!((sizes(&edge), sizes(&rest)), (vec![max], vec![1]));
    }
}
