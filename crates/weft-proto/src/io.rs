//! Messages to I/O servers. A request carries view, layout parameters and pattern; the server works
//! out its own pieces, so the size of a request does not grow with their number.

use crate::stamp::{Position, ServerPosition};

/// What the mapping needs of a layout.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Grid {
    /// Cells of the file.
    #[prost(uint32, tag = "1")]
    pub cells: u32,
    /// Bytes of a basic striping unit.
    #[prost(uint64, tag = "2")]
    pub bsu: u64,
    /// Entries of the layout's server list.
    #[prost(uint32, tag = "3")]
    pub servers: u32,
}

/// Vesta's parameters.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Subfile {
    /// BSUs of a block, down the cell.
    #[prost(uint64, tag = "1")]
    pub vbs: u64,
    /// Subfiles interleaved down the cell.
    #[prost(uint64, tag = "2")]
    pub vn: u64,
    /// Cells of a block.
    #[prost(uint64, tag = "3")]
    pub hbs: u64,
    /// Subfiles interleaved across the cells.
    #[prost(uint64, tag = "4")]
    pub hn: u64,
    /// Which of the `hn · vn` subfiles.
    #[prost(uint64, tag = "5")]
    pub index: u64,
    /// 0 default, 1 row, 2 column.
    #[prost(uint32, tag = "6")]
    pub order: u32,
}

/// PVFS's parameters.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Partition {
    /// First byte, in canonical order.
    #[prost(uint64, tag = "1")]
    pub offset: u64,
    /// Bytes visible in each stride.
    #[prost(uint64, tag = "2")]
    pub group: u64,
    /// Bytes from one group to the next.
    #[prost(uint64, tag = "3")]
    pub stride: u64,
}

/// A linear byte space on the grid.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct View {
    /// Which kind of view.
    #[prost(oneof = "ViewKind", tags = "1, 2, 3")]
    pub kind: Option<ViewKind>,
}

/// The kinds of views.
#[derive(Clone, Copy, PartialEq, Eq, prost::Oneof)]
pub enum ViewKind {
    /// Vesta's subfile.
    #[prost(message, tag = "1")]
    Subfile(Subfile),
    /// PVFS's partition.
    #[prost(message, tag = "2")]
    Partition(Partition),
    /// One cell.
    #[prost(uint32, tag = "3")]
    Cell(u32),
}

/// A contiguous range of a view.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Contiguous {
    /// First byte in the view.
    #[prost(uint64, tag = "1")]
    pub offset: u64,
    /// How many bytes.
    #[prost(uint64, tag = "2")]
    pub length: u64,
}

/// Equal runs at equal distances, column by column: `gaps[i]` tells where the `i`-th begin.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Runs {
    /// Distance of the first of the runs from the end of the last of those before (the first: from
    /// its part's place).
    #[prost(sint64, repeated, tag = "1")]
    pub gaps: Vec<i64>,
    /// Bytes of each of the runs; a single entry holds for all.
    #[prost(uint64, repeated, tag = "2")]
    pub lengths: Vec<u64>,
    /// How many there are; none: one of each.
    #[prost(uint64, repeated, tag = "3")]
    pub times: Vec<u64>,
    /// From one to the next; none: does not matter, as there is one of each.
    #[prost(sint64, repeated, tag = "4")]
    pub strides: Vec<i64>,
}

/// The next part again and again.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct PartRepeat {
    /// From one to the next.
    #[prost(sint64, tag = "1")]
    pub stride: i64,
    /// How often.
    #[prost(uint64, tag = "2")]
    pub times: u64,
}

/// A part of a request's tree, before those that it is made of.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Part {
    /// Where it starts, from where the part above it starts.
    #[prost(sint64, tag = "1")]
    pub at: i64,
    /// What it is.
    #[prost(oneof = "PartKind", tags = "2, 3, 4, 5")]
    pub kind: Option<PartKind>,
}

/// The kinds of parts.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum PartKind {
    /// So many bytes.
    #[prost(uint64, tag = "2")]
    Bytes(u64),
    /// The next part again and again.
    #[prost(message, tag = "3")]
    Repeat(PartRepeat),
    /// The next so many parts one after another.
    #[prost(uint32, tag = "4")]
    Sequence(u32),
    /// Runs of bytes.
    #[prost(message, tag = "5")]
    Runs(Runs),
}

/// Any pattern, its bytes packed in the order of its parts.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Shaped {
    /// The view byte that the first part's place counts from.
    #[prost(uint64, tag = "1")]
    pub offset: u64,
    /// The tree, each part before those that it is made of; none: touches nothing.
    #[prost(message, repeated, tag = "2")]
    pub parts: Vec<Part>,
}

/// Which bytes of a view.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Pattern {
    /// Which kind of request.
    #[prost(oneof = "PatternKind", tags = "1, 2")]
    pub kind: Option<PatternKind>,
}

/// The kinds of requests.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum PatternKind {
    /// A contiguous range.
    #[prost(message, tag = "1")]
    Contiguous(Contiguous),
    /// Strided, nested, batched, list.
    #[prost(message, tag = "2")]
    Shaped(Shaped),
}

/// Which bytes of which file one call touches on the server that receives it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Access {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Layout parameters.
    #[prost(message, required, tag = "2")]
    pub grid: Grid,
    /// View.
    #[prost(message, required, tag = "3")]
    pub view: View,
    /// Request.
    #[prost(message, required, tag = "4")]
    pub pattern: Pattern,
    /// The receiving server's position in the layout's server list.
    #[prost(uint32, tag = "5")]
    pub slot: u32,
    /// The fork.
    #[prost(string, tag = "6")]
    pub fork: String,
    /// The server map's epoch the client knows.
    #[prost(uint64, tag = "7")]
    pub epoch: u64,
    /// The checkpoint that is meant, by its number; 0: the file as it is.
    #[prost(uint64, tag = "8")]
    pub checkpoint: u64,
}

/// Read; the reply's payload is the valid bytes of the pieces, packed in view order.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadRequest {
    /// What.
    #[prost(message, required, tag = "1")]
    pub access: Access,
}

/// Lengths of cells `first, first + step, …`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CellRun {
    /// First cell.
    #[prost(uint32, tag = "1")]
    pub first: u32,
    /// From one cell to the next.
    #[prost(uint32, tag = "2")]
    pub step: u32,
    /// How many cells.
    #[prost(uint32, tag = "3")]
    pub count: u32,
    /// The length of each.
    #[prost(uint64, tag = "4")]
    pub length: u64,
}

/// Heads the stream of a read.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadReply {
    /// The fork's length in each touched cell that has bytes: pieces are cut there, bytes beyond do
    /// not travel.
    #[prost(message, repeated, tag = "1")]
    pub lengths: Vec<CellRun>,
    /// Payload bytes that follow, in this and later frames.
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
    /// It is in doubt whether cells of the slot are longer than that; the request asked for no byte
    /// of which it is.
    #[prost(bool, tag = "3")]
    pub doubted: bool,
}

/// Write; the payload is the bytes of the pieces, packed in view order.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WriteRequest {
    /// What.
    #[prost(message, required, tag = "1")]
    pub access: Access,
    /// The file's chunk size.
    #[prost(uint32, tag = "2")]
    pub chunk: u32,
    /// Payload bytes that follow, in this and later frames.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// Answer only when the bytes survive power loss.
    #[prost(bool, tag = "4")]
    pub sync: bool,
    /// The request touches bytes more than once: what comes later in the payload stays.
    #[prost(bool, tag = "5")]
    pub ordered: bool,
}

/// The bytes survive the death of the server's process.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct WriteReply {
    /// Bytes written.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
}

/// Make acknowledged writes survive power loss.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SyncRequest {
    /// The file whose lengths the reply tells; 0: none. Everything on the server is synced,
    /// whatever the file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// What the client was told when it wrote: with [`Lost`](crate::Code::Lost) the server answers
    /// that some of it is gone, and syncs nothing.
    #[prost(message, repeated, tag = "2")]
    pub written: Vec<Position>,
    /// Only say whether what was written is there.
    #[prost(bool, tag = "3")]
    pub check_only: bool,
}

/// Done; also how long the cells here are now, so that sync tells the file's size without another
/// request.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SyncReply {
    /// `data` fork lengths and times of the file's cells on this server.
    #[prost(message, repeated, tag = "1")]
    pub cells: Vec<ForkState>,
}

/// Ask for lengths and times.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CellStatusRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Continue after this cell and fork (paging); empty: from the start.
    #[prost(message, optional, tag = "2")]
    pub after: Option<ForkPlace>,
    /// Only this fork of every cell; empty: all forks.
    #[prost(string, tag = "3")]
    pub fork: String,
    /// The number of a checkpoint of the file; 0: the file as it is.
    #[prost(uint64, tag = "4")]
    pub checkpoint: u64,
}

/// A fork's place.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ForkPlace {
    /// Cell.
    #[prost(uint32, tag = "1")]
    pub cell: u32,
    /// Fork.
    #[prost(string, tag = "2")]
    pub fork: String,
}

/// Length and time of a fork.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ForkState {
    /// Cell.
    #[prost(uint32, tag = "1")]
    pub cell: u32,
    /// Fork.
    #[prost(string, tag = "2")]
    pub fork: String,
    /// Bytes.
    #[prost(uint64, tag = "3")]
    pub length: u64,
    /// Last write, nanoseconds since the epoch.
    #[prost(int64, tag = "4")]
    pub modified: i64,
    /// Bytes of disk it takes.
    #[prost(uint64, tag = "5")]
    pub stored: u64,
}

/// Forks in ascending order of cell and name.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CellStatusReply {
    /// The forks.
    #[prost(message, repeated, tag = "1")]
    pub forks: Vec<ForkState>,
    /// There are more: ask again after the last one.
    #[prost(bool, tag = "2")]
    pub more: bool,
    /// It is in doubt whether forks of the file are longer than that, or others are there.
    #[prost(bool, tag = "3")]
    pub doubted: bool,
}

/// Set the `data` forks' lengths for a file size. Applied once per `op`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TruncateCellsRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Layout parameters.
    #[prost(message, required, tag = "2")]
    pub grid: Grid,
    /// The receiving server's position in the layout's server list.
    #[prost(uint32, tag = "3")]
    pub slot: u32,
    /// The file's new size in canonical order.
    #[prost(uint64, tag = "4")]
    pub size: u64,
    /// Number of this operation on the file, ascending: what was done already is not done again.
    #[prost(uint64, tag = "5")]
    pub op: u64,
}

/// Done, and survives power loss.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TruncateCellsReply {}

/// Remove every cell and fork of a file; later writes to it are refused.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeleteCellsRequest {
    /// The files.
    #[prost(uint64, repeated, tag = "1")]
    pub files: Vec<u64>,
}

/// Done, and survives power loss.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DeleteCellsReply {}

/// Create an empty fork.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateForkRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Cell and name.
    #[prost(message, required, tag = "2")]
    pub place: ForkPlace,
    /// The file's chunk size.
    #[prost(uint32, tag = "3")]
    pub chunk: u32,
    /// Also of a file of which the server lost what it had: from then on that counts as empty.
    #[prost(bool, tag = "4")]
    pub accept_loss: bool,
    /// With `accept_loss`: not the file, but its checkpoint of this number counts as empty, where
    /// the server has none.
    #[prost(uint64, optional, tag = "5")]
    pub checkpoint: Option<u64>,
}

/// Done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CreateForkReply {}

/// Remove a fork.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RemoveForkRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Cell and name.
    #[prost(message, required, tag = "2")]
    pub place: ForkPlace,
    /// Only if it is as it was seen.
    #[prost(message, optional, tag = "3")]
    pub seen: Option<ForkSeen>,
}

/// A fork at some moment.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ForkSeen {
    /// Bytes.
    #[prost(uint64, tag = "1")]
    pub length: u64,
    /// The last write or cut, in nanoseconds since 1970.
    #[prost(int64, tag = "2")]
    pub modified: i64,
}

/// Done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RemoveForkReply {
    /// It is not as it was seen, and stays.
    #[prost(bool, tag = "1")]
    pub changed: bool,
}

/// Ask where a fork has data in the cells on one server.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DataRunsRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Layout parameters.
    #[prost(message, required, tag = "2")]
    pub grid: Grid,
    /// The receiving server's position in the layout's server list.
    #[prost(uint32, tag = "3")]
    pub slot: u32,
    /// The fork.
    #[prost(string, tag = "4")]
    pub fork: String,
    /// Data at or after this offset of the canonical order.
    #[prost(uint64, tag = "5")]
    pub from: u64,
    /// The number of a checkpoint of the file; 0: the file as it is.
    #[prost(uint64, tag = "6")]
    pub checkpoint: u64,
}

/// Consecutive bytes of a cell's fork that are no hole.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DataRun {
    /// Cell.
    #[prost(uint32, tag = "1")]
    pub cell: u32,
    /// First byte in the cell.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    /// How many bytes.
    #[prost(uint64, tag = "3")]
    pub length: u64,
}

/// Runs of data; ascending, disjoint and not empty within each cell.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DataRunsReply {
    /// The runs, cut at `next`.
    #[prost(message, repeated, tag = "1")]
    pub runs: Vec<DataRun>,
    /// All data before this offset of the canonical order was told: ask again from there. Absent:
    /// all data was.
    #[prost(uint64, optional, tag = "2")]
    pub next: Option<u64>,
}

/// Make what a request touches on one server zeros; no length changes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ClearRangeRequest {
    /// What.
    #[prost(message, required, tag = "1")]
    pub access: Access,
}

/// Done, and survives the death of the server's process.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ClearRangeReply {}

/// Make each cell on one server so long that it holds the pieces of a request, with holes; none
/// becomes shorter, and no byte changes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExtendCellsRequest {
    /// What is to be held.
    #[prost(message, required, tag = "1")]
    pub access: Access,
    /// The chunk size of the file.
    #[prost(uint32, tag = "2")]
    pub chunk: u32,
}

/// Done, and survives the death of the server's process.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ExtendCellsReply {}

/// What a client knows of bytes and a server does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Advice {
    /// Advice of a newer peer: nothing is done.
    Unknown = 0,
    /// They will be read soon: bring them into the cache.
    Fetch = 1,
    /// They will not be touched soon: write what is dirty to its place, and let them go first.
    Release = 2,
}

/// Bring what a request touches into the server's cache, or let it go.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AdviseRequest {
    /// Which bytes.
    #[prost(message, required, tag = "1")]
    pub access: Access,
    /// What is known of them.
    #[prost(enumeration = "Advice", tag = "2")]
    pub advice: i32,
}

/// What came of advice.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AdviseReply {
    /// Bytes that were read from the disks for it.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
}

/// Copy the bytes of one request's pieces to those of another on the same server, both in view
/// order. What is a hole there is one here; cells grow to the ends of their pieces.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CopyRangeRequest {
    /// Where the bytes come from.
    #[prost(message, required, tag = "1")]
    pub from: Access,
    /// Where they go to: pieces of as many bytes together.
    #[prost(message, required, tag = "2")]
    pub to: Access,
    /// The chunk size of the file they go to.
    #[prost(uint32, tag = "3")]
    pub chunk: u32,
}

/// Copy what this server has of a range to the servers of another file, or of another part of the
/// same. Both are contiguous, in canonical order and equally long; what is a hole there becomes
/// zeros.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SendRangeRequest {
    /// Where the bytes come from.
    #[prost(message, required, tag = "1")]
    pub from: Access,
    /// Where they go to, in whatever slot.
    #[prost(message, required, tag = "2")]
    pub to: Access,
    /// The chunk size of the file they go to.
    #[prost(uint32, tag = "3")]
    pub chunk: u32,
    /// The servers of the file they go to, slot by slot.
    #[prost(uint32, repeated, tag = "4")]
    pub servers: Vec<u32>,
}

/// The bytes survive the death of any server's process.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SendRangeReply {
    /// Bytes that were sent.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
    /// Covers what the target's servers wrote of them.
    #[prost(message, repeated, tag = "2")]
    pub written: Vec<ServerPosition>,
}

/// The bytes survive the death of the server's process.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CopyRangeReply {
    /// Bytes of the pieces, holes included.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
}
