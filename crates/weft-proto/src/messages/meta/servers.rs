//! The server map, heartbeats of I/O servers, and the clients that are connected.

use bytes::Bytes;

use crate::stamp::Position;

/// Ask for the server map.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ServerMapRequest {}

/// Whether a server takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ServerState {
    /// Never heard of.
    Unknown = 0,
    /// Heard of lately.
    Up = 1,
    /// Not heard of lately.
    Down = 2,
    /// There, and refused: its store is older than what it said before.
    RolledBack = 3,
}

/// How full a server is, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Usage {
    /// All there is.
    #[prost(uint64, tag = "1")]
    pub capacity: u64,
    /// Held by files.
    #[prost(uint64, tag = "2")]
    pub used: u64,
    /// Left for files.
    #[prost(uint64, tag = "3")]
    pub available: u64,
}

/// One server.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Server {
    /// Its id.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// `host:port`.
    #[prost(string, tag = "2")]
    pub address: String,
    /// Whether it is there.
    #[prost(enumeration = "ServerState", tag = "3")]
    pub state: i32,
    /// How full it is.
    #[prost(message, required, tag = "4")]
    pub usage: Usage,
    /// `host:port` of its metrics, if it serves any.
    #[prost(string, tag = "5")]
    pub metrics: String,
    /// Files of smaller ids are older than its store.
    #[prost(uint64, tag = "6")]
    pub since: u64,
    /// Of one that is refused: when the newest bytes of its store were written, in nanoseconds
    /// since the epoch; 0: there are none.
    #[prost(int64, tag = "7")]
    pub newest: i64,
}

/// The server map.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ServerMapReply {
    /// Rises with every change of a server's set or address.
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    /// Ascending by id.
    #[prost(message, repeated, tag = "2")]
    pub servers: Vec<Server>,
    /// Files, directories and other names' targets.
    #[prost(uint64, tag = "3")]
    pub files: u64,
    /// Operations owed to I/O servers (deletes and truncates under way).
    #[prost(uint64, tag = "4")]
    pub intents: u64,
    /// The volume's name.
    #[prost(string, tag = "5")]
    pub volume: String,
    /// The namespace is older than what servers heard of it: nothing else is answered.
    #[prost(bool, tag = "6")]
    pub rolled_back: bool,
    /// The service was started after it had died, and clients may not have told yet what they have
    /// open: every file counts as open.
    #[prost(bool, tag = "7")]
    pub recovering: bool,
}

/// Which clients are connected.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ListClientsRequest {}

/// All but the one that asks, in no order.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListClientsReply {
    /// A mount, or another program.
    #[prost(message, repeated, tag = "1")]
    pub clients: Vec<ConnectedClient>,
}

/// A client that has a connection to the metadata service.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConnectedClient {
    /// Where it is.
    #[prost(string, tag = "1")]
    pub address: String,
    /// What it calls itself; may be empty.
    #[prost(string, tag = "2")]
    pub name: String,
    /// When it came, in nanoseconds since the epoch.
    #[prost(int64, tag = "3")]
    pub since: i64,
}

/// A server reports.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HeartbeatRequest {
    /// Its id.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// Where it listens.
    #[prost(string, tag = "2")]
    pub address: String,
    /// Where its metrics are.
    #[prost(string, tag = "3")]
    pub metrics: String,
    /// How full it is.
    #[prost(message, required, tag = "4")]
    pub usage: Usage,
    /// The id of its store, made when that was formatted; empty: it has none, or whoever asks
    /// speaks of the address only.
    #[prost(bytes = "bytes", tag = "5")]
    pub store: Bytes,
    /// What survives power loss of its store; absent: it does not say.
    #[prost(message, optional, tag = "6")]
    pub durable: Option<Position>,
    /// Positions that an earlier reply asked for and that its store has.
    #[prost(message, repeated, tag = "7")]
    pub has: Vec<Position>,
    /// Its store lacks a position that an earlier reply asked for.
    #[prost(bool, tag = "8")]
    pub rolled_back: bool,
    /// What it last heard to be durable of the namespace; absent: nothing.
    #[prost(message, optional, tag = "9")]
    pub service: Option<Position>,
    /// All that its store has of files below this id was put in doubt, durably, since a reply asked
    /// for it; 0: nothing was.
    #[prost(uint64, tag = "10")]
    pub doubted: u64,
    /// When the newest bytes of its store were written, in nanoseconds since the epoch: told with
    /// `rolled_back`, else 0.
    #[prost(int64, tag = "11")]
    pub newest: i64,
}

/// What a server must know of the volume.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HeartbeatReply {
    /// The server map's epoch.
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    /// Files of smaller ids are older than the server's store: what it does not have of them is
    /// lost.
    #[prost(uint64, tag = "2")]
    pub since: u64,
    /// What the server said to be durable before: until it says that its store has all of these it
    /// takes no part.
    #[prost(message, repeated, tag = "3")]
    pub check: Vec<Position>,
    /// What survives power loss of the namespace; absent: nothing is known.
    #[prost(message, optional, tag = "4")]
    pub service: Option<Position>,
    /// The administrator takes the server although its store lacks some of `check`: it is to put in
    /// doubt what it has of files below this id, and to say so. 0: nobody has.
    #[prost(uint64, tag = "5")]
    pub doubt: u64,
}

/// Take a server, or the metadata service, in although its store is older than what it said before.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AcceptRollbackRequest {
    /// The server; absent: the metadata service.
    #[prost(uint32, optional, tag = "1")]
    pub server: Option<u32>,
}

/// Done, and survives power loss.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AcceptRollbackReply {
    /// It was refused until now.
    #[prost(bool, tag = "1")]
    pub refused: bool,
}
