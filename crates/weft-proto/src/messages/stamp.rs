//! What ties an acknowledged change to the process that acknowledged it
//! (`docs/design/0021-incarnations.md`).
//!
//! A change is acknowledged before it survives power loss. The reply names the incarnation of the
//! server and a commit that covers the change; a sync repeats these positions, and the server
//! answers whether it still has all of them.

/// A commit of a server: which of its incarnations made it, and its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Message)]
pub struct Position {
    /// The incarnation: a random number that a process chooses when it opens its store or
    /// namespace.
    #[prost(fixed64, tag = "1")]
    pub incarnation: u64,
    /// The commit. The position that covers a change may be later than the change's own commit.
    #[prost(uint64, tag = "2")]
    pub sequence: u64,
}

/// Fields of any reply to a call that changed something, from number 1000 on.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Stamp {
    /// The position that covers the change.
    #[prost(message, optional, tag = "1000")]
    pub changed: Option<Position>,
    /// Commits of the same incarnation up to this one survive power loss.
    #[prost(uint64, tag = "1001")]
    pub durable: u64,
}

/// The position of changes that one server made for another's call.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ServerPosition {
    /// The server.
    #[prost(uint32, tag = "1")]
    pub server: u32,
    /// The position that covers its changes.
    #[prost(message, required, tag = "2")]
    pub at: Position,
}
