//! Messages about checkpoints of files: to I/O servers, which keep a file's cells as they are, and to the metadata service, which
//! gives checkpoints their names and sees to it that all servers have them.

use crate::io::Grid;
use crate::meta::{Credentials, Target};

/// Keep a file's cells on one server as they are now. Done once per `op`, which is the checkpoint's number.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
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
}

/// Done, and survives power loss.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CheckpointReply {
    /// The size in canonical order that the server's cells give the file in the checkpoint.
    #[prost(uint64, tag = "1")]
    pub size: u64,
}

/// Make a file's cells on one server what they are in a checkpoint. Done once per `op`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
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
}

/// Done, and survives power loss.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RollbackReply {}

/// Drop a checkpoint on one server. Done once per `op`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
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
    /// The file's size in it.
    #[prost(uint64, tag = "4")]
    pub size: u64,
}

/// Make a checkpoint of a file.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MakeCheckpointRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// The checkpoint's name: 1 to 255 bytes without NUL and `/`.
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
