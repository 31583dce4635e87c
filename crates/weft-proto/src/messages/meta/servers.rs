//! The server map, heartbeats of I/O servers, and the clients that are connected.

use bytes::Bytes;

use crate::stamp::Position;

/// Ask for the server map.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ServerMapRequest {}

/// Whether a server is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ServerState {
    /// No heartbeat ever.
    Unknown = 0,
    /// A recent heartbeat.
    Up = 1,
    /// No recent heartbeat.
    Down = 2,
    /// Refused: its store is older than it reported before.
    RolledBack = 3,
}

/// The usage of a server, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Usage {
    /// Total.
    #[prost(uint64, tag = "1")]
    pub capacity: u64,
    /// Used by files.
    #[prost(uint64, tag = "2")]
    pub used: u64,
    /// Available to files.
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
    /// Its state.
    #[prost(enumeration = "ServerState", tag = "3")]
    pub state: i32,
    /// Its usage.
    #[prost(message, required, tag = "4")]
    pub usage: Usage,
    /// `host:port` of its metrics; empty: it serves none.
    #[prost(string, tag = "5")]
    pub metrics: String,
    /// Files with smaller ids are older than its store.
    #[prost(uint64, tag = "6")]
    pub since: u64,
    /// For a refused server: when the newest bytes of its store were written, in nanoseconds since
    /// the epoch; 0: there are none.
    #[prost(int64, tag = "7")]
    pub newest: i64,
    /// Its replicas, ascending by number; empty: it has one store, and no other.
    #[prost(message, repeated, tag = "8")]
    pub replicas: Vec<Replica>,
    /// Replicas that it lacks: those that leave, or have left, and are to have a successor.
    #[prost(uint32, tag = "9")]
    pub missing: u32,
}

/// A replica of a server, as the metadata service knows it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[allow(clippy::struct_excessive_bools)] // as on the wire
pub struct Replica {
    /// Its number.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// `host:port`.
    #[prost(string, tag = "2")]
    pub address: String,
    /// Calls go to it.
    #[prost(bool, tag = "3")]
    pub primary: bool,
    /// It has every acknowledged change.
    #[prost(bool, tag = "4")]
    pub in_sync: bool,
    /// It has reported recently.
    #[prost(bool, tag = "5")]
    pub up: bool,
    /// Its usage.
    #[prost(message, required, tag = "6")]
    pub usage: Usage,
    /// `host:port` of its metrics; empty: it serves none.
    #[prost(string, tag = "7")]
    pub metrics: String,
    /// It leaves the server once all that stay are in sync.
    #[prost(bool, tag = "8")]
    pub leaving: bool,
    /// Its failure domain; empty: none was named.
    #[prost(string, tag = "9")]
    pub domain: String,
    /// While it catches up: how far the primary has compared it.
    #[prost(message, optional, tag = "10")]
    pub progress: Option<ReplicaProgress>,
}

/// How far a replica has caught up.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ReplicaProgress {
    /// Its number.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// Bytes of the primary that were compared.
    #[prost(uint64, tag = "2")]
    pub done: u64,
    /// All bytes of the primary.
    #[prost(uint64, tag = "3")]
    pub total: u64,
    /// Nanoseconds since the primary began.
    #[prost(uint64, tag = "4")]
    pub elapsed: u64,
    /// Why it cannot catch up; empty: nothing hinders it.
    #[prost(string, tag = "5")]
    pub obstacle: String,
}

/// Which replicas of a server have every acknowledged change, and which of them is the primary.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ReplicaSet {
    /// Rises with every change.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// The primary's number.
    #[prost(uint32, tag = "2")]
    pub primary: u32,
    /// The replicas that are in sync, the primary among them, ascending.
    #[prost(uint32, repeated, tag = "3")]
    pub in_sync: Vec<u32>,
    /// All replicas, ascending by number.
    #[prost(message, repeated, tag = "4")]
    pub members: Vec<ReplicaAddress>,
    /// The replicas that leave once all others are in sync, ascending.
    #[prost(uint32, repeated, tag = "5")]
    pub leaving: Vec<u32>,
}

/// Where a replica is.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ReplicaAddress {
    /// Its number.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// `host:port`; empty: not known yet.
    #[prost(string, tag = "2")]
    pub address: String,
}

/// A change of the replicas of a server that are in sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ReplicaChange {
    /// From the primary: a backup has not acknowledged a change, and is not in sync any more.
    Remove = 0,
    /// From the primary: a replica has caught up.
    Add = 1,
    /// From a backup that is in sync: the primary is silent, and the caller takes its place. It is
    /// the only one in sync then.
    TakeOver = 2,
    /// From the primary, which leaves and takes no more changes: another one in sync takes its
    /// place.
    HandOver = 3,
}

/// Let a process become a server of the volume, or a replica of one. A store that has joined gets
/// the same answer again.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct JoinServerRequest {
    /// The address on which it will listen.
    #[prost(string, tag = "1")]
    pub address: String,
    /// The id of its store, created at format.
    #[prost(bytes = "bytes", tag = "2")]
    pub store: Bytes,
    /// The server of which it becomes a replica; absent: it becomes a new server.
    #[prost(uint32, optional, tag = "3")]
    pub server: Option<u32>,
    /// The replica of that server whose place it takes; absent: none.
    #[prost(uint32, optional, tag = "4")]
    pub replaces: Option<u32>,
    /// Its failure domain; empty: none. No two replicas of a server are in one.
    #[prost(string, tag = "5")]
    pub domain: String,
    /// It becomes a replica only if the server lacks one.
    #[prost(bool, tag = "6")]
    pub missing: bool,
}

/// What the process is. It survives power loss.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct JoinServerReply {
    /// The server.
    #[prost(uint32, tag = "1")]
    pub server: u32,
    /// Its replica.
    #[prost(uint32, tag = "2")]
    pub replica: u32,
    /// The volume's name.
    #[prost(string, tag = "3")]
    pub volume: String,
}

/// Let a replica leave its server as soon as all that stay are in sync.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LeaveServerRequest {
    /// The server.
    #[prost(uint32, tag = "1")]
    pub server: u32,
    /// The replica.
    #[prost(uint32, tag = "2")]
    pub replica: u32,
    /// It stays after all.
    #[prost(bool, tag = "3")]
    pub stay: bool,
    /// Not before another one has joined in its place, and is in sync.
    #[prost(bool, tag = "4")]
    pub succeeded: bool,
}

/// The mark survives power loss.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LeaveServerReply {
    /// The replica was not in sync, and has left.
    #[prost(bool, tag = "1")]
    pub left: bool,
}

/// Change the replicas of a server that are in sync (from its replicas).
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ChangeReplicasRequest {
    /// The server.
    #[prost(uint32, tag = "1")]
    pub server: u32,
    /// The replica that asks.
    #[prost(uint32, tag = "2")]
    pub caller: u32,
    /// The term that the caller knows. With another one in force, nothing is changed.
    #[prost(uint64, tag = "3")]
    pub term: u64,
    /// The change.
    #[prost(enumeration = "ReplicaChange", tag = "4")]
    pub change: i32,
    /// The replica that is removed or added, or takes the primary's place.
    #[prost(uint32, tag = "5")]
    pub replica: u32,
}

/// The set that is in force, which survives power loss.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ChangeReplicasReply {
    /// The set.
    #[prost(message, required, tag = "1")]
    pub set: ReplicaSet,
    /// The change was made.
    #[prost(bool, tag = "2")]
    pub changed: bool,
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
    /// Number of files, directories and other inodes.
    #[prost(uint64, tag = "3")]
    pub files: u64,
    /// Pending operations of I/O servers (deletes and truncates).
    #[prost(uint64, tag = "4")]
    pub intents: u64,
    /// The volume's name.
    #[prost(string, tag = "5")]
    pub volume: String,
    /// The namespace is older than it reported to servers: the service answers nothing else.
    #[prost(bool, tag = "6")]
    pub rolled_back: bool,
    /// The service was restarted after a crash, and clients may not have reported their open files
    /// yet: every file counts as open.
    #[prost(bool, tag = "7")]
    pub recovering: bool,
}

/// List the connected clients.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ListClientsRequest {}

/// All clients but the caller, unordered.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListClientsReply {
    /// Mounts and other programs.
    #[prost(message, repeated, tag = "1")]
    pub clients: Vec<ConnectedClient>,
}

/// A client that is connected to the metadata service.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConnectedClient {
    /// Its address.
    #[prost(string, tag = "1")]
    pub address: String,
    /// Its name; may be empty.
    #[prost(string, tag = "2")]
    pub name: String,
    /// When it connected, in nanoseconds since the epoch.
    #[prost(int64, tag = "3")]
    pub since: i64,
}

/// The report of a server.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HeartbeatRequest {
    /// Its id.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// The address on which it listens.
    #[prost(string, tag = "2")]
    pub address: String,
    /// The address of its metrics.
    #[prost(string, tag = "3")]
    pub metrics: String,
    /// Its usage.
    #[prost(message, required, tag = "4")]
    pub usage: Usage,
    /// The id of its store, created at format; empty: it has no store, or the request is about the
    /// address only.
    #[prost(bytes = "bytes", tag = "5")]
    pub store: Bytes,
    /// The position up to which its store survives power loss; absent: unknown.
    #[prost(message, optional, tag = "6")]
    pub durable: Option<Position>,
    /// Positions in `check` of an earlier reply that its store has.
    #[prost(message, repeated, tag = "7")]
    pub has: Vec<Position>,
    /// Its store lacks a position in `check` of an earlier reply.
    #[prost(bool, tag = "8")]
    pub rolled_back: bool,
    /// The durable position of the namespace that it knows; absent: none.
    #[prost(message, optional, tag = "9")]
    pub service: Option<Position>,
    /// The store has durably put in doubt everything it has of files below this id, as a reply
    /// requested; 0: nothing.
    #[prost(uint64, tag = "10")]
    pub doubted: u64,
    /// With `rolled_back`: when the newest bytes of its store were written, in nanoseconds since
    /// the epoch; else 0.
    #[prost(int64, tag = "11")]
    pub newest: i64,
    /// Which replica of the server it is.
    #[prost(uint32, tag = "12")]
    pub replica: u32,
    /// From the primary: replicas that catch up.
    #[prost(message, repeated, tag = "13")]
    pub progress: Vec<ReplicaProgress>,
}

/// What a server must know about the volume.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HeartbeatReply {
    /// The server map's epoch.
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    /// Files with smaller ids are older than the server's store: what the store lacks of them is
    /// lost.
    #[prost(uint64, tag = "2")]
    pub since: u64,
    /// Positions that the server reported as durable before: it is not used until it reports that
    /// its store has all of them.
    #[prost(message, repeated, tag = "3")]
    pub check: Vec<Position>,
    /// The position up to which the namespace survives power loss; absent: unknown.
    #[prost(message, optional, tag = "4")]
    pub service: Option<Position>,
    /// The administrator has accepted the server although its store lacks some of `check`: it must
    /// put in doubt what it has of files below this id, and report that. 0: not accepted.
    #[prost(uint64, tag = "5")]
    pub doubt: u64,
    /// The replicas that are in sync; absent: the server has one store.
    #[prost(message, optional, tag = "6")]
    pub replicas: Option<ReplicaSet>,
}

/// Accept a server, or the metadata service, although its store is older than it reported before.
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
