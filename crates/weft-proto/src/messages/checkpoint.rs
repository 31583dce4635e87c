//! Messages about checkpoints of files: to I/O servers, which preserve the state of a file's cells,
//! and to the metadata service, which names checkpoints and makes them on all servers.

use bytes::Bytes;

use crate::io::Grid;
use crate::meta::{Credentials, Target};

/// A file of a tree, as an I/O server needs it.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TreeFile {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Layout parameters.
    #[prost(message, required, tag = "2")]
    pub grid: Grid,
}

/// Make a checkpoint of a file's cells on one server; with `others`, of all these files at one
/// moment. Done once per `op`, which is the checkpoint's number.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckpointRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Layout parameters.
    #[prost(message, required, tag = "2")]
    pub grid: Grid,
    /// Number of this operation on the file, in one ascending sequence with its truncates.
    #[prost(uint64, tag = "3")]
    pub op: u64,
    /// Further files of a tree, under the same number: at most `TREE_BATCH_MAX`.
    #[prost(message, repeated, tag = "4")]
    pub others: Vec<TreeFile>,
    /// More files of the tree follow in further calls of the same `op`: until the last of them, or
    /// for some seconds, these files are held, which means that no write to them begins.
    #[prost(bool, tag = "5")]
    pub more: bool,
    /// Number of files that earlier calls hold for this one, which includes them.
    #[prost(uint64, tag = "6")]
    pub held: u64,
    /// Make no checkpoint, and release the files that are held for this `op`.
    #[prost(bool, tag = "7")]
    pub release: bool,
}

/// The state of a file in a checkpoint, as far as one server knows.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CheckpointedFile {
    /// The size in canonical order that the server's cells give it.
    #[prost(uint64, tag = "1")]
    pub size: u64,
    /// The last write to one of them, nanoseconds since the epoch.
    #[prost(int64, tag = "2")]
    pub modified: i64,
}

/// Done, and survives power loss; with `more`, the files are held and their states are not
/// reported; with `release`, they are released.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckpointReply {
    /// The size in canonical order that the server's cells give the file in the checkpoint.
    #[prost(uint64, tag = "1")]
    pub size: u64,
    /// The states of the files in `others`, in the same order.
    #[prost(message, repeated, tag = "2")]
    pub others: Vec<CheckpointedFile>,
    /// The last write to a cell of `file` here, nanoseconds since the epoch.
    #[prost(int64, tag = "3")]
    pub modified: i64,
}

/// Roll a file's cells on one server back to a checkpoint. Done once per `op`.
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

/// Done, and survives power loss; the space is freed in the background.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DropCheckpointReply {}

/// A checkpoint of a file.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckpointInfo {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its number, as in an `Access`.
    #[prost(uint64, tag = "2")]
    pub number: u64,
    /// When it was requested, nanoseconds since the epoch.
    #[prost(int64, tag = "3")]
    pub made: i64,
    /// The file's size in it; for a tree, the sum over all files.
    #[prost(uint64, tag = "4")]
    pub size: u64,
    /// For a directory: the id of its image, which is listed and looked up like any other
    /// directory; else 0.
    #[prost(uint64, tag = "5")]
    pub image: u64,
    /// For a directory: the number of names in its tree.
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

/// The checkpoint exists on all servers.
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

/// The checkpoints that exist on all servers, by ascending name.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListCheckpointsReply {
    /// The checkpoints.
    #[prost(message, repeated, tag = "1")]
    pub checkpoints: Vec<CheckpointInfo>,
    /// There are more: ask again after the last one.
    #[prost(bool, tag = "2")]
    pub more: bool,
}

/// One page of the checkpoints of the files in a directory; checkpoints of trees are not among
/// them.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListFileCheckpointsRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The directory.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// Continue with the first name after this one; empty: from the first.
    #[prost(bytes = "bytes", tag = "3")]
    pub after: Bytes,
}

/// A checkpoint of a file in a directory.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FileCheckpoint {
    /// The file's name.
    #[prost(bytes = "bytes", tag = "1")]
    pub file: Bytes,
    /// The checkpoint's name.
    #[prost(string, tag = "2")]
    pub name: String,
}

/// Checkpoints of files that the caller may read, in the order of the files' names.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListFileCheckpointsReply {
    /// The checkpoints; of one file at most `LIST_PAGE_MAX`.
    #[prost(message, repeated, tag = "1")]
    pub checkpoints: Vec<FileCheckpoint>,
    /// Ask again after this name; absent: there are no more.
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

/// Done: the name is free again.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RemoveCheckpointReply {}

/// Roll a file back to a checkpoint.
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
