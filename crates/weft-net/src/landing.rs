//! Memory that a service receives into, where it is to stay.

use bytes::Bytes;

/// Where a service has large payloads received, instead of buffers that come and go with the calls.
pub trait Landing: Send + Sync {
    /// Memory for a payload of `len` bytes; none: it goes to the connection's own.
    fn land(&self, len: usize) -> Option<Box<dyn Landed>>;
}

/// Memory that one payload is being received into.
pub trait Landed: Send {
    /// All of it, as long as the payload.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// The payload: nobody changes it any more.
    fn freeze(self: Box<Self>) -> Bytes;
}
