//! Frames from a byte stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use weft_proto::stamp::Stamp;
use weft_proto::{Call, FrameError, HEADER_BYTES, Header, Kind, body_from, limits};
use weft_sum::Sums;

use crate::counters::Counters;
use crate::env::BoxRead;
use crate::error::ReadError;
use crate::landing::Landing;
use crate::pool::BufferPool;
use crate::protection::{Opener, TAG_BYTES};
use crate::server::Chunk;

/// Payloads above this are received into a pooled buffer of their own instead of the shared one.
const LARGE: usize = 16 << 10;
/// Bytes asked of the system at a time for headers, bodies and small payloads.
const READ_AHEAD: usize = 16 << 10;

/// A frame as it arrived, checksums checked.
#[derive(Debug)]
pub(crate) struct Frame {
    pub header: Header,
    pub body: Bytes,
    pub payload: Bytes,
    /// The payload's, block by block where it was received to stay.
    pub sums: Sums,
}

impl Frame {
    pub(crate) fn body_as<M: prost_message::Message + Default>(&self) -> Result<M, FrameError> {
        body_from(self.header.kind, &self.body)
    }

    /// The body as a reply, and what it says of the change that its call made.
    pub(crate) fn stamped<M: prost_message::Message + Default>(
        &self,
    ) -> Result<(M, Stamp), FrameError> {
        Ok((self.body_as()?, self.body_as()?))
    }

    /// The payload with its sums.
    pub(crate) fn into_chunk(self) -> Chunk {
        Chunk {
            bytes: self.payload,
            sums: self.sums,
        }
    }

    /// The request of a call of this kind.
    pub(crate) fn request<C: Call>(&self) -> Result<C, FrameError> {
        if self.header.kind == C::KIND {
            self.body_as()
        } else {
            Err(unexpected(self.header.kind, C::KIND))
        }
    }
}

pub(crate) fn unexpected(kind: Kind, expected: Kind) -> FrameError {
    FrameError::Body {
        kind,
        reason: format!("expected {}", expected.name()),
    }
}

pub(crate) struct FrameReader {
    stream: BoxRead,
    buffer: BytesMut,
    pool: BufferPool,
    landing: Option<Arc<dyn Landing>>,
    counters: Arc<Counters>,
    body_max: u32,
    payload_max: u32,
    admits: Option<Admits>,
    /// Checks the tags of frames, where they have some.
    opener: Option<Opener>,
    arrived: Arc<AtomicU64>,
}

/// Says whether there is room for a frame's payload.
pub(crate) type Admits = Box<dyn Fn(&Header) -> Result<(), String> + Send + Sync>;

impl FrameReader {
    /// A reader that takes frames of a handshake only.
    pub(crate) fn new(stream: BoxRead, pool: BufferPool, counters: Arc<Counters>) -> Self {
        FrameReader {
            stream,
            buffer: BytesMut::new(),
            pool,
            landing: None,
            counters,
            body_max: limits::HANDSHAKE_BODY_MAX,
            payload_max: 0,
            admits: None,
            opener: None,
            arrived: Arc::default(),
        }
    }

    /// Where its buffers come from.
    pub(crate) fn pool(&self) -> BufferPool {
        self.pool.clone()
    }

    /// Frames have tags from now on.
    pub(crate) fn open_with(&mut self, opener: Option<Opener>) {
        self.opener = opener;
    }

    /// The peer is proven: frames may be as large as the protocol allows.
    pub(crate) fn proven(&mut self) {
        (self.body_max, self.payload_max) = (limits::BODY_MAX, limits::PAYLOAD_MAX);
    }

    /// Large payloads are received there from now on.
    pub(crate) fn land_in(&mut self, landing: Option<Arc<dyn Landing>>) {
        self.landing = landing;
    }

    /// No memory is taken for a payload that `admits` refuses.
    pub(crate) fn admit_by(&mut self, admits: Admits) {
        self.admits = Some(admits);
    }

    /// Changes whenever bytes arrive, also in the middle of a frame.
    pub(crate) fn arrived(&self) -> Arc<AtomicU64> {
        self.arrived.clone()
    }

    /// The next frame.
    ///
    /// Memory: at most one body and one payload, and those only after their lengths were checked;
    /// before [`FrameReader::proven`] no payload and a body of a few KiB.
    ///
    /// # Cancellation
    /// Not safe to drop: a frame may be half read.
    pub(crate) async fn next(&mut self) -> Result<Frame, ReadError> {
        self.fill(HEADER_BYTES, true).await?;
        let mut raw = [0; HEADER_BYTES];
        raw.copy_from_slice(&self.buffer[..HEADER_BYTES]);
        let mut header = Header::decode(&raw)?;
        if header.body_len > self.body_max {
            return Err(FrameError::BodyTooLong(header.body_len).into());
        }
        if header.payload_len > self.payload_max {
            return Err(FrameError::PayloadTooLong(header.payload_len).into());
        }
        let covers = |opener: &Opener| opener.covers(header.flags);
        let tag = if self.opener.as_ref().is_some_and(covers) {
            TAG_BYTES
        } else {
            0
        };
        let length = HEADER_BYTES + header.body_len as usize;
        let mut head = self.head(length + tag).await?;
        if tag > 0
            && let Some(opener) = &mut self.opener
        {
            opener.open_head(&mut head)?;
            // Its checksums may have been encrypted.
            raw.copy_from_slice(&head[..HEADER_BYTES]);
            header = Header::decode(&raw)?;
        }
        let body = head.freeze().split_off(HEADER_BYTES);
        header.check_body(&raw, &body)?;
        if let Some(admits) = &self.admits
            && header.payload_len > 0
        {
            admits(&header).map_err(ReadError::Refused)?;
        }
        let length = header.payload_len as usize;
        let tags = match &self.opener {
            Some(opener) if tag > 0 => opener.payload_tags(length),
            _ => 0,
        };
        let (payload, landed) = self.payload(length, tags).await?;
        let sums = if landed {
            Sums::of(&payload)
        } else {
            Sums::from(weft_sum::of(&payload))
        };
        header.check_payload_sum(sums.all())?;
        self.counters
            .received(HEADER_BYTES + body.len() + tag + payload.len() + tags);
        Ok(Frame {
            header,
            body,
            payload,
            sums,
        })
    }

    /// Header, body and tag of a frame, in one piece.
    async fn head(&mut self, len: usize) -> Result<BytesMut, ReadError> {
        if len <= LARGE {
            self.fill(len, false).await?;
            return Ok(self.buffer.split_to(len));
        }
        // In memory of its own: the buffer would stay as large as long as the connection lives.
        let ahead = self.buffer.split_to(self.buffer.len().min(len));
        let mut head = BytesMut::with_capacity(len);
        head.extend_from_slice(&ahead);
        let mut rest = head.limit(len - ahead.len());
        while rest.has_remaining_mut() {
            if self.stream.read_buf(&mut rest).await? == 0 {
                return Err(ReadError::Io(std::io::ErrorKind::UnexpectedEof.into()));
            }
            self.arrived.fetch_add(1, Ordering::Relaxed);
        }
        Ok(rest.into_inner())
    }

    /// A payload that so many bytes of tags follow, checked by them, and whether it was received to
    /// stay where it is.
    async fn payload(&mut self, len: usize, tags: usize) -> Result<(Bytes, bool), ReadError> {
        if len <= LARGE {
            self.fill(len + tags, false).await?;
            let mut payload = self.buffer.split_to(len);
            self.check(&mut payload, tags)?;
            return Ok((payload.freeze(), false));
        }
        let landing = self.landing.as_ref().and_then(|l| l.land(len));
        let landed = landing.is_some();
        let mut target = landing.unwrap_or_else(|| Box::new(self.pool.take(len)));
        let memory = target.bytes_mut();
        let ahead = self.buffer.len().min(len);
        self.buffer.copy_to_slice(&mut memory[..ahead]);
        let mut missing = &mut memory[ahead..];
        while !missing.is_empty() {
            let n = self.stream.read(missing).await?;
            if n == 0 {
                return Err(ReadError::Io(std::io::ErrorKind::UnexpectedEof.into()));
            }
            self.arrived.fetch_add(1, Ordering::Relaxed);
            missing = &mut missing[n..];
        }
        self.fill(tags, false).await?;
        self.check(target.bytes_mut(), tags)?;
        Ok((target.freeze(), landed))
    }

    /// Checks a payload by the tags that are next in the buffer.
    fn check(&mut self, payload: &mut [u8], tags: usize) -> Result<(), ReadError> {
        let tags = self.buffer.split_to(tags);
        match &self.opener {
            Some(opener) if !tags.is_empty() => Ok(opener.open_payload(payload, &tags)?),
            _ => Ok(()),
        }
    }

    async fn fill(&mut self, len: usize, at_boundary: bool) -> Result<(), ReadError> {
        while self.buffer.len() < len {
            self.buffer
                .reserve((len - self.buffer.len()).max(READ_AHEAD));
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return if at_boundary && self.buffer.is_empty() {
                    Err(ReadError::Closed)
                } else {
                    Err(ReadError::Io(std::io::ErrorKind::UnexpectedEof.into()))
                };
            }
            self.arrived.fetch_add(1, Ordering::Relaxed);
            if at_boundary {
                Header::check_begin(&self.buffer)?;
            }
        }
        Ok(())
    }
}

/// The one trait of the protobuf library that generic code here needs.
pub(crate) mod prost_message {
    pub(crate) use weft_proto::prost::Message;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::io::AsyncWriteExt;
    use weft_proto::Flags;

    use super::*;
    use crate::landing::Landed;

    /// Has memory for payloads below a megabyte, and counts what is out.
    #[derive(Clone, Default)]
    struct Field(Arc<AtomicUsize>);

    struct Plot(Vec<u8>, Field);

    impl Landing for Field {
        fn land(&self, len: usize) -> Option<Box<dyn Landed>> {
            if len == 1 << 20 {
                return None;
            }
            self.0.fetch_add(1, Ordering::Relaxed);
            Some(Box::new(Plot(vec![0; len], self.clone())))
        }
    }

    impl AsRef<[u8]> for Plot {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Plot {
        fn drop(&mut self) {
            self.1.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    impl Landed for Plot {
        fn bytes_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }

        fn freeze(self: Box<Self>) -> Bytes {
            Bytes::from_owner(*self)
        }
    }

    fn frame(payload: &Bytes) -> Vec<u8> {
        let all = std::slice::from_ref(payload);
        let head = Header::encode(Kind::Data, Flags::LAST, 1, b"", all);
        [&head[..], payload].concat()
    }

    #[tokio::test]
    async fn large_payloads_are_received_where_the_service_has_memory_for_them() {
        let (mut to, from) = tokio::io::duplex(1 << 12);
        let mut reader = FrameReader::new(Box::new(from), BufferPool::default(), Arc::default());
        reader.proven();
        let field = Field::default();
        reader.land_in(Some(Arc::new(field.clone())));
        let out = || field.0.load(Ordering::Relaxed);
        // Too small, received there, refused there; each begins in what was read with the frame
        // before.
        let lengths = [LARGE, LARGE + 1, 1 << 20, 500_000, 3];
        let payload = |n| (0..n).map(|i| (i * 7 + n) as u8).collect::<Bytes>();
        let payloads = lengths.map(payload);
        let sent = payloads.clone();
        let sending = tokio::spawn(async move {
            let all: Vec<u8> = sent.iter().flat_map(frame).collect();
            to.write_all(&all).await.unwrap();
            to
        });
        let mut frames = Vec::new();
        for (payload, held) in payloads.iter().zip([0, 1, 1, 2, 2]) {
            let frame = reader.next().await.unwrap();
            assert!(frame.payload == payload);
            frames.push(frame);
            assert_eq!(out(), held);
        }
        drop(frames);
        assert_eq!(out(), 0);
        // Damaged on the way, and cut off in the middle.
        let mut to = sending.await.unwrap();
        let mut damaged = frame(&payloads[3]);
        *damaged.last_mut().unwrap() ^= 1;
        let cut = frame(&payloads[3])[..300_000].to_vec();
        tokio::spawn(async move {
            to.write_all(&damaged).await.unwrap();
            to.write_all(&cut).await.unwrap();
        });
        assert!(matches!(reader.next().await, Err(ReadError::Frame(_))));
        assert!(matches!(reader.next().await, Err(ReadError::Io(_))));
        assert_eq!(out(), 0);
    }
}
