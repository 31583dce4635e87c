//! Messages of the connection itself: handshake, keep-alive, flow control, cancellation.

/// What a peer is, said at connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Role {
    /// Never sent.
    Unspecified = 0,
    /// An application or a door.
    Client = 1,
    /// An I/O server calling the metadata service.
    IoServer = 2,
    /// The metadata service calling an I/O server.
    MetaService = 3,
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
    /// What the client is.
    #[prost(enumeration = "Role", tag = "4")]
    pub role: i32,
    /// The client's number: random, the same on all its connections and reconnects.
    #[prost(uint64, tag = "5")]
    pub client: u64,
    /// The volume it means, 16 bytes; empty if it does not know yet.
    #[prost(bytes = "bytes", tag = "6")]
    pub volume: bytes::Bytes,
    /// Payload bytes of one reply that the server may send before the client credits more.
    #[prost(uint32, tag = "7")]
    pub reply_window: u32,
    /// The server's local socket, if the connection goes there; else empty.
    #[prost(string, tag = "8")]
    pub local: String,
}

/// Answers a hello.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Challenge {
    /// The version both will speak.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// 32 fresh random bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub nonce: bytes::Bytes,
    /// The volume this peer serves, 16 bytes.
    #[prost(bytes = "bytes", tag = "3")]
    pub volume: bytes::Bytes,
    /// The name of the server's local socket, in the abstract namespace of its machine; empty if it has none.
    #[prost(string, tag = "4")]
    pub local: String,
}

/// Proves that the client holds the volume's key.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Proof {
    /// Keyed hash over hello and challenge as they were sent; see `docs/protocol.md`.
    #[prost(bytes = "bytes", tag = "1")]
    pub proof: bytes::Bytes,
}

/// Proves the same of the server and tells the bounds of the connection.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Welcome {
    /// Keyed hash over hello and challenge as they were sent; see `docs/protocol.md`.
    #[prost(bytes = "bytes", tag = "1")]
    pub proof: bytes::Bytes,
    /// The server's id in the server map; absent for a pure metadata service.
    #[prost(uint32, optional, tag = "2")]
    pub server: Option<u32>,
    /// What all calls together may have sent beyond [`CALL_WINDOW`](crate::limits::CALL_WINDOW) of each and
    /// beyond what was credited back.
    #[prost(uint32, tag = "3")]
    pub window: u32,
    /// Calls the client may have in flight.
    #[prost(uint32, tag = "4")]
    pub calls: u32,
    /// The incarnation of the server's store, or of the namespace where it has none; 0: it does not say.
    #[prost(fixed64, tag = "5")]
    pub incarnation: u64,
}

/// Are you there.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Ping {}

/// I am.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Pong {}

/// Allows more payload: from the server for the request of a call, from the client for its reply.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Credit {
    /// Window given back, in the measure of [`window_cost`](crate::limits::window_cost).
    #[prost(uint32, tag = "1")]
    pub bytes: u32,
    /// The call that may go on.
    #[prost(uint64, tag = "2")]
    pub request: u64,
}

/// Ends interest in a call. It is answered all the same: as it would have been, or with `Cancelled`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Cancel {
    /// The call's request id.
    #[prost(uint64, tag = "1")]
    pub request: u64,
}

/// An empty body.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Nothing {}

/// The reply of what is never replied to.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Never {}
