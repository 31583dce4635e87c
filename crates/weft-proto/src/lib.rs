//! Weft's wire: bytes to values and back. Written up for implementers in `docs/protocol.md`.
//!
//! A *frame* is a fixed 32-byte [`Header`], a typed *body* (protobuf, explicit tags) and a raw
//! *payload*. A *call* is one request frame (and, for writes, data frames behind it) answered by
//! one reply frame (and, for reads, data frames behind it); frames of different calls interleave
//! freely on one connection. Every kind of call is one line of the table in [`call`]; its messages
//! are in the family's file below `messages/`.
//!
//! Invariants:
//! 1. `decode(encode(x)) == x` for every message; golden bytes in `tests/golden/` never change.
//! 2. Nothing is allocated for a length before it was checked against a bound of [`limits`]; lists
//!    are bounded by the length of the body.
//! 3. A tag is never reused; unknown tags are skipped, unknown kinds are refused.
//!
//! Absent on purpose: sockets, timers and the order of the handshake (`weft-net`).

pub mod call;
mod convert;
pub mod decoders;
mod error;
mod frame;
pub mod limits;
mod messages;
mod round_trip;
pub mod text;

pub use call::{Call, Kind};
pub use convert::{
    ConvertError, parity_from_wire, parity_to_wire, storage_from_wire, storage_to_wire,
};
pub use error::{Code, Failure, Retry};
pub use frame::{CHECKSUMS_AT, Flags, FrameError, HEADER_BYTES, Header, body_from};
pub use messages::{
    addressed, checkpoint, collective, coord, delegation, fsck, inline, io, meta, order, parity,
    pointer, quota, replica, session, stamp, upkeep,
};
pub use prost;

/// The protocol version this build speaks; see `docs/protocol.md` for what each version is.
pub const VERSION: u32 = 1;
/// The oldest version this build still understands.
pub const VERSION_OLDEST: u32 = 1;
