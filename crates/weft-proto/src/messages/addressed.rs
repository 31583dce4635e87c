//! Messages about the chunks of addressed files (`docs/design/0032-addressed-files.md`).

use bytes::Bytes;

use super::io::Access;

/// Write chunks of a cell by their names: those that the server has get into the cell without
/// their bytes (CAPFS's commit, §3.2).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NameChunksRequest {
    /// A contiguous range of one cell. It begins where a chunk does; where it ends within a chunk,
    /// the cell must not be longer.
    #[prost(message, required, tag = "1")]
    pub access: Access,
    /// The file's chunk size, with the bit of addressed files.
    #[prost(uint32, tag = "2")]
    pub chunk: u32,
    /// The names, 32 bytes for each chunk of the range; zeros name a chunk of zeros.
    #[prost(bytes = "bytes", tag = "3")]
    pub names: Bytes,
    /// The names that the recipe must have there now; empty: any.
    #[prost(bytes = "bytes", tag = "4")]
    pub old: Bytes,
    /// All or nothing: change nothing if the server lacks one.
    #[prost(bool, tag = "5")]
    pub all: bool,
    /// Survive power loss.
    #[prost(bool, tag = "6")]
    pub sync: bool,
}

/// What became of the names.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NameChunksReply {
    /// A bit for each chunk, the lowest first, that the server lacks: its bytes must be written.
    /// Bits after the last one that is set are left out.
    #[prost(bytes = "bytes", tag = "1")]
    pub lacking: Bytes,
    /// The recipe has other names than `old`: nothing was changed.
    #[prost(bool, tag = "2")]
    pub changed: bool,
}

/// Remove chunks that no file names, or ask what the last pass found.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CleanRequest {
    /// Run a pass now.
    #[prost(bool, tag = "1")]
    pub run: bool,
}

/// The last cleaning pass of a server, and all since it was started.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CleanReply {
    /// Chunks that files and their checkpoints refer to, each as often as they do.
    #[prost(uint64, tag = "1")]
    pub named: u64,
    /// Their bytes: what plain files of these contents would take.
    #[prost(uint64, tag = "2")]
    pub named_bytes: u64,
    /// Chunks that are stored.
    #[prost(uint64, tag = "3")]
    pub chunks: u64,
    /// Their bytes.
    #[prost(uint64, tag = "4")]
    pub chunk_bytes: u64,
    /// Chunks that the pass removed.
    #[prost(uint64, tag = "5")]
    pub removed: u64,
    /// Their bytes.
    #[prost(uint64, tag = "6")]
    pub removed_bytes: u64,
    /// Chunks that files refer to and that are not stored, or were found damaged.
    #[prost(uint64, tag = "7")]
    pub missing: u64,
    /// Bytes that all passes since the start removed.
    #[prost(uint64, tag = "8")]
    pub removed_since_start: u64,
    /// No pass has run since the start: all of the above is 0.
    #[prost(bool, tag = "9")]
    pub never: bool,
}
