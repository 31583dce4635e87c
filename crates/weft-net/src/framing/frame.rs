//! One received frame.

use bytes::Bytes;
use weft_proto::prost::Message;
use weft_proto::stamp::Stamp;
use weft_proto::{Call, FrameError, Header, Kind, body_from};
use weft_sum::Sums;

use super::chunk::Chunk;

/// A frame as it arrived, checksums checked.
#[derive(Debug)]
pub(crate) struct Frame {
    pub header: Header,
    pub body: Bytes,
    pub payload: Bytes,
    /// The checksums of the payload; of each block, too, where the service provided the buffer.
    pub sums: Sums,
}

impl Frame {
    pub(crate) fn body_as<M: Message + Default>(&self) -> Result<M, FrameError> {
        body_from(self.header.kind, &self.body)
    }

    /// The body as a reply, and the stamp of the change that the call made.
    pub(crate) fn stamped<M: Message + Default>(&self) -> Result<(M, Stamp), FrameError> {
        Ok((self.body_as()?, self.body_as()?))
    }

    /// The payload with its checksums.
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

/// The error for a frame of another kind than expected.
pub(crate) fn unexpected(kind: Kind, expected: Kind) -> FrameError {
    FrameError::Body {
        kind,
        reason: format!("expected {}", expected.name()),
    }
}
