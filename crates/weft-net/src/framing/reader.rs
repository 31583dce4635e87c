//! Frames from a byte stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use weft_proto::{FrameError, HEADER_BYTES, Header, limits};
use weft_sum::Sums;

use super::frame::Frame;
use crate::buffers::{BufferPool, ReceiveBuffers};
use crate::counters::Counters;
use crate::error::ReadError;
use crate::limits::{LARGE_PAYLOAD, READ_BATCH};
use crate::protection::{Opener, TAG_BYTES};
use crate::transport::BoxRead;

/// Reads frames from a byte stream.
pub(crate) struct FrameReader {
    stream: BoxRead,
    buffer: BytesMut,
    pool: BufferPool,
    /// The service's buffers for large payloads, if it has any.
    buffers: Option<Arc<dyn ReceiveBuffers>>,
    counters: Arc<Counters>,
    body_max: u32,
    payload_max: u32,
    admit: Option<Admit>,
    /// Checks the tags of frames, if they have tags.
    opener: Option<Opener>,
    /// Counts reads that returned bytes.
    arrived: Arc<AtomicU64>,
}

/// Decides whether a frame's payload is within what the peer was granted.
pub(crate) type Admit = Box<dyn Fn(&Header) -> Result<(), String> + Send + Sync>;

impl FrameReader {
    /// A reader that accepts only frames of the handshake.
    pub(crate) fn new(stream: BoxRead, pool: BufferPool, counters: Arc<Counters>) -> Self {
        FrameReader {
            stream,
            buffer: BytesMut::new(),
            pool,
            buffers: None,
            counters,
            body_max: limits::HANDSHAKE_BODY_MAX,
            payload_max: 0,
            admit: None,
            opener: None,
            arrived: Arc::default(),
        }
    }

    /// The pool of its buffers.
    pub(crate) fn pool(&self) -> BufferPool {
        self.pool.clone()
    }

    /// Frames have tags from now on.
    pub(crate) fn open_with(&mut self, opener: Option<Opener>) {
        self.opener = opener;
    }

    /// The peer is authenticated: frames may be as large as the protocol allows.
    pub(crate) fn authenticated(&mut self) {
        (self.body_max, self.payload_max) = (limits::BODY_MAX, limits::PAYLOAD_MAX);
    }

    /// Large payloads are received into these buffers from now on.
    pub(crate) fn receive_into(&mut self, buffers: Option<Arc<dyn ReceiveBuffers>>) {
        self.buffers = buffers;
    }

    /// From now on, no memory is allocated for a payload that `admit` refuses.
    pub(crate) fn admit_by(&mut self, admit: Admit) {
        self.admit = Some(admit);
    }

    /// A counter that changes whenever bytes arrive, also within a frame.
    pub(crate) fn arrived(&self) -> Arc<AtomicU64> {
        self.arrived.clone()
    }

    /// The next frame.
    ///
    /// Memory: at most one body and one payload, and those only after their lengths were checked;
    /// before [`FrameReader::authenticated`] no payload and a body of a few KiB.
    ///
    /// # Cancellation
    /// Not safe: a frame may be half read.
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
            // The checksums may have been encrypted.
            raw.copy_from_slice(&head[..HEADER_BYTES]);
            header = Header::decode(&raw)?;
        }
        let body = head.freeze().split_off(HEADER_BYTES);
        header.check_body(&raw, &body)?;
        if let Some(admit) = &self.admit
            && header.payload_len > 0
        {
            admit(&header).map_err(ReadError::Refused)?;
        }
        let length = header.payload_len as usize;
        let tags = match &self.opener {
            Some(opener) if tag > 0 => opener.payload_tags(length),
            _ => 0,
        };
        let (payload, kept) = self.payload(length, tags).await?;
        let sums = if kept {
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

    /// Header, body and tag of a frame, contiguous.
    async fn head(&mut self, len: usize) -> Result<BytesMut, ReadError> {
        if len <= LARGE_PAYLOAD {
            self.fill(len, false).await?;
            return Ok(self.buffer.split_to(len));
        }
        // Separate memory: the shared buffer would stay that large as long as the connection lives.
        let buffered = self.buffer.split_to(self.buffer.len().min(len));
        let mut head = BytesMut::with_capacity(len);
        head.extend_from_slice(&buffered);
        let mut rest = head.limit(len - buffered.len());
        while rest.has_remaining_mut() {
            if self.stream.read_buf(&mut rest).await? == 0 {
                return Err(ReadError::Io(std::io::ErrorKind::UnexpectedEof.into()));
            }
            self.arrived.fetch_add(1, Ordering::Relaxed);
        }
        Ok(rest.into_inner())
    }

    /// The payload, checked against the `tags` bytes of tags that follow it, and whether it lies in
    /// a buffer of the service.
    async fn payload(&mut self, len: usize, tags: usize) -> Result<(Bytes, bool), ReadError> {
        if len <= LARGE_PAYLOAD {
            self.fill(len + tags, false).await?;
            let mut payload = self.buffer.split_to(len);
            self.check(&mut payload, tags)?;
            return Ok((payload.freeze(), false));
        }
        let buffer = self.buffers.as_ref().and_then(|b| b.buffer(len));
        let kept = buffer.is_some();
        let mut target = buffer.unwrap_or_else(|| Box::new(self.pool.take(len)));
        let memory = target.bytes_mut();
        let buffered = self.buffer.len().min(len);
        self.buffer.copy_to_slice(&mut memory[..buffered]);
        let mut missing = &mut memory[buffered..];
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
        Ok((target.freeze(), kept))
    }

    /// Checks a payload against the tags that are next in the shared buffer.
    fn check(&mut self, payload: &mut [u8], tags: usize) -> Result<(), ReadError> {
        let tags = self.buffer.split_to(tags);
        match &self.opener {
            Some(opener) if !tags.is_empty() => Ok(opener.open_payload(payload, &tags)?),
            _ => Ok(()),
        }
    }

    /// Reads until the shared buffer holds `len` bytes; `at_boundary` says that a frame may begin
    /// here, or the stream end.
    async fn fill(&mut self, len: usize, at_boundary: bool) -> Result<(), ReadError> {
        while self.buffer.len() < len {
            self.buffer
                .reserve((len - self.buffer.len()).max(READ_BATCH));
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::io::AsyncWriteExt;
    use weft_proto::{Flags, Kind};

    use super::*;
    use crate::buffers::ReceiveBuffer;

    /// Provides buffers for payloads below a megabyte, and counts those in use.
    #[derive(Clone, Default)]
    struct CountedBuffers(Arc<AtomicUsize>);

    struct CountedBuffer(Vec<u8>, CountedBuffers);

    impl ReceiveBuffers for CountedBuffers {
        fn buffer(&self, len: usize) -> Option<Box<dyn ReceiveBuffer>> {
            if len == 1 << 20 {
                return None;
            }
            self.0.fetch_add(1, Ordering::Relaxed);
            Some(Box::new(CountedBuffer(vec![0; len], self.clone())))
        }
    }

    impl AsRef<[u8]> for CountedBuffer {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for CountedBuffer {
        fn drop(&mut self) {
            self.1.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    impl ReceiveBuffer for CountedBuffer {
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
    async fn large_payloads_are_received_into_the_buffers_of_the_service() {
        let (mut to, from) = tokio::io::duplex(1 << 12);
        let mut reader = FrameReader::new(Box::new(from), BufferPool::default(), Arc::default());
        reader.authenticated();
        let buffers = CountedBuffers::default();
        reader.receive_into(Some(Arc::new(buffers.clone())));
        let in_use = || buffers.0.load(Ordering::Relaxed);
        // Too small, accepted, refused; each payload starts in bytes that were read with the
        // previous frame.
        let lengths = [LARGE_PAYLOAD, LARGE_PAYLOAD + 1, 1 << 20, 500_000, 3];
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
            assert_eq!(in_use(), held);
        }
        drop(frames);
        assert_eq!(in_use(), 0);
        // A damaged and a truncated frame release their buffers.
        let mut to = sending.await.unwrap();
        let mut damaged = frame(&payloads[3]);
        *damaged.last_mut().unwrap() ^= 1;
        let truncated = frame(&payloads[3])[..300_000].to_vec();
        tokio::spawn(async move {
            to.write_all(&damaged).await.unwrap();
            to.write_all(&truncated).await.unwrap();
        });
        assert!(matches!(reader.next().await, Err(ReadError::Frame(_))));
        assert!(matches!(reader.next().await, Err(ReadError::Io(_))));
        assert_eq!(in_use(), 0);
    }
}
