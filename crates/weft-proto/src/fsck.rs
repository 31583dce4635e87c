//! Messages of `weft fsck`: what namespace and servers list of themselves, what they find in
//! themselves, and repairs.

use bytes::Bytes;

use crate::io::ForkPlace;
use crate::meta::Layout;

/// What is wrong, and between what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Fault {
    /// A fault of a newer peer.
    Unknown = 0,
    /// A record of the namespace cannot be read; `text` says which.
    Record = 1,
    /// Something is there of an inode that is not: an entry, attributes, inline bytes, checkpoints,
    /// entries below it.
    NoInode = 2,
    /// An entry says another kind than its inode.
    EntryKind = 3,
    /// A directory has more than one name; `parent` and `name` are one of those too many.
    SecondName = 4,
    /// An entry lies in what is no directory.
    NoDirectory = 5,
    /// No entry names the inode.
    NoName = 6,
    /// The inode counts another number of names, or of directories inside.
    Links = 7,
    /// The directory counts another number of entries.
    Entries = 8,
    /// The directory has another parent than its entry.
    Parent = 9,
    /// The directory does not lead to the root.
    Circle = 10,
    /// An orphan's record of what is no orphan.
    Orphan = 11,
    /// The inode counts other bytes of extended attributes.
    XattrBytes = 12,
    /// There are inline bytes of a file that has cells.
    InlineBytes = 13,
    /// The inline bytes are another number than the inode says.
    InlineSize = 14,
    /// A delete is owed for a file that is there; `expected` is its number.
    DeleteOwed = 15,
    /// A truncate is waited for that nobody owes.
    TruncateLost = 16,
    /// A counter of the namespace is wrong; `name` says which.
    Counter = 17,
    /// A regular file has no layout that makes sense.
    NoLayout = 18,
    /// What a user, group or tree is said to use is another number than its files amount to: `text`
    /// says of whom, `name` whether of bytes or files.
    Usage = 19,
    /// A server refuses what is owed for a file for a reason that does not go away by itself;
    /// `expected` is the intent's number.
    Refused = 20,

    /// Cells of a file that is not there.
    LostCells = 32,
    /// A cell that the file's layout does not have, or has on another server.
    Misplaced = 33,
    /// A cell holds bytes of a file whose bytes lie with its metadata.
    InlineCells = 34,
    /// A cell has another chunk size than its file.
    ChunkSize = 35,
    /// The file is shorter than its size: bytes are lost.
    Short = 36,
    /// The file is longer than its size says.
    Long = 37,
    /// A server lacks a checkpoint that is listed; `expected` is its number.
    CheckpointMissing = 38,
    /// A server has a checkpoint that is not listed; `expected` is its number.
    CheckpointUnknown = 39,
    /// The server was formatted anew after the file was made, and what it held of the file is gone;
    /// `expected` is how many bytes that is by the file's size.
    Emptied = 40,
    /// The file was removed: its servers have deleted it and hold nothing of it, but it is there.
    Removed = 41,
    /// As above, but servers still hold something of it; `text` says which.
    PartRemoved = 42,
    /// Servers have deleted what had the id of a file whose bytes lie with its metadata: it cannot
    /// get cells.
    IdRemoved = 43,
    /// The lengths of a file's forks other than `data` are not what is charged for them.
    ForkBytes = 44,

    /// A chunk's entry cannot be read: where the chunk lies is not known.
    Entry = 64,
    /// A block lies beyond the disk's end.
    Beyond = 65,
    /// A block that is in use counts as free.
    Free = 66,
    /// A block belongs to two entries.
    Twice = 67,
    /// A block is inherited from a fork that does not have it.
    Inherited = 68,
    /// A fork derives from one that is not there, or counts other forks that derive from it.
    Tree = 69,
    /// A block does not match its checksum.
    Checksum = 70,
    /// The disk does not give a block.
    Unreadable = 71,
    /// A record of a file, a checkpoint or a fork in a store's index cannot be read.
    IndexRecord = 72,
    /// Bytes are lost, and are not taken for anything else: `expected` is where they begin in the
    /// fork, `found` how many they are.
    Lost = 73,
    /// Bytes are not proven to be as they were acknowledged, and are not shown: `expected` and
    /// `found` as of `Lost`. Without a file: forks that a server does not have may have been there.
    Unproven = 74,
}

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Finding {
    /// What.
    #[prost(enumeration = "Fault", tag = "1")]
    pub fault: i32,
    /// The inode or the file; 0: none.
    #[prost(uint64, tag = "2")]
    pub file: u64,
    /// The directory of the entry.
    #[prost(uint64, tag = "3")]
    pub parent: u64,
    /// The entry's name.
    #[prost(bytes = "bytes", tag = "4")]
    pub name: Bytes,
    /// What should be there.
    #[prost(uint64, tag = "5")]
    pub expected: u64,
    /// What is there.
    #[prost(uint64, tag = "6")]
    pub found: u64,
    /// In words, as far as the numbers do not say it.
    #[prost(string, tag = "7")]
    pub text: String,
    /// The server, of a finding about cells.
    #[prost(uint32, optional, tag = "8")]
    pub server: Option<u32>,
    /// Cell and fork.
    #[prost(message, optional, tag = "9")]
    pub place: Option<ForkPlace>,
    /// The chunk's number in the fork.
    #[prost(uint64, optional, tag = "10")]
    pub chunk: Option<u64>,
    /// The first bad block of 4 KiB in the chunk.
    #[prost(uint32, tag = "11")]
    pub first: u32,
    /// How many are bad; 0: the chunk as a whole.
    #[prost(uint32, tag = "12")]
    pub blocks: u32,
    /// The disk of the server.
    #[prost(uint32, tag = "13")]
    pub disk: u32,
    /// The block of the disk where the first of them lies.
    #[prost(uint64, tag = "14")]
    pub block: u64,
    /// It was repaired on the way.
    #[prost(bool, tag = "15")]
    pub repaired: bool,
    /// How it was repaired on the way, in words.
    #[prost(string, tag = "16")]
    pub done: String,
}

/// A fork of a cell on a server.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CellState {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The cell.
    #[prost(uint32, tag = "2")]
    pub cell: u32,
    /// The fork.
    #[prost(string, tag = "3")]
    pub fork: String,
    /// One past its last byte.
    #[prost(uint64, tag = "4")]
    pub length: u64,
    /// Its last write, nanoseconds since the epoch.
    #[prost(int64, tag = "5")]
    pub modified: i64,
    /// Bytes of chunk; 0: not fixed yet.
    #[prost(uint32, tag = "6")]
    pub chunk: u32,
}

/// One page of the forks of cells that a server has, in the order of file, cell and name.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListCellsRequest {
    /// Those of this file that come after `after`, and those of all later files.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Absent: from the file's first on.
    #[prost(message, optional, tag = "2")]
    pub after: Option<ForkPlace>,
    /// Only those of `file`.
    #[prost(bool, tag = "3")]
    pub only: bool,
}

/// A page of forks.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListCellsReply {
    /// In order.
    #[prost(message, repeated, tag = "1")]
    pub cells: Vec<CellState>,
    /// There are more behind the last one.
    #[prost(bool, tag = "2")]
    pub more: bool,
    /// Cells of files before this one that the server does not have may have been there: reading
    /// them is an error. Of all files, or of the one that was asked for; 0: none.
    #[prost(uint64, tag = "3")]
    pub doubted_below: u64,
    /// Of the one file that was asked for: it is in doubt whether its cells are longer, or others
    /// are there.
    #[prost(bool, tag = "4")]
    pub doubted_ends: bool,
}

/// A checkpoint of a file on a server.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct KeptState {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The checkpoint's number.
    #[prost(uint64, tag = "2")]
    pub number: u64,
    /// When it was made.
    #[prost(int64, tag = "3")]
    pub made: i64,
}

/// One page of the checkpoints that a server has, in the order of file and number.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ListKeptRequest {
    /// Those of this file above `number`, and those of all later files.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// 0: from the file's first on.
    #[prost(uint64, tag = "2")]
    pub number: u64,
    /// Only those of `file`.
    #[prost(bool, tag = "3")]
    pub only: bool,
}

/// A page of checkpoints.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListKeptReply {
    /// In order.
    #[prost(message, repeated, tag = "1")]
    pub kept: Vec<KeptState>,
    /// There are more behind the last one.
    #[prost(bool, tag = "2")]
    pub more: bool,
}

/// Which of some files a server has deleted.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WhichDeletedRequest {
    /// Of these.
    #[prost(uint64, repeated, tag = "1")]
    pub files: Vec<u64>,
}

/// The files that were deleted.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WhichDeletedReply {
    /// In the order in which they were asked for.
    #[prost(uint64, repeated, tag = "1")]
    pub files: Vec<u64>,
}

/// Check a part of a server's own store.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CheckStoreRequest {
    /// The pass, a number that its client chose. A number that the server does not know begins a
    /// pass and ends the one that is under way.
    #[prost(uint64, tag = "1")]
    pub pass: u64,
    /// How many parts of this pass the client was told; another number than the server's:
    /// [`crate::Code::Stale`].
    #[prost(uint64, tag = "2")]
    pub part: u64,
    /// Read every block and compare it with its checksum.
    #[prost(bool, tag = "3")]
    pub data: bool,
    /// Repair what can be.
    #[prost(bool, tag = "4")]
    pub repair: bool,
}

/// What a part of a check looked at.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckStoreReply {
    /// The pass is at its end.
    #[prost(bool, tag = "1")]
    pub done: bool,
    /// Chunks looked at in this part.
    #[prost(uint64, tag = "2")]
    pub chunks: u64,
    /// Bytes of their blocks.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// Bytes that the store held when the pass began.
    #[prost(uint64, tag = "4")]
    pub total: u64,
    /// What is wrong.
    #[prost(message, repeated, tag = "5")]
    pub findings: Vec<Finding>,
    /// Findings of this part that did not fit.
    #[prost(uint64, tag = "6")]
    pub more: u64,
}

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
