//! The frame: 32 fixed bytes, little-endian, then body, then payload.
//!
//! ```text
//!  0      4       5      6       8              16        20           24           28          32
//!  | WEFT | kind  | zero | flags | request id   | body len | payload len | payload crc | header crc |
//! ```
//!
//! The header's CRC-32C covers its first 28 bytes and the body, so a damaged length is noticed
//! before it is trusted with anything but the bounds of [`crate::limits`].

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use thiserror::Error;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Kind, limits};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 32;
/// Offset of the checksums in a header. They reveal something of payload and body, so they are
/// encrypted where those are.
pub const CHECKSUMS_AT: usize = 24;
const MAGIC: [u8; 4] = *b"WEFT";

/// The position of a frame within its call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// The frame travels from the server to the client.
    pub const REPLY: Flags = Flags(1);
    /// The last frame of this direction of the call.
    pub const LAST: Flags = Flags(2);
    /// The body is a [`crate::Failure`]; ends the call.
    pub const FAILED: Flags = Flags(4);
    const KNOWN: u16 = 7;

    /// The union of both sets of flags.
    #[must_use]
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of `other` is set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The fixed part of a frame, decoded and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which call.
    pub kind: Kind,
    /// Its position within the call.
    pub flags: Flags,
    /// The call's number, chosen by the client, unique among those in flight on the connection.
    pub request: u64,
    /// Bytes of the body.
    pub body_len: u32,
    /// Bytes of the payload.
    pub payload_len: u32,
    payload_crc: u32,
    crc: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 4],
    kind: u8,
    zero: u8,
    flags: U16,
    request: U64,
    body_len: U32,
    payload_len: U32,
    payload_crc: U32,
    header_crc: U32,
}

/// Why bytes are not a frame of Weft.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    /// The first bytes are not those of a Weft frame.
    #[error("the peer does not speak Weft's protocol (it began with {0:02x?})")]
    Magic([u8; 4]),
    /// A kind of call this build does not know.
    #[error("unknown kind of message {0}; the peer may be of another version")]
    Kind(u8),
    /// Reserved bits or bytes are set.
    #[error("unknown flags {0:#06x}; the peer may be of another version")]
    Flags(u16),
    /// A body over the bound.
    #[error("a message body of {0} bytes exceeds the limit of {max}", max = limits::BODY_MAX)]
    BodyTooLong(u32),
    /// A payload over the bound.
    #[error("a payload of {0} bytes exceeds the limit of {max}", max = limits::PAYLOAD_MAX)]
    PayloadTooLong(u32),
    /// Header or body was damaged on the way.
    #[error(
        "a message was damaged on the way: header checksum {found:#010x}, expected {expected:#010x}"
    )]
    HeaderChecksum {
        /// Computed from the bytes received.
        found: u32,
        /// Sent by the peer.
        expected: u32,
    },
    /// The payload was damaged on the way.
    #[error("a payload was damaged on the way: checksum {found:#010x}, expected {expected:#010x}")]
    PayloadChecksum {
        /// Computed from the bytes received.
        found: u32,
        /// Sent by the peer.
        expected: u32,
    },
    /// The body is not a message of the kind that the header names.
    #[error("a message of kind {kind:?} cannot be decoded: {reason}")]
    Body {
        /// The header's kind.
        kind: Kind,
        /// The decoder's message.
        reason: String,
    },
}

fn crc<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    digest.finalize() as u32
}

impl Header {
    /// Encodes the header of a frame with this body and payload.
    ///
    /// # Panics
    /// When body or payload exceed [`crate::limits`]: the sender splits before it encodes.
    pub fn encode(
        kind: Kind,
        flags: Flags,
        request: u64,
        body: &[u8],
        payload: &[Bytes],
    ) -> [u8; HEADER_BYTES] {
        let length = payload.iter().map(Bytes::len).sum();
        let sum = crc(payload.iter().map(Bytes::as_ref));
        Header::summed(kind, flags, request, body, length, sum)
    }

    /// As [`Header::encode`], for a payload whose length and checksum are known from elsewhere. The
    /// receiver notices any change of the bytes since that checksum was computed.
    pub fn summed(
        kind: Kind,
        flags: Flags,
        request: u64,
        body: &[u8],
        payload_len: usize,
        payload_sum: u32,
    ) -> [u8; HEADER_BYTES] {
        assert!(
            body.len() <= limits::BODY_MAX as usize,
            "body over its bound"
        );
        assert!(
            payload_len <= limits::PAYLOAD_MAX as usize,
            "payload over its bound"
        );
        let mut raw = RawHeader {
            magic: MAGIC,
            kind: kind.code(),
            zero: 0,
            flags: U16::new(flags.0),
            request: U64::new(request),
            body_len: U32::new(body.len() as u32),
            payload_len: U32::new(payload_len as u32),
            payload_crc: U32::new(payload_sum),
            header_crc: U32::new(0),
        };
        let sum = crc([&raw.as_bytes()[..28], body]);
        raw.header_crc = U32::new(sum);
        let mut out = [0; HEADER_BYTES];
        out.copy_from_slice(raw.as_bytes());
        out
    }

    /// Checks whether a frame can begin with these bytes, however few, so that a peer of another
    /// protocol is refused before 32 bytes have arrived.
    ///
    /// # Errors
    /// [`FrameError::Magic`], with zeros for bytes that have not arrived.
    pub fn check_begin(prefix: &[u8]) -> Result<(), FrameError> {
        let seen = prefix.len().min(MAGIC.len());
        if prefix[..seen] == MAGIC[..seen] {
            return Ok(());
        }
        let mut found = [0; 4];
        found[..seen].copy_from_slice(&prefix[..seen]);
        Err(FrameError::Magic(found))
    }

    /// Decodes a header and checks everything that needs no body: magic, kind, flags and bounds.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, FrameError> {
        let Ok(raw) = RawHeader::ref_from_bytes(bytes) else {
            unreachable!("a header is unaligned and exactly this long")
        };
        if raw.magic != MAGIC {
            return Err(FrameError::Magic(raw.magic));
        }
        let flags = raw.flags.get();
        if flags & !Flags::KNOWN != 0 || raw.zero != 0 {
            return Err(FrameError::Flags(flags | u16::from(raw.zero) << 8));
        }
        let (body_len, payload_len) = (raw.body_len.get(), raw.payload_len.get());
        if body_len > limits::BODY_MAX {
            return Err(FrameError::BodyTooLong(body_len));
        }
        if payload_len > limits::PAYLOAD_MAX {
            return Err(FrameError::PayloadTooLong(payload_len));
        }
        Ok(Header {
            kind: Kind::from_code(raw.kind).ok_or(FrameError::Kind(raw.kind))?,
            flags: Flags(flags),
            request: raw.request.get(),
            body_len,
            payload_len,
            payload_crc: raw.payload_crc.get(),
            crc: raw.header_crc.get(),
        })
    }

    /// Checks header and body against the header's checksum.
    pub fn check_body(&self, header: &[u8; HEADER_BYTES], body: &[u8]) -> Result<(), FrameError> {
        let found = crc([&header[..28], body]);
        if found == self.crc {
            Ok(())
        } else {
            Err(FrameError::HeaderChecksum {
                found,
                expected: self.crc,
            })
        }
    }

    /// Checks the payload against the header's checksum.
    pub fn check_payload(&self, payload: &[u8]) -> Result<(), FrameError> {
        self.check_payload_sum(crc([payload]))
    }

    /// Checks a payload's checksum, computed by the caller, against the header's.
    pub fn check_payload_sum(&self, found: u32) -> Result<(), FrameError> {
        if found == self.payload_crc {
            Ok(())
        } else {
            Err(FrameError::PayloadChecksum {
                found,
                expected: self.payload_crc,
            })
        }
    }
}

/// Decodes a body as a message of the kind that its header names.
pub fn body_from<M: prost::Message + Default>(kind: Kind, body: &[u8]) -> Result<M, FrameError> {
    M::decode(body).map_err(|e| FrameError::Body {
        kind,
        reason: e.to_string(),
    })
}
