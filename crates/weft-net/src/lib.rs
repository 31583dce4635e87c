//! Connections between Weft processes.
//!
//! One connection per pair of processes carries every call between them: by TCP, or within a
//! machine by a Unix socket. The client opens it, both sides prove the volume's key, and from then
//! on frames of many calls interleave: small calls overtake bulk data, bulk data moves in bounded
//! frames under credit, and a peer cannot make this side hold more memory than it was granted. The
//! protocol is in `docs/protocol.md`, its reasons are in `docs/design/0002-wire.md`.
//!
//! Where to look:
//! - what a process needs from outside (network, clock, randomness, idle states):
//!   [`Env`], `transport/`, `processors.rs`
//! - opening a connection: `handshake/`, `identity.rs`, `protection/` (tags and encryption)
//! - bytes to frames and back: `framing/` (receiving), `send_queue/` (sending), `buffers/` (memory)
//! - **what bounds the memory that a peer can claim: `admission/`**
//! - calls: `client/` and `links/` (the calling side), `server/` (the serving side)
//! - numbers: `limits.rs`; errors: `error.rs`
//!
//! Invariants:
//! 1. No call is served, and none is sent, before both proofs were checked.
//! 2. Memory per connection is bounded, whatever the peer does; before the proofs, by a few KiB.
//! 3. A lost connection ends all its calls at once with a typed error; silence is a loss after
//!    [`Timing::silence`].
//! 4. Dropping a call's future leaves the connection sound: frames are queued whole or not at all.
//! 5. Every call that was sent is answered by exactly one last frame, cancelled calls included,
//!    unless the connection is lost; until then it holds its slot on both sides.
//! 6. No call waits for another to be consumed: each has a window of its own.
//! 7. No frame that was changed, injected, repeated, left out or reordered on the way is accepted,
//!    unless both sides allow plain frames (`protection/`).
//!
//! Absent on purpose: what the calls mean (`weft-server`, `weft-client`), certificates.

mod abandoned;
mod admission;
mod buffers;
mod client;
mod counters;
mod env;
mod error;
mod framing;
mod handshake;
mod identity;
mod limits;
mod links;
mod log_limit;
mod processors;
mod protection;
mod send_queue;
mod server;
mod transport;

pub use admission::Bounds;
pub use buffers::{BufferPool, ReceiveBuffer, ReceiveBuffers};
pub use client::{Connection, Incoming, Outgoing};
pub use counters::{Counters, CountersSnapshot};
pub use env::{Entropy, Env, SystemClock, SystemEntropy, Timing, WallClock};
pub use error::{CallError, ConnectError};
pub use framing::Chunk;
pub use identity::{Identity, Peer, VolumeKey};
pub use links::{Link, Links};
pub use log_limit::{LogLimit, SuppressedLines};
pub use processors::{Processors, ShallowIdle, UnmanagedProcessors};
pub use server::{Caller, Gone, Payload, Reply, ReplyPayload, Served, Service, serve};
pub use transport::{
    Accepted, BoxRead, BoxWrite, Gauge, Listener, Network, Opened, SystemNetwork, TcpNetwork,
};
pub use weft_proto::session::Wire;
