//! What ties an acknowledged change to the process that acknowledged it
//! (`docs/design/0021-incarnations.md`).
//!
//! A change is acknowledged before it survives power loss. The reply says under which incarnation
//! of the server, and up to which of its commits; a sync names what the client was told, and the
//! server says whether all of that is still there.

/// A commit of a server: which of its incarnations made it, and its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Message)]
pub struct Position {
    /// The incarnation: a random number that a process draws when it opens its store or namespace.
    #[prost(fixed64, tag = "1")]
    pub incarnation: u64,
    /// The commit. What is told to cover a change may be later than the change's own.
    #[prost(uint64, tag = "2")]
    pub sequence: u64,
}

/// What a reply says beside its own fields, where the call changed something: field 1000 of any
/// reply.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Stamp {
    /// Covers the change.
    #[prost(message, optional, tag = "1000")]
    pub changed: Option<Position>,
    /// Commits of the same incarnation up to this one survive power loss.
    #[prost(uint64, tag = "1001")]
    pub durable: u64,
}

/// Changes that one server acknowledged for another's call.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ServerPosition {
    /// The server.
    #[prost(uint32, tag = "1")]
    pub server: u32,
    /// Covers what it did.
    #[prost(message, required, tag = "2")]
    pub at: Position,
}
