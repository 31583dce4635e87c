//! Messages to the metadata service: listings, the check of the namespace, and repairs.

use bytes::Bytes;

use super::finding::Finding;
use crate::meta::Layout;

/// Check the namespace for consistency. The check runs in the service; ask until it is done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CheckNamespaceRequest {
    /// The pass, a number chosen by the client. A number that the service does not know begins a
    /// new pass and ends the current one.
    #[prost(uint64, tag = "1")]
    pub pass: u64,
    /// How many findings of this pass the client has received.
    #[prost(uint64, tag = "2")]
    pub seen: u64,
}

/// The progress of the check.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckNamespaceReply {
    /// The check has ended, and this answer has the last findings.
    #[prost(bool, tag = "1")]
    pub done: bool,
    /// Records checked.
    #[prost(uint64, tag = "2")]
    pub records: u64,
    /// Inodes checked.
    #[prost(uint64, tag = "3")]
    pub files: u64,
    /// Number of inodes when it began.
    #[prost(uint64, tag = "4")]
    pub total: u64,
    /// The findings after those that the client has received.
    #[prost(message, repeated, tag = "5")]
    pub findings: Vec<Finding>,
    /// Number of findings that were dropped.
    #[prost(uint64, tag = "6")]
    pub more: u64,
    /// Why it ended early; empty: it did not.
    #[prost(string, tag = "7")]
    pub failed: String,
}

/// A checkpoint of a file, readable or not.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListedCheckpoint {
    /// Its number on the servers.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// All servers have it, and it is not being removed.
    #[prost(bool, tag = "2")]
    pub there: bool,
}

/// The namespace's record of a regular file.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[allow(clippy::struct_excessive_bools)] // each answers a question of its own
pub struct FileState {
    /// Its id.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// A regular file with this id exists.
    #[prost(bool, tag = "2")]
    pub there: bool,
    /// Its layout; absent if it is invalid.
    #[prost(message, optional, tag = "3")]
    pub layout: Option<Layout>,
    /// Its bytes lie with its metadata.
    #[prost(bool, tag = "4")]
    pub inline: bool,
    /// Its size as last reported.
    #[prost(uint64, tag = "5")]
    pub size: u64,
    /// The size is that of the servers.
    #[prost(bool, tag = "6")]
    pub size_exact: bool,
    /// The last write that was reported.
    #[prost(int64, tag = "7")]
    pub written: i64,
    /// The last change of its attributes.
    #[prost(int64, tag = "8")]
    pub changed: i64,
    /// Operations on its servers are pending, or will be because it has no name left.
    #[prost(bool, tag = "9")]
    pub owed: bool,
    /// A client may write to it.
    #[prost(bool, tag = "10")]
    pub open: bool,
    /// Its checkpoints.
    #[prost(message, repeated, tag = "11")]
    pub checkpoints: Vec<ListedCheckpoint>,
    /// An inode with this id exists that is not a regular file.
    #[prost(bool, tag = "12")]
    pub other: bool,
    /// Checkpoints of trees need its cells; they are among `checkpoints`. If the file was deleted,
    /// `layout` is theirs.
    #[prost(bool, tag = "13")]
    pub held: bool,
    /// Its bytes are being moved to its cells.
    #[prost(bool, tag = "14")]
    pub spilling: bool,
    /// Bytes charged for its forks other than `data`.
    #[prost(uint64, tag = "15")]
    pub fork_bytes: u64,
}

/// One page of the regular files, by ascending id; with `files`, the records of just these.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListFilesRequest {
    /// Ids above this one.
    #[prost(uint64, tag = "1")]
    pub after: u64,
    /// Only these, answered in this order, whether they exist or not.
    #[prost(uint64, repeated, tag = "2")]
    pub files: Vec<u64>,
}

/// A page of files.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListFilesReply {
    /// In order. Includes files that do not exist but whose delete is pending.
    #[prost(message, repeated, tag = "1")]
    pub files: Vec<FileState>,
    /// There are more.
    #[prost(bool, tag = "2")]
    pub more: bool,
    /// The id that the next file gets.
    #[prost(uint64, tag = "3")]
    pub next_id: u64,
    /// The page covers all ids up to this one.
    #[prost(uint64, tag = "4")]
    pub through: u64,
}

/// Repair a fault, if it still exists.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RepairNamespaceRequest {
    /// The fault.
    #[prost(message, required, tag = "1")]
    pub finding: Finding,
    /// For a repair that removes the file or gives it another id: the file's record when its
    /// servers were asked. If it differs now, nothing is done.
    #[prost(message, optional, tag = "2")]
    pub seen: Option<FileState>,
}

/// The result of a repair.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RepairNamespaceReply {
    /// The fault does not exist (any more).
    #[prost(bool, tag = "1")]
    pub gone: bool,
    /// What was done; empty: it cannot be repaired.
    #[prost(string, tag = "2")]
    pub done: String,
}

/// Create an inode for cells that have none, with the id of the cells.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AdoptFileRequest {
    /// The file's id.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// A layout that fits its cells.
    #[prost(message, required, tag = "2")]
    pub layout: Layout,
    /// The size in canonical order that the cells give it.
    #[prost(uint64, tag = "3")]
    pub size: u64,
    /// The last write to one of them.
    #[prost(int64, tag = "4")]
    pub modified: i64,
    /// The value of its attribute `user.weft.lost`.
    #[prost(string, tag = "5")]
    pub known: String,
    /// The inode exists with this layout, which contradicts its cells: the layout is replaced,
    /// unless it has changed since.
    #[prost(message, optional, tag = "6")]
    pub instead_of: Option<Layout>,
}

/// Ask for names of inodes: one scan of all entries for any number of inodes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NamesOfRequest {
    /// The inodes.
    #[prost(uint64, repeated, tag = "1")]
    pub files: Vec<u64>,
}

/// One name of an inode.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NameOf {
    /// The inode.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// A path from the root, or from a directory that is not connected to it.
    #[prost(bytes = "bytes", tag = "2")]
    pub path: Bytes,
}

/// The names that were found, at most [`crate::limits::NAMES_OF_MAX`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NamesOfReply {
    /// Unordered.
    #[prost(message, repeated, tag = "1")]
    pub names: Vec<NameOf>,
}
