//! Messages about the chunks of addressed files (`docs/design/0032-addressed-files.md`).

use bytes::Bytes;

use super::io::{Access, CellRun};
use super::order::Claim;

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
    /// The recipe has other names than `old`: nothing was changed. `lacking` says what the server
    /// would have lacked: `old` that no recipe has makes the request a question.
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

/// Read the names of the chunks that an access touches (CAPFS §3.4.2).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadNamesRequest {
    /// What a read of the same bytes would send.
    #[prost(message, required, tag = "1")]
    pub access: Access,
    /// The place of the operation in the order of the file; absent: none, the operation is
    /// reckless.
    #[prost(message, optional, tag = "2")]
    pub claim: Option<Claim>,
    /// Become a sharer of the file on this server: be told by [`CallbacksRequest`] of every change
    /// of it, before that is acknowledged.
    #[prost(bool, tag = "3")]
    pub callback: bool,
    /// A registration that has ended for the client: it needs a later one.
    #[prost(fixed64, tag = "4")]
    pub after: u64,
}

/// The names.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadNamesReply {
    /// Runs of chunks; their names follow one another in `names`.
    #[prost(message, repeated, tag = "1")]
    pub chunks: Vec<ChunkRun>,
    /// 32 bytes for each chunk; zeros for a hole.
    #[prost(bytes = "bytes", tag = "2")]
    pub names: Bytes,
    /// The lengths of the touched cells that have bytes.
    #[prost(message, repeated, tag = "3")]
    pub lengths: Vec<CellRun>,
    /// The claim was granted; otherwise there is nothing else here.
    #[prost(bool, tag = "4")]
    pub granted: bool,
    /// Which registration of the client the names belong to; 0: the client is no sharer, and may
    /// not keep the names.
    #[prost(fixed64, tag = "5")]
    pub registration: u64,
    /// Which of the client's requests made it a sharer of this file, for
    /// [`CallbacksRequest::dropped`].
    #[prost(uint64, tag = "6")]
    pub share: u64,
}

/// Chunks of one cell that follow one another.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ChunkRun {
    /// The cell.
    #[prost(uint32, tag = "1")]
    pub cell: u32,
    /// The number of the first chunk.
    #[prost(uint64, tag = "2")]
    pub first: u64,
    /// Chunks.
    #[prost(uint64, tag = "3")]
    pub count: u64,
}

/// Wait for changes of files that this client is a sharer of. A client that does not ask again in
/// time is no sharer any more.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CallbacksRequest {
    /// The client's registration, from [`ReadNamesReply`].
    #[prost(fixed64, tag = "1")]
    pub registration: u64,
    /// The changes up to this one were handled.
    #[prost(uint64, tag = "2")]
    pub cursor: u64,
    /// Files that the client no longer keeps names of.
    #[prost(message, repeated, tag = "3")]
    pub dropped: Vec<DroppedShare>,
}

/// A file that a client is no sharer of any more.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DroppedShare {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The last [`ReadNamesReply::share`] that the client knows of; a later one stays.
    #[prost(uint64, tag = "2")]
    pub share: u64,
}

/// Changes, as soon as there are some; none after a while.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CallbacksReply {
    /// The registration; 0: the asked one has ended, and with it all that the client keeps of this
    /// server.
    #[prost(fixed64, tag = "1")]
    pub registration: u64,
    /// The last change in this answer.
    #[prost(uint64, tag = "2")]
    pub cursor: u64,
    /// The changes, in their order.
    #[prost(message, repeated, tag = "3")]
    pub changes: Vec<Callback>,
}

/// A change of a file.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Callback {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The bytes that changed, with the lengths of their cells; absent: anything may have.
    #[prost(message, optional, tag = "2")]
    pub bytes: Option<ChangedBytes>,
}

/// Bytes of one cell that changed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ChangedBytes {
    /// The cell.
    #[prost(uint32, tag = "1")]
    pub cell: u32,
    /// The fork.
    #[prost(string, tag = "2")]
    pub fork: String,
    /// The first byte.
    #[prost(uint64, tag = "3")]
    pub start: u64,
    /// One past the last byte.
    #[prost(uint64, tag = "4")]
    pub end: u64,
    /// The names of all touched chunks as they are now: an update for the only sharer. Empty: an
    /// invalidation.
    #[prost(bytes = "bytes", tag = "5")]
    pub names: Bytes,
    /// With names: the cell's length now.
    #[prost(uint64, tag = "6")]
    pub length: u64,
}
