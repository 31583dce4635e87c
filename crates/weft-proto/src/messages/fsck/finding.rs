//! What a check finds.

use bytes::Bytes;

use crate::io::ForkPlace;

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Fault {
    /// A fault of a newer peer.
    Unknown = 0,
    /// A record of the namespace cannot be read; `text` says which.
    Record = 1,
    /// There are remains of an inode that does not exist: an entry, attributes, inline bytes,
    /// checkpoints, or entries below it.
    NoInode = 2,
    /// An entry has another kind than its inode.
    EntryKind = 3,
    /// A directory has more than one name; `parent` and `name` are an excess one.
    SecondName = 4,
    /// An entry lies in an inode that is not a directory.
    NoDirectory = 5,
    /// No entry names the inode.
    NoName = 6,
    /// The inode's count of names, or of subdirectories, is wrong.
    Links = 7,
    /// The directory's count of entries is wrong.
    Entries = 8,
    /// The directory has another parent than its entry.
    Parent = 9,
    /// The directory does not lead to the root.
    Circle = 10,
    /// An orphan record of an inode that is not an orphan.
    Orphan = 11,
    /// The inode's count of bytes of extended attributes is wrong.
    XattrBytes = 12,
    /// A file that has cells also has inline bytes.
    InlineBytes = 13,
    /// The number of inline bytes differs from the inode's size.
    InlineSize = 14,
    /// A delete is pending for a file that exists; `expected` is the intent's number.
    DeleteOwed = 15,
    /// The file waits for a truncate for which no intent exists.
    TruncateLost = 16,
    /// A counter of the namespace is wrong; `name` says which.
    Counter = 17,
    /// A regular file has no valid layout.
    NoLayout = 18,
    /// The recorded usage of a user, group or tree differs from the sum of its files: `text` names
    /// the owner, `name` says bytes or files.
    Usage = 19,
    /// A server refuses a pending operation of a file for a permanent reason; `expected` is the
    /// intent's number.
    Refused = 20,

    /// Cells of a file that does not exist.
    LostCells = 32,
    /// A cell that is not in the file's layout, or belongs on another server.
    Misplaced = 33,
    /// A cell of an inline file holds bytes.
    InlineCells = 34,
    /// A cell has another chunk size than its file.
    ChunkSize = 35,
    /// The file is shorter than its size: bytes are lost.
    Short = 36,
    /// The file is longer than its size.
    Long = 37,
    /// A server lacks a checkpoint that is listed; `expected` is its number.
    CheckpointMissing = 38,
    /// A server has a checkpoint that is not listed; `expected` is its number.
    CheckpointUnknown = 39,
    /// The server was reformatted after the file was created, and its share of the file is lost;
    /// `expected` is the number of lost bytes, computed from the file's size.
    Emptied = 40,
    /// The file exists in the namespace, but its servers have deleted it and hold nothing of it.
    Removed = 41,
    /// As above, but some servers still hold bytes of it; `text` names them.
    PartRemoved = 42,
    /// Servers have deleted a file with the id of an inline file, which can therefore not get
    /// cells.
    IdRemoved = 43,
    /// The lengths of a file's forks other than `data` differ from what is charged for them.
    ForkBytes = 44,

    /// A chunk's entry cannot be read, so the chunk's location is unknown.
    Entry = 64,
    /// A block lies beyond the disk's end.
    Beyond = 65,
    /// A block that is in use counts as free.
    Free = 66,
    /// A block belongs to two entries.
    Twice = 67,
    /// A block is inherited from a fork that does not have it.
    Inherited = 68,
    /// A fork derives from a missing fork, or miscounts the forks that derive from it.
    Tree = 69,
    /// A block does not match its checksum.
    Checksum = 70,
    /// The disk cannot read a block.
    Unreadable = 71,
    /// A record of a file, a checkpoint or a fork in a store's index cannot be read.
    IndexRecord = 72,
    /// Bytes are lost, and reading them fails: `expected` is their offset in the fork, `found`
    /// their number.
    Lost = 73,
    /// Bytes may differ from what was acknowledged, and reading them fails: `expected` and `found`
    /// as for `Lost`. Without a file: forks that a server lacks may have existed.
    Unproven = 74,
}

/// One fault.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Finding {
    /// The kind of fault.
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
    /// The expected value.
    #[prost(uint64, tag = "5")]
    pub expected: u64,
    /// The value found.
    #[prost(uint64, tag = "6")]
    pub found: u64,
    /// Details in words.
    #[prost(string, tag = "7")]
    pub text: String,
    /// The server, for a finding about cells.
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
    /// It was repaired during the check.
    #[prost(bool, tag = "15")]
    pub repaired: bool,
    /// How it was repaired during the check, in words.
    #[prost(string, tag = "16")]
    pub done: String,
}
