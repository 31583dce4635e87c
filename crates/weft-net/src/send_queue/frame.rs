//! Frames on their way into the queue, and as they lie in it.

use bytes::Bytes;
use weft_proto::{Flags, HEADER_BYTES, Header, Kind};

use crate::protection::{Sealer, TAG_BYTES};

/// A frame to send, not yet encoded.
pub(crate) struct OutgoingFrame {
    pub kind: Kind,
    pub flags: Flags,
    pub request: u64,
    pub body: Vec<u8>,
    pub payload: Vec<Bytes>,
    /// The payload's CRC-32C, where it is known.
    pub sum: Option<u32>,
}

/// Called just before the bytes of a frame are written: the peer's answer to them must find
/// everything in place.
pub(crate) type BeforeWrite = Box<dyn FnOnce() + Send + Sync>;

/// A frame in the queue.
pub(super) struct EncodedFrame {
    /// Header and body; their tag, too, once it is sealed.
    head: Vec<u8>,
    payload: Vec<Bytes>,
    /// The tags of the payload.
    tags: Vec<u8>,
    /// Bytes of head, payload and tags.
    pub bytes: usize,
    /// The frame was queued after frames had to be protected.
    pub protected: bool,
    /// Its share of the bulk lane's budget.
    pub bulk_bytes: usize,
    /// It is a frame of the connection itself.
    pub control: bool,
    pub before_write: Option<BeforeWrite>,
}

impl OutgoingFrame {
    /// A frame without payload.
    pub(crate) fn bare(kind: Kind, flags: Flags, request: u64, body: Vec<u8>) -> Self {
        OutgoingFrame {
            kind,
            flags,
            request,
            body,
            payload: Vec::new(),
            sum: None,
        }
    }

    pub(super) fn encode(self) -> EncodedFrame {
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
        payload.retain(|piece| !piece.is_empty());
        EncodedFrame {
            bytes: head.len() + payload.iter().map(Bytes::len).sum::<usize>(),
            head,
            payload,
            tags: Vec::new(),
            protected: false,
            bulk_bytes: 0,
            control: false,
            before_write: None,
        }
    }
}

impl EncodedFrame {
    /// The slices to write, in order.
    pub(super) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let payload = self.payload.iter().map(|piece| &piece[..]);
        let tags = (!self.tags.is_empty()).then_some(&self.tags[..]);
        std::iter::once(&self.head[..]).chain(payload).chain(tags)
    }

    /// An upper bound of the number of slices.
    pub(super) fn slices_max(&self) -> usize {
        2 + self.payload.len()
    }

    /// Adds the frame's tags, and encrypts it where the connection is encrypted.
    pub(super) fn seal(&mut self, sealer: &mut Sealer) {
        self.tags = sealer.seal(&mut self.head, &mut self.payload);
        self.bytes = self.slices().map(<[u8]>::len).sum();
    }
}
