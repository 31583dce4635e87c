//! Messages about checkpoints of files: to I/O servers, which keep a file's cells as they are, and
//! to the metadata service, which gives checkpoints their names and sees to it that all servers
//! have them.

use bytes::Bytes;

use crate::io::Grid;
use crate::meta::{Credentials, Target};

/// A file of a tree, for a server.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TreeFile {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Layout parameters.
    #[prost(message, required, tag = "2")]
    pub grid: Grid,
}

/// Keep a file's cells on one server as they are now; with `others`, those of all these files at
/// one moment. Done once per `op`, which is the checkpoint's number.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckpointRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Layout parameters.
    #[prost(message, required, tag = "2")]
    pub grid: Grid,
    /// Number of this operation on the file, ascending, among its cutting operations.
    #[prost(uint64, tag = "3")]
    pub op: u64,
    /// Further files of a tree, under the same number: at most `TREE_BATCH_MAX`.
    #[prost(message, repeated, tag = "4")]
    pub others: Vec<TreeFile>,
    /// More files of the tree come in further calls of the same `op`: these are held, which means
    /// that no write of them begins, until the last call keeps all of them, or for some seconds.
    #[prost(bool, tag = "5")]
    pub more: bool,
    /// Files that calls before have held for this one, which keeps them, too.
    #[prost(uint64, tag = "6")]
    pub held: u64,
}

/// What a file is in a checkpoint, as far as one server knows.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct KeptFile {
    /// The size in canonical order that the server's cells give it.
    #[prost(uint64, tag = "1")]
    pub size: u64,
    /// The last write to one of them, nanoseconds since the epoch.
    #[prost(int64, tag = "2")]
    pub modified: i64,
}

/// Done, and survives power loss; where `more` was set, the files are held, and nothing is said of
/// them.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckpointReply {
    /// The size in canonical order that the server's cells give the file in the checkpoint.
    #[prost(uint64, tag = "1")]
    pub size: u64,
    /// What the files of `others` are, in their order.
    #[prost(message, repeated, tag = "2")]
    pub others: Vec<KeptFile>,
    /// The last write to a cell of `file` here, nanoseconds since the epoch.
    #[prost(int64, tag = "3")]
    pub modified: i64,
}

/// Make a file's cells on one server what they are in a checkpoint. Done once per `op`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RollbackRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The checkpoint's number.
    #[prost(uint64, tag = "2")]
    pub checkpoint: u64,
    /// Number of this operation on the file, ascending.
    #[prost(uint64, tag = "3")]
    pub op: u64,
    /// Further files of a tree, which have a checkpoint of the same number: at most
    /// `TREE_BATCH_MAX`.
    #[prost(uint64, repeated, tag = "4")]
    pub others: Vec<u64>,
}

/// Done, and survives power loss.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RollbackReply {}

/// Drop a checkpoint on one server. Done once per `op`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DropCheckpointRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The checkpoint's number.
    #[prost(uint64, tag = "2")]
    pub checkpoint: u64,
    /// Number of this operation on the file, ascending.
    #[prost(uint64, tag = "3")]
    pub op: u64,
    /// Further files of a tree: at most `TREE_BATCH_MAX`.
    #[prost(uint64, repeated, tag = "4")]
    pub others: Vec<u64>,
}

/// Done, and survives power loss; the space comes back in the background.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DropCheckpointReply {}

/// A checkpoint of a file.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckpointInfo {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What an `Access` names it by.
    #[prost(uint64, tag = "2")]
    pub number: u64,
    /// When it was asked for, nanoseconds since the epoch.
    #[prost(int64, tag = "3")]
    pub made: i64,
    /// The file's size in it; of a tree the sizes of all files.
    #[prost(uint64, tag = "4")]
    pub size: u64,
    /// Of a directory's: the id of the directory as it was, which is read, listed and looked into
    /// as any other; else 0.
    #[prost(uint64, tag = "5")]
    pub image: u64,
    /// Of a directory's: how many names its tree has.
    #[prost(uint64, tag = "6")]
    pub names: u64,
}

/// Make a checkpoint of a file, or of a directory with all that is below it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MakeCheckpointRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// The checkpoint's name: 1 to 255 bytes without NUL and `/`, neither `.` nor `..`.
    #[prost(string, tag = "3")]
    pub name: String,
}

/// It is made on all servers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MakeCheckpointReply {
    /// The checkpoint.
    #[prost(message, required, tag = "1")]
    pub checkpoint: CheckpointInfo,
}

/// One page of a file's checkpoints.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListCheckpointsRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// Continue after this name; empty: from the first.
    #[prost(string, tag = "3")]
    pub after: String,
}

/// Those that are made on all servers, in the order of their names.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListCheckpointsReply {
    /// The checkpoints.
    #[prost(message, repeated, tag = "1")]
    pub checkpoints: Vec<CheckpointInfo>,
    /// There are more: ask again after the last one.
    #[prost(bool, tag = "2")]
    pub more: bool,
}

/// One page of the checkpoints of files that a directory names: of the files themselves, not of
/// trees.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListFileCheckpointsRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The directory.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// Continue with the first name behind this one; empty: from the first.
    #[prost(bytes = "bytes", tag = "3")]
    pub after: Bytes,
}

/// A checkpoint of a file that a directory names.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FileCheckpoint {
    /// The file's name.
    #[prost(bytes = "bytes", tag = "1")]
    pub file: Bytes,
    /// The checkpoint's.
    #[prost(string, tag = "2")]
    pub name: String,
}

/// Checkpoints of files that the caller may read, in the order of the files' names.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListFileCheckpointsReply {
    /// The checkpoints; of one file at most `LIST_PAGE_MAX`.
    #[prost(message, repeated, tag = "1")]
    pub checkpoints: Vec<FileCheckpoint>,
    /// Ask again after this name; absent: that is all.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub next: Option<Bytes>,
}

/// Drop a checkpoint of a file.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RemoveCheckpointRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// The checkpoint's name.
    #[prost(string, tag = "3")]
    pub name: String,
}

/// Its name is free again.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RemoveCheckpointReply {}

/// Make a file what it is in a checkpoint.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RollBackRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// The checkpoint's name.
    #[prost(string, tag = "3")]
    pub name: String,
}
