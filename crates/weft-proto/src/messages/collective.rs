//! Collectives: the requests of a group of processes that a server joins into one job.
//!
//! Either each member sends its own request to every server of the file, also to those that hold
//! none of its bytes, so that nobody is waited for in vain; or one process sends the requests of
//! all in one message per server.

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
    /// Which of them this is, from 0.
    #[prost(uint32, tag = "4")]
    pub member: u32,
    /// Chosen by chance for each call and kept when it is repeated after a lost connection.
    #[prost(uint64, tag = "5")]
    pub nonce: u64,
    /// Milliseconds after the first member's arrival that the server waits for the others.
    #[prost(uint32, tag = "6")]
    pub wait: u32,
    /// Do it without those that do not come or are lost; else it fails for all.
    #[prost(bool, tag = "7")]
    pub go_on: bool,
    /// Sent once more after a lost connection.
    #[prost(bool, tag = "8")]
    pub again: bool,
}

/// One member's read.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CollectiveReadRequest {
    /// In which collective.
    #[prost(message, required, tag = "1")]
    pub membership: Membership,
    /// What.
    #[prost(message, required, tag = "2")]
    pub access: Access,
}

/// Heads the stream of one member's read, which is that of an ordinary read.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CollectiveReadReply {
    /// The fork's length in each cell that any member touches and that has bytes.
    #[prost(message, repeated, tag = "1")]
    pub lengths: Vec<CellRun>,
    /// Bytes that follow.
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
    /// Members that did not come.
    #[prost(uint32, repeated, tag = "3")]
    pub missing: Vec<u32>,
}

/// One member's write; its payload is that of an ordinary write.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CollectiveWriteRequest {
    /// In which collective.
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
    /// Answer when what all wrote survives power loss.
    #[prost(bool, tag = "5")]
    pub sync: bool,
    /// The request itself touches bytes twice, and the later stay.
    #[prost(bool, tag = "6")]
    pub ordered: bool,
    /// Where members touch the same byte, that of the highest member stays; else such a collective
    /// is refused.
    #[prost(bool, tag = "7")]
    pub member_order: bool,
}

/// Done, as far as a single write would be.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CollectiveWriteReply {
    /// Bytes of this member that were written.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
    /// Members that did not come or were lost.
    #[prost(uint32, repeated, tag = "2")]
    pub missing: Vec<u32>,
}

/// The reads of all members from one process. The payload is, for each round of the job, the bytes
/// of each member's pieces in it, member after member.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct JoinedReadRequest {
    /// What each member reads; of the first, file, fork, grid, slot and checkpoint hold for all.
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

/// The writes of all members from one process; the payload is cut as that of a joined read.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct JoinedWriteRequest {
    /// What each member writes; of the first, file, fork, grid and slot hold for all.
    #[prost(message, repeated, tag = "1")]
    pub accesses: Vec<Access>,
    /// The file's chunk size.
    #[prost(uint32, tag = "2")]
    pub chunk: u32,
    /// Payload bytes.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// Answer when all survives power loss.
    #[prost(bool, tag = "4")]
    pub sync: bool,
    /// Members touch the same bytes, and that of the highest member stays: the payload is then one
    /// member's stream after the other's.
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
