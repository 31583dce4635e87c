//! Connections between Weft processes.
//!
//! One connection per pair of processes carries every call between them: by TCP, or within a
//! machine by a Unix socket. The client opens it, both sides prove the volume's key, and from then
//! on frames of many calls interleave: small calls overtake bulk data, bulk data moves in bounded
//! frames under credit, and nothing a peer sends makes this side hold more than it granted. Written
//! up for implementers in `docs/protocol.md`, why in `docs/design/0002-wire.md`.
//!
//! Invariants:
//! 1. No call is served, and none is sent, before both proofs were checked.
//! 2. Memory per connection is bounded, whatever the peer does; before the proofs, by a few KiB.
//! 3. A lost connection ends every call on it at once with a typed error; silence is a loss after
//!    [`Timing::silence`].
//! 4. Dropping a call's future leaves the connection sound: frames are queued whole or not at all.
//! 5. Every call that was sent is answered by exactly one last frame, cancelled calls included,
//!    unless the connection is lost; until then it holds its place on both sides.
//! 6. No call waits for another to be consumed: each has a window of its own.
//! 7. No frame that was changed, injected, repeated, left out or reordered on the way is taken,
//!    unless both sides allow that frames are plain (`protection`).
//!
//! Absent on purpose: what the calls mean (`weft-server`, `weft-client`), certificates.

mod client;
mod counters;
mod env;
mod error;
mod frames;
mod half;
mod handshake;
mod landing;
mod link;
mod links;
mod local;
mod local_half;
mod pool;
mod protection;
mod queue;
mod quiet;
mod server;
mod tcp;
mod window;

pub use client::{Connection, Incoming, Outgoing};
pub use counters::{Counters, CountersSnapshot};
pub use env::{
    Accepted, BoxRead, BoxWrite, Entropy, Env, Gauge, Listener, Network, Opened, Timing, WallClock,
};
pub use error::{CallError, ConnectError};
pub use handshake::{Identity, Peer, VolumeKey};
pub use landing::{Landed, Landing};
pub use link::Link;
pub use links::Links;
pub use local::SystemNetwork;
pub use pool::BufferPool;
pub use quiet::{LeftOut, Quiet};
pub use server::{Bounds, Caller, Chunk, Gone, Parcel, Payload, Reply, Served, Service, serve};
pub use tcp::{SystemClock, SystemEntropy, TcpNetwork};
pub use weft_proto::session::Wire;
