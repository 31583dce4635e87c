//! Messages of the connection itself: handshake, keep-alive, flow control, cancellation.

use std::fmt;
use std::str::FromStr;

/// The role of a peer, sent at connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Role {
    /// Never sent.
    Unspecified = 0,
    /// An application, through any interface.
    Client = 1,
    /// An I/O server calling the metadata service.
    IoServer = 2,
    /// The metadata service calling an I/O server.
    MetaService = 3,
}

/// The protection of the frames after the handshake, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Wire {
    /// Checksums alone: deliberate changes on the way are not noticed. The level of a peer that
    /// names none.
    Plain = 0,
    /// Tags on every frame: frames that were changed, injected, repeated, left out or reordered on
    /// the way are noticed.
    Mac = 1,
    /// As `Mac`, and bodies and payloads are encrypted.
    Encrypted = 2,
}

impl Wire {
    /// The highest level of this build.
    pub const MOST: Wire = Wire::Encrypted;

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Plain => "plain",
            Wire::Mac => "mac",
            Wire::Encrypted => "encrypted",
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Wire {
    type Err = String;

    fn from_str(text: &str) -> Result<Wire, String> {
        let all = [Wire::Plain, Wire::Mac, Wire::Encrypted];
        let found = all.into_iter().find(|wire| wire.name() == text);
        found.ok_or_else(|| format!("{text:?} is none of mac, encrypted, plain"))
    }
}

/// Opens a connection.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Hello {
    /// Oldest version the client speaks.
    #[prost(uint32, tag = "1")]
    pub version_oldest: u32,
    /// Newest version the client speaks.
    #[prost(uint32, tag = "2")]
    pub version_newest: u32,
    /// 32 fresh random bytes.
    #[prost(bytes = "bytes", tag = "3")]
    pub nonce: bytes::Bytes,
    /// The client's role.
    #[prost(enumeration = "Role", tag = "4")]
    pub role: i32,
    /// The client's number: random, the same on all its connections and reconnects.
    #[prost(uint64, tag = "5")]
    pub client: u64,
    /// The client's volume, 16 bytes; empty if it does not know it yet.
    #[prost(bytes = "bytes", tag = "6")]
    pub volume: bytes::Bytes,
    /// Payload bytes of one reply that the server may send before the client sends credit.
    #[prost(uint32, tag = "7")]
    pub reply_window: u32,
    /// The server's local socket, if the connection goes there; else empty.
    #[prost(string, tag = "8")]
    pub local: String,
    /// The lowest protection of frames that the client accepts.
    #[prost(enumeration = "Wire", tag = "9")]
    pub wire_least: i32,
    /// The highest protection that it knows.
    #[prost(enumeration = "Wire", tag = "10")]
    pub wire_most: i32,
}

/// Answers a hello.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Challenge {
    /// The version of the connection.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// 32 fresh random bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub nonce: bytes::Bytes,
    /// The volume this peer serves, 16 bytes.
    #[prost(bytes = "bytes", tag = "3")]
    pub volume: bytes::Bytes,
    /// The name of the server's local socket, in the abstract namespace of its machine; empty if it
    /// has none.
    #[prost(string, tag = "4")]
    pub local: String,
    /// The protection of the connection's frames: the server's setting, or the client's lowest if
    /// that is higher.
    #[prost(enumeration = "Wire", tag = "5")]
    pub wire: i32,
}

/// Proves that the client holds the volume's key.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Proof {
    /// Keyed hash over hello and challenge as they were sent; see `docs/protocol.md`.
    #[prost(bytes = "bytes", tag = "1")]
    pub proof: bytes::Bytes,
}

/// Proves the same of the server and states the bounds of the connection.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Welcome {
    /// Keyed hash over hello and challenge as they were sent; see `docs/protocol.md`.
    #[prost(bytes = "bytes", tag = "1")]
    pub proof: bytes::Bytes,
    /// The server's id in the server map; absent for a pure metadata service.
    #[prost(uint32, optional, tag = "2")]
    pub server: Option<u32>,
    /// Payload bytes that all calls together may have sent and not been credited, beyond
    /// [`CALL_WINDOW`](crate::limits::CALL_WINDOW) of each.
    #[prost(uint32, tag = "3")]
    pub window: u32,
    /// Calls the client may have in flight.
    #[prost(uint32, tag = "4")]
    pub calls: u32,
    /// The incarnation of the server's store, or of the namespace where it has no store; 0:
    /// unknown.
    #[prost(fixed64, tag = "5")]
    pub incarnation: u64,
}

/// Asks for a sign of life.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Ping {}

/// Answers a ping.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Pong {}

/// Allows more payload: from the server for the request of a call, from the client for its reply.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Credit {
    /// Window returned, in the measure of [`window_cost`](crate::limits::window_cost).
    #[prost(uint32, tag = "1")]
    pub bytes: u32,
    /// The call that may send more.
    #[prost(uint64, tag = "2")]
    pub request: u64,
}

/// The client no longer wants the answer of a call. The call is answered nevertheless: as usual, or
/// with `Cancelled`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Cancel {
    /// The call's request id.
    #[prost(uint64, tag = "1")]
    pub request: u64,
}

/// An empty body.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Nothing {}

/// The reply type of frames that are never answered.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Never {}
