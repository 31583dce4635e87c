//! Reads, writes and syncs.

use super::access::Access;
use super::cells::{CellRun, ForkState};
use crate::order::Claim;
use crate::stamp::Position;

/// Read; the reply's payload is the valid bytes of the pieces, packed in view order.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadRequest {
    /// The bytes.
    #[prost(message, required, tag = "1")]
    pub access: Access,
    /// Its place in the order of the file, if it has one.
    #[prost(message, optional, tag = "2")]
    pub claim: Option<Claim>,
}

/// Heads the stream of a read.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadReply {
    /// The fork's length in each touched cell that has bytes: pieces end there, bytes beyond it are
    /// not sent.
    #[prost(message, repeated, tag = "1")]
    pub lengths: Vec<CellRun>,
    /// Payload bytes that follow, in this and later frames.
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
    /// Cells of the slot may be longer (they are in doubt); the request touches no byte in doubt.
    #[prost(bool, tag = "3")]
    pub doubted: bool,
    /// The claim was granted. If there was one and it was not granted, nothing follows.
    #[prost(bool, tag = "4")]
    pub granted: bool,
}

/// Write; the payload is the bytes of the pieces, packed in view order.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WriteRequest {
    /// The bytes.
    #[prost(message, required, tag = "1")]
    pub access: Access,
    /// The file's chunk size.
    #[prost(uint32, tag = "2")]
    pub chunk: u32,
    /// Payload bytes that follow, in this and later frames.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// Answer only when the bytes survive power loss.
    #[prost(bool, tag = "4")]
    pub sync: bool,
    /// The request touches bytes more than once: what comes later in the payload wins.
    #[prost(bool, tag = "5")]
    pub ordered: bool,
    /// Its place in the order of the file, if it has one. Unless the operation is alone, the bytes
    /// are staged, and take effect with a later call.
    #[prost(message, optional, tag = "6")]
    pub claim: Option<Claim>,
    /// When the bytes were written, in nanoseconds since the epoch, where that counts and not when
    /// they arrive: the file's time of modification has been set since. 0: when they arrive.
    #[prost(int64, tag = "7")]
    pub written: i64,
}

/// The bytes survive the death of the server's process, unless they are staged only.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct WriteReply {
    /// Bytes written, or staged.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
    /// The claim was granted. If there was one and it was not granted, the bytes are only staged.
    #[prost(bool, tag = "2")]
    pub granted: bool,
}

/// Make acknowledged writes survive power loss.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SyncRequest {
    /// The file whose lengths the reply reports; 0: none. Everything on the server is synced,
    /// whatever the file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The positions that the client got for its writes: the server answers
    /// [`Lost`](crate::Code::Lost) if it lacks one of them, and syncs nothing.
    #[prost(message, repeated, tag = "2")]
    pub written: Vec<Position>,
    /// Only check whether these writes are there.
    #[prost(bool, tag = "3")]
    pub check_only: bool,
}

/// Done. Carries the lengths of the cells, so that a sync yields the file's size without another
/// request.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SyncReply {
    /// `data` fork lengths and times of the file's cells on this server.
    #[prost(message, repeated, tag = "1")]
    pub cells: Vec<ForkState>,
}
