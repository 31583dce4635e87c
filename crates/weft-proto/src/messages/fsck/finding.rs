//! What a check finds.

use bytes::Bytes;

use crate::io::ForkPlace;

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
