//! Messages about shared offset pointers: each is kept by one of its file's I/O servers.

use super::collective::Membership;

/// A pointer of a file.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PointerName {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The name, 1 to [`POINTER_NAME_MAX`](crate::limits::POINTER_NAME_MAX) bytes.
    #[prost(string, tag = "2")]
    pub name: String,
}

/// Take the next bytes: the reply has the offset of the first one, and the pointer moves past them.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TakeOffsetRequest {
    /// The pointer, made at offset 0 if it does not exist.
    #[prost(message, required, tag = "1")]
    pub pointer: PointerName,
    /// A random number that stands for one user of the pointer.
    #[prost(uint64, tag = "2")]
    pub taker: u64,
    /// Ascends from take to take of a taker. A repeated one gets the former reply.
    #[prost(uint64, tag = "3")]
    pub sequence: u64,
    /// The number of bytes.
    #[prost(uint64, tag = "4")]
    pub bytes: u64,
    /// Wait for all members of a group, and take in the order of their numbers.
    #[prost(message, optional, tag = "5")]
    pub group: Option<Membership>,
}

/// The taken range.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TakeOffsetReply {
    /// Its first byte.
    #[prost(uint64, tag = "1")]
    pub offset: u64,
}

/// Get, set or remove a pointer.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PointerRequest {
    /// The pointer.
    #[prost(message, required, tag = "1")]
    pub pointer: PointerName,
    /// Its new offset.
    #[prost(uint64, optional, tag = "2")]
    pub set: Option<u64>,
    /// Remove it instead.
    #[prost(bool, tag = "3")]
    pub remove: bool,
}

/// The pointer.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct PointerReply {
    /// Its offset, now or before the removal; 0: there is none.
    #[prost(uint64, tag = "1")]
    pub offset: u64,
}
