//! Payload with its checksums.

use bytes::Bytes;
use weft_sum::Sums;

/// Bytes of a call's payload with their checksums.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The bytes; they matched the checksum when they arrived.
    pub bytes: Bytes,
    /// Their CRC-32C, which is the one that the client computed; and those of their blocks, where
    /// they were received into a buffer of the service.
    pub sums: Sums,
}
