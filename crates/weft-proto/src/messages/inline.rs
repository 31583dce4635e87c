//! Messages to the metadata service about small files whose bytes lie with their metadata
//! (*inline*).

use bytes::Bytes;

use crate::meta::{Attributes, SetAttributesRequest};

/// Replace all bytes of an inline file, which the client has attached for writing with `inline`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StoreInlineRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// All its bytes, at most [`INLINE_MAX`](crate::limits::INLINE_MAX) bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub data: Bytes,
    /// Time of the last write, in nanoseconds since the epoch.
    #[prost(int64, tag = "3")]
    pub modified: i64,
    /// The attachment ends, as by a report.
    #[prost(bool, tag = "4")]
    pub detach: bool,
    /// The writer is not privileged: the file loses its set-id bits.
    #[prost(bool, tag = "5")]
    pub kill_priv: bool,
    /// Attributes to change in the same transaction, after the content; its target is ignored.
    #[prost(message, optional, tag = "6")]
    pub set: Option<SetAttributesRequest>,
}

/// Done.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StoreInlineReply {
    /// The file's attributes now.
    #[prost(message, required, tag = "1")]
    pub attributes: Attributes,
}

/// Move the bytes of an inline file to its cells for good; does nothing if they are there already.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SpillRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
}

/// Done, and survives power loss.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SpillReply {}
