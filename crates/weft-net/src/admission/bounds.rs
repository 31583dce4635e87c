//! The bounds that an administrator may set.

use crate::limits::{CONNECTION_DESCRIPTORS, RESERVED_DESCRIPTORS};

/// What one connection may cost, and how many connections there may be.
///
/// Payload in memory, received or being received and not released, is per connection at most
/// `window + calls ·` [`CALL_WINDOW`](weft_proto::limits::CALL_WINDOW), and the windows of all
/// connections are at most `windows`.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Unreleased payload that all calls together may hold beyond their per-call windows.
    pub window: u32,
    /// The windows of all connections together; with many connections, each is granted less than
    /// `window`.
    pub windows: u64,
    /// Calls a client may have in flight, at least 1.
    pub calls: u32,
    /// Authenticated connections; more are refused.
    pub connections: usize,
    /// Connections whose handshake has not ended, at least 1; more evict older ones.
    pub unauthenticated: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            window: 8 << 20,
            windows: 128 << 20,
            calls: 256,
            connections: 1024,
            unauthenticated: 128,
        }
    }
}

impl Bounds {
    /// Limits connections so that 512 of the process's `descriptors` (or half, if there are few)
    /// stay free for other uses.
    #[must_use]
    pub fn within(self, descriptors: u64) -> Bounds {
        let free = descriptors - RESERVED_DESCRIPTORS.min(descriptors / 2);
        let slots = usize::try_from(free / CONNECTION_DESCRIPTORS).unwrap_or(usize::MAX);
        let unauthenticated = self.unauthenticated.min((slots / 4).max(1));
        Bounds {
            unauthenticated,
            connections: self
                .connections
                .min((slots - unauthenticated.min(slots)).max(1)),
            ..self
        }
    }
}
