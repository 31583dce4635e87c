//! Messages to the metadata service: what the namespace lists, the check of the namespace in itself,
//! and repairs.

use bytes::Bytes;

use super::finding::Finding;
use crate::meta::Layout;

/// Check the namespace in itself. It goes on in the service; ask until it is done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CheckNamespaceRequest {
    /// The pass, a number that its client chose. A number that the service does not know begins a
    /// pass and ends the one that is under way.
    #[prost(uint64, tag = "1")]
    pub pass: u64,
    /// How many findings of this pass the client was told.
    #[prost(uint64, tag = "2")]
    pub seen: u64,
}

/// How far the check of the namespace is.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckNamespaceReply {
    /// It is at its end, and with this answer all findings were told.
    #[prost(bool, tag = "1")]
    pub done: bool,
    /// Records looked at.
    #[prost(uint64, tag = "2")]
    pub records: u64,
    /// Inodes looked at.
    #[prost(uint64, tag = "3")]
    pub files: u64,
    /// Inodes there were when it began.
    #[prost(uint64, tag = "4")]
    pub total: u64,
    /// The findings behind those that were told.
    #[prost(message, repeated, tag = "5")]
    pub findings: Vec<Finding>,
    /// Findings that were not kept.
    #[prost(uint64, tag = "6")]
    pub more: u64,
    /// Why it ended early; empty: it did not.
    #[prost(string, tag = "7")]
    pub failed: String,
}

/// A checkpoint of a file, whether it can be read yet or not.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListedCheckpoint {
    /// Its number on the servers.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// All servers have it, and it is not going.
    #[prost(bool, tag = "2")]
    pub there: bool,
}

/// What the namespace says of a regular file.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[allow(clippy::struct_excessive_bools)] // each answers a question of its own
pub struct FileState {
    /// Its id.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// There is a regular file of this id.
    #[prost(bool, tag = "2")]
    pub there: bool,
    /// Its layout; absent where it makes no sense.
    #[prost(message, optional, tag = "3")]
    pub layout: Option<Layout>,
    /// Its bytes lie with its metadata.
    #[prost(bool, tag = "4")]
    pub inline: bool,
    /// Its size as last reported.
    #[prost(uint64, tag = "5")]
    pub size: u64,
    /// The size is what the servers have.
    #[prost(bool, tag = "6")]
    pub size_exact: bool,
    /// The last write that was reported.
    #[prost(int64, tag = "7")]
    pub written: i64,
    /// The last change of its attributes.
    #[prost(int64, tag = "8")]
    pub changed: i64,
    /// Something is owed to its servers, or will be as it has no name any more.
    #[prost(bool, tag = "9")]
    pub owed: bool,
    /// Somebody may write to it.
    #[prost(bool, tag = "10")]
    pub open: bool,
    /// Its checkpoints.
    #[prost(message, repeated, tag = "11")]
    pub checkpoints: Vec<ListedCheckpoint>,
    /// There is something of this id that is no regular file.
    #[prost(bool, tag = "12")]
    pub other: bool,
    /// Checkpoints of trees need its cells; they are among `checkpoints`. Where the file was
    /// deleted, `layout` is theirs.
    #[prost(bool, tag = "13")]
    pub held: bool,
    /// Its bytes are on their way to its cells.
    #[prost(bool, tag = "14")]
    pub spilling: bool,
    /// How long its forks other than `data` are together, as they are charged.
    #[prost(uint64, tag = "15")]
    pub fork_bytes: u64,
}

/// One page of the regular files, in the order of their ids; with `files`, what is known of just
/// these.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListFilesRequest {
    /// Ids above this one.
    #[prost(uint64, tag = "1")]
    pub after: u64,
    /// These instead: answered in this order, also where there is nothing.
    #[prost(uint64, repeated, tag = "2")]
    pub files: Vec<u64>,
}

/// A page of files.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListFilesReply {
    /// In order. Files that are not there are among them where a delete is owed.
    #[prost(message, repeated, tag = "1")]
    pub files: Vec<FileState>,
    /// There are more.
    #[prost(bool, tag = "2")]
    pub more: bool,
    /// The id that the next file gets.
    #[prost(uint64, tag = "3")]
    pub next_id: u64,
    /// The page covers the ids up to this one, whether they are there or not.
    #[prost(uint64, tag = "4")]
    pub through: u64,
}

/// Repair something, if it still is so.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RepairNamespaceRequest {
    /// What is wrong.
    #[prost(message, required, tag = "1")]
    pub finding: Finding,
    /// The file as it was when its servers were asked, of a finding that takes it away or gives it
    /// another id: if it is another now, nothing is done.
    #[prost(message, optional, tag = "2")]
    pub seen: Option<FileState>,
}

/// What became of it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RepairNamespaceReply {
    /// It is not so (any more).
    #[prost(bool, tag = "1")]
    pub gone: bool,
    /// What was done; empty: nothing can be.
    #[prost(string, tag = "2")]
    pub done: String,
}

/// Make an inode for cells that have none, under their own id.
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
    /// What is known of it, for the attribute `user.weft.lost`.
    #[prost(string, tag = "5")]
    pub known: String,
    /// The inode is there, and has this layout, which its cells do not bear out: it gets the other,
    /// unless it has changed since.
    #[prost(message, optional, tag = "6")]
    pub instead_of: Option<Layout>,
}

/// Names of inodes: one scan of all entries, whatever their number.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NamesOfRequest {
    /// Of these.
    #[prost(uint64, repeated, tag = "1")]
    pub files: Vec<u64>,
}

/// One name of an inode.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NameOf {
    /// The inode.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// A path from the root, or from a directory that does not lead there.
    #[prost(bytes = "bytes", tag = "2")]
    pub path: Bytes,
}

/// The names that were found, at most [`crate::limits::NAMES_OF_MAX`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NamesOfReply {
    /// In any order.
    #[prost(message, repeated, tag = "1")]
    pub names: Vec<NameOf>,
}
