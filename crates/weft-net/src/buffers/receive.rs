//! The interface between the reader of a connection and the memory that payloads are received into.

use bytes::Bytes;

/// A service's own memory for large payloads, in place of the connection's buffers.
pub trait ReceiveBuffers: Send + Sync {
    /// A buffer for a payload of `len` bytes; `None`: the connection uses one of its own.
    fn buffer(&self, len: usize) -> Option<Box<dyn ReceiveBuffer>>;
}

/// A buffer that one payload is being received into.
pub trait ReceiveBuffer: Send {
    /// All of it, as long as the payload.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// The payload, immutable from now on.
    fn freeze(self: Box<Self>) -> Bytes;
}
