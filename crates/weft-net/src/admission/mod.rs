//! What bounds the memory, descriptors and work that peers can claim.
//!
//! This is the one place to read about it. Every bound holds whatever a peer does. Lengths, and
//! payload against its window, are checked before memory is allocated for them:
//!
//! | what a peer can claim | bound | checked in |
//! | --- | --- | --- |
//! | connections before the handshake has ended | [`Bounds::unauthenticated`] slots, from which new connections evict old ones | [`PendingConnections`] |
//! | a frame before that | a body of [`HANDSHAKE_BODY_MAX`], no payload | `framing/reader.rs` |
//! | authenticated connections | [`Bounds::connections`] | [`Admission::authenticate`] |
//! | a frame | [`BODY_MAX`] and [`PAYLOAD_MAX`] | `weft_proto::Header::decode` |
//! | lists in a body | proportional to the body's length | `weft-proto/tests/memory.rs` |
//! | calls in flight on a connection | [`Bounds::calls`] | [`ConnectionUsage`] |
//! | bodies of these calls, together | [`BODIES_MAX`], and one body that is being checked | [`ConnectionUsage`] |
//! | their payload in memory | the connection's window and [`CALL_WINDOW`] for each call | [`ConnectionUsage`], [`shared_part`] |
//! | the windows of all connections, together | [`Bounds::windows`] | [`WindowBudget`] |
//! | payload of a reply that the peer does not read | the reply window that it asked for | `server/reply_flow.rs` |
//! | frames that wait to be sent to it | 2 MiB of bulk, a last frame for each call, 4096 others | `send_queue/` |
//! | lines in the log | 10 in 10 s of each kind | `log_limit.rs` |
//!
//! So the payload in memory of all connections is at most
//! `windows + connections · calls · CALL_WINDOW`, and of one connection at most
//! `window + calls · CALL_WINDOW`. A client enforces the same windows for its own sends (it uses
//! [`shared_part`]) and bounds what servers send it by the reply window of each call
//! (`client/call_table.rs`).
//!
//! Invariants:
//! 1. A connection never waits for another: each keeps the window that it was granted until it
//!    ends.
//! 2. Within a connection, no call waits for another call's payload to be consumed.
//! 3. A sender that keeps within its bounds is never judged to exceed them (see [`shared_part`]).
//!
//! [`HANDSHAKE_BODY_MAX`]: weft_proto::limits::HANDSHAKE_BODY_MAX
//! [`BODY_MAX`]: weft_proto::limits::BODY_MAX
//! [`PAYLOAD_MAX`]: weft_proto::limits::PAYLOAD_MAX
//! [`BODIES_MAX`]: weft_proto::limits::BODIES_MAX
//! [`CALL_WINDOW`]: weft_proto::limits::CALL_WINDOW

mod bounds;
mod call_window;
mod pending;
mod usage;
mod window_budget;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use bounds::Bounds;

pub(crate) use call_window::shared_part;
pub(crate) use pending::PendingSlot;
pub(crate) use usage::{CallUsage, ConnectionUsage};

use pending::PendingConnections;
use window_budget::{WindowBudget, WindowGrant};

/// Admits connections to a server.
pub(crate) struct Admission {
    bounds: Bounds,
    pending: Arc<PendingConnections>,
    slots: Arc<Semaphore>,
    windows: Arc<WindowBudget>,
}

/// The slot and window of an authenticated connection, until it is dropped.
pub(crate) struct ConnectionGrant {
    calls: u32,
    window: WindowGrant,
    _slot: OwnedSemaphorePermit,
}

impl Admission {
    pub(crate) fn new(bounds: Bounds) -> Self {
        assert!(
            bounds.calls > 0,
            "a connection without calls serves nothing"
        );
        Admission {
            bounds,
            pending: PendingConnections::new(bounds.unauthenticated),
            slots: Arc::new(Semaphore::new(bounds.connections)),
            windows: WindowBudget::new(bounds.windows),
        }
    }

    /// A slot for a connection that was just accepted from `address`; or how long to wait until an
    /// older one may be evicted for it.
    pub(crate) fn accept(&self, address: &str) -> Result<PendingSlot, Duration> {
        self.pending.admit(address)
    }

    /// The grant of a connection whose client has proven the key; `None`: the server has as many
    /// connections as it may have.
    pub(crate) fn authenticate(&self) -> Option<ConnectionGrant> {
        let slot = self.slots.clone().try_acquire_owned().ok()?;
        Some(ConnectionGrant {
            calls: self.bounds.calls,
            window: self.windows.grant(self.bounds.window),
            _slot: slot,
        })
    }
}

impl ConnectionGrant {
    /// Calls that the client may have in flight.
    pub(crate) fn calls(&self) -> u32 {
        self.calls
    }

    /// Bytes of the window that its calls share.
    pub(crate) fn window(&self) -> u32 {
        self.window.bytes()
    }
}
