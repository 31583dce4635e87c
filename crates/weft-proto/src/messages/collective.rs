//! Collectives: the requests of a group of processes that a server joins into one job.
//!
//! Either each member sends its request to every server of the file, even to those that hold none
//! of its bytes, so that no server waits for it in vain; or one process sends the requests of all
//! members in one message per server.

use crate::io::{Access, CellRun};

/// Which collective a member's request belongs to.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Membership {
    /// The group's name, the same for all members.
    #[prost(string, tag = "1")]
    pub group: String,
    /// Which of the group's collectives.
    #[prost(uint64, tag = "2")]
    pub sequence: u64,
    /// How many members there are.
    #[prost(uint32, tag = "3")]
    pub members: u32,
    /// This member's number, from 0.
    #[prost(uint32, tag = "4")]
    pub member: u32,
    /// Random for each call, and the same when the call is repeated after a lost connection.
    #[prost(uint64, tag = "5")]
    pub nonce: u64,
    /// Milliseconds after the first member's arrival that the server waits for the others.
    #[prost(uint32, tag = "6")]
    pub wait: u32,
    /// Go on without members that are missing or lost; else the collective fails for all.
    #[prost(bool, tag = "7")]
    pub go_on: bool,
    /// Repeated after a lost connection.
    #[prost(bool, tag = "8")]
    pub again: bool,
}

/// One member's read.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CollectiveReadRequest {
    /// Its collective.
    #[prost(message, required, tag = "1")]
    pub membership: Membership,
    /// What.
    #[prost(message, required, tag = "2")]
    pub access: Access,
}

/// Heads the stream of one member's read, which is like that of an ordinary read.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CollectiveReadReply {
    /// The fork's length in each cell that any member touches and that has bytes.
    #[prost(message, repeated, tag = "1")]
    pub lengths: Vec<CellRun>,
    /// Bytes that follow.
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
    /// Missing members.
    #[prost(uint32, repeated, tag = "3")]
    pub missing: Vec<u32>,
}

/// One member's write; its payload is that of an ordinary write.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CollectiveWriteRequest {
    /// Its collective.
    #[prost(message, required, tag = "1")]
    pub membership: Membership,
    /// What.
    #[prost(message, required, tag = "2")]
    pub access: Access,
    /// The file's chunk size.
    #[prost(uint32, tag = "3")]
    pub chunk: u32,
    /// Payload bytes.
    #[prost(uint64, tag = "4")]
    pub bytes: u64,
    /// Answer when the writes of all members survive power loss.
    #[prost(bool, tag = "5")]
    pub sync: bool,
    /// The request touches bytes more than once: what comes later in the payload wins.
    #[prost(bool, tag = "6")]
    pub ordered: bool,
    /// Where members touch the same byte, the highest member wins; else such a collective is
    /// refused.
    #[prost(bool, tag = "7")]
    pub member_order: bool,
}

/// Done, as far as a single write would be.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CollectiveWriteReply {
    /// Bytes of this member that were written.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
    /// Members that are missing or were lost.
    #[prost(uint32, repeated, tag = "2")]
    pub missing: Vec<u32>,
}

/// The reads of all members from one process. The payload is, for each round of the job, the bytes
/// of each member's pieces in it, member after member.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct JoinedReadRequest {
    /// What each member reads; file, fork, grid, slot and checkpoint are those of the first.
    #[prost(message, repeated, tag = "1")]
    pub accesses: Vec<Access>,
}

/// Heads the stream of a joined read.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct JoinedReadReply {
    /// The fork's length in each cell that any member touches and that has bytes.
    #[prost(message, repeated, tag = "1")]
    pub lengths: Vec<CellRun>,
    /// Bytes that follow, of all members together.
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
}

/// The writes of all members from one process; the payload is divided like that of a joined read.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct JoinedWriteRequest {
    /// What each member writes; file, fork, grid and slot are those of the first.
    #[prost(message, repeated, tag = "1")]
    pub accesses: Vec<Access>,
    /// The file's chunk size.
    #[prost(uint32, tag = "2")]
    pub chunk: u32,
    /// Payload bytes.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// Answer when all bytes survive power loss.
    #[prost(bool, tag = "4")]
    pub sync: bool,
    /// Members touch the same bytes, and the highest member wins: the payload is then one member's
    /// stream after the other's.
    #[prost(bool, tag = "5")]
    pub member_order: bool,
}

/// Done, as far as a single write would be.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct JoinedWriteReply {
    /// Bytes written.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
}
