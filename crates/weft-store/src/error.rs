//! The errors of a store: one closed enum, each variant with the values that prove it.

use std::io;
use std::ops::Range;

use thiserror::Error;
use weft_layout::{CellIndex, FileId};

use crate::key::{ChunkName, ForkKey, ForkName, cell_of_recipe};

/// An error of a store. Cheap to clone: one failed sync answers many callers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// A stored block does not match its checksum; its bytes were not returned.
    #[error(
        "block checksum mismatch: file {file}, cell {cell}, fork {fork}, chunk {chunk}, \
         block {at} of the chunk, block {block} of disk {disk}: stored {expected:#010x}, read {found:#010x}"
    )]
    BadChecksum {
        /// The file.
        file: FileId,
        /// Its cell.
        cell: CellIndex,
        /// The fork.
        fork: ForkName,
        /// The chunk's number in the fork.
        chunk: u64,
        /// The block's number in the chunk.
        at: u32,
        /// The block's number on the disk.
        block: u64,
        /// The disk's number in the server.
        disk: u16,
        /// The checksum the map holds.
        expected: u32,
        /// The checksum of what was read.
        found: u32,
    },
    /// The bytes written there are lost, and nothing else is returned in their place.
    #[error(
        "bytes {}..{} of cell {cell}, fork {fork} of file {file} are lost: what was written there cannot be read any more. Write \
         them anew, restore the file from a copy or a checkpoint, or let `weft fsck --accept FILE` replace them with zeros",
        range.start, range.end
    )]
    Lost {
        /// The file.
        file: FileId,
        /// Its cell.
        cell: CellIndex,
        /// The fork.
        fork: ForkName,
        /// Which bytes of the fork.
        range: Range<u64>,
    },
    /// Other servers have data and parity of which these bytes can be computed; here they are not.
    #[error(
        "bytes {}..{} of cell {cell}, fork {fork} of file {file} are only in parity, and were not computed from it: too many \
         servers of the file are down, or have damaged data. `weft status` names them; the bytes can be read when they are back",
        range.start, range.end
    )]
    Coded {
        /// The file.
        file: FileId,
        /// Its cell.
        cell: CellIndex,
        /// The fork.
        fork: ForkName,
        /// Which bytes of the fork.
        range: Range<u64>,
    },
    /// A damaged log was truncated, or an older copy accepted, and nothing proves that these bytes
    /// are as they were last acknowledged.
    #[error(
        "bytes {}..{} of cell {cell}, fork {fork} of file {file} are not proven to be what was written last: a part of the server's log \
         was lost, or its folder is an older copy. Write them anew, restore the file from a copy or a checkpoint, or let `weft fsck --accept FILE` show what there is",
        range.start, range.end
    )]
    Unproven {
        /// The file.
        file: FileId,
        /// Its cell.
        cell: CellIndex,
        /// The fork.
        fork: ForkName,
        /// Which bytes of the fork.
        range: Range<u64>,
    },
    /// A chunk that the file's recipe names is missing or damaged; its bytes were not returned.
    #[error(
        "chunk {chunk} of cell {cell}, fork {fork} of file {file} cannot be read: {reason}. Write its bytes anew, or restore the file from a copy; \
         any file with the same contents there is affected (chunk {name})"
    )]
    BadChunk {
        /// The file.
        file: FileId,
        /// Its cell.
        cell: CellIndex,
        /// The fork.
        fork: ForkName,
        /// The chunk's number in the fork.
        chunk: u64,
        /// The chunk's name.
        name: ChunkName,
        /// What was found.
        reason: String,
    },
    /// Bytes changed in the memory of this process; they were neither stored nor returned.
    #[error(
        "data was corrupted in the server's memory: file {file}, cell {cell}, fork {fork}, chunk {chunk}, block {at} of the chunk: {}",
        if *closes {
            "the store takes no writes until the server is started again, which brings back all that was acknowledged"
        } else {
            "nothing of this call was kept; call again, and test the machine's memory"
        }
    )]
    Memory {
        /// The file.
        file: FileId,
        /// Its cell.
        cell: CellIndex,
        /// The fork.
        fork: ForkName,
        /// The chunk's number in the fork.
        chunk: u64,
        /// The block's number in the chunk.
        at: u32,
        /// Only the log has the right bytes: the store closed itself.
        closes: bool,
    },
    /// A disk fails to read a block, or is missing.
    #[error(
        "{shown} cannot read a block: file {file}, cell {cell}, fork {fork}, chunk {chunk}, \
         block {at} of the chunk, block {block} of disk {disk}: {reason}"
    )]
    DiskFailed {
        /// The file.
        file: FileId,
        /// Its cell.
        cell: CellIndex,
        /// The fork.
        fork: ForkName,
        /// The chunk's number in the fork.
        chunk: u64,
        /// The block's number in the chunk.
        at: u32,
        /// The block's number on the disk.
        block: u64,
        /// The disk's number in the server.
        disk: u16,
        /// The disk as the configuration names it.
        shown: String,
        /// What the operating system said.
        reason: String,
    },
    /// A path of the configuration is not a disk of this store.
    #[error("{path} cannot be a disk of this store: {reason}")]
    Disk {
        /// The path.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The write does not fit; nothing was changed.
    #[error("no space left in the store: {needed} bytes needed, {available} available")]
    NoSpace {
        /// Bytes of blocks that the write needs.
        needed: u64,
        /// Bytes that writes can take.
        available: u64,
    },
    /// The index cannot grow, or waits for a resource of the system, so the log cannot be applied
    /// to it; nothing was changed.
    #[error("{reason}")]
    IndexFull {
        /// What the engine said.
        reason: String,
    },
    /// The file was deleted; its id is never used again.
    #[error("file {file} was deleted")]
    Stale {
        /// The file.
        file: FileId,
    },
    /// The file has no checkpoint of this number on this server.
    #[error(
        "the server has nothing of checkpoint {number} of file {file}: `weft fsck` says what is lost"
    )]
    NoCheckpoint {
        /// The file.
        file: FileId,
        /// The number.
        number: u64,
    },
    /// The caller's chunk size is not the fork's.
    #[error("chunk size {given} given for a fork of chunk size {fixed} (file {file})")]
    ChunkMismatch {
        /// The file.
        file: FileId,
        /// The fork's chunk size.
        fixed: u32,
        /// The caller's.
        given: u32,
    },
    /// Bytes came under a name that is not theirs.
    #[error(
        "the bytes of chunk {given} have the name {found}: they were changed on the way, or named wrongly"
    )]
    WrongName {
        /// The name they came under.
        given: ChunkName,
        /// Their own name.
        found: ChunkName,
    },
    /// A chunk size outside [`crate::CHUNK_MIN`]`..=`[`crate::CHUNK_MAX`].
    #[error("chunk size {given} is outside 4096..=16777216")]
    BadChunkSize {
        /// The refused size.
        given: u32,
    },
    /// An access ends beyond 2⁶³ − 1.
    #[error("{offset} + {length} lies beyond the largest offset, 2^63 - 1")]
    PastLimit {
        /// The access's first byte.
        offset: u64,
        /// Its length.
        length: u64,
    },
    /// The storage failed.
    #[error("cannot {doing} {path}: {reason}")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The file, relative to the store's folder.
        path: String,
        /// The operating system's number, where it gave one.
        errno: Option<i32>,
        /// The kind of error.
        kind: io::ErrorKind,
        /// What the operating system said.
        reason: String,
    },
    /// Another process has this folder open.
    #[error("{path} is in use by another process")]
    Locked {
        /// The lock file.
        path: String,
    },
    /// Stored bytes are not what the store wrote; it refuses to guess.
    #[error("{what} is corrupt at {at}")]
    Corrupt {
        /// The kind of record.
        what: &'static str,
        /// The file and offset, or the key.
        at: String,
    },
    /// The log lacks frames that were handed to the kernel or the disk, or has bytes before its end
    /// that are not a frame.
    #[error(
        "{}. Nothing was changed. Restore the server's folder from a copy; or let `weft fsck --offline DIR --repair` go on \
         without them",
        log_damage(file, *at, what, *first)
    )]
    LogDamaged {
        /// The segment's file, relative to the store's folder.
        file: String,
        /// The offset in it.
        at: u64,
        /// What is there.
        what: &'static str,
        /// The first frame that is missing.
        first: u64,
    },
    /// A record carries a version this program does not know.
    #[error("{what} has format version {found}; this program reads up to {known}")]
    Version {
        /// The kind of record.
        what: &'static str,
        /// The version found.
        found: u8,
        /// The newest version known.
        known: u8,
    },
    /// The index failed.
    #[error("the index failed: {reason}")]
    Index {
        /// What the engine said.
        reason: String,
    },
    /// A sync or an append to the log failed, now or earlier. Data that was not synced before may
    /// be lost, and the store refuses writes until it is reopened.
    #[error(
        "writes are refused until the store is reopened, because it failed to {doing}: {reason}"
    )]
    SyncFailed {
        /// What failed.
        doing: &'static str,
        /// What the operating system said.
        reason: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Another replica of the server is the primary now (from callers that replicate a store).
    #[error(
        "this process is not the server's primary any more: another replica has taken its place"
    )]
    NotPrimary,
    /// A backup has not acknowledged a change, which may have happened there (from callers that
    /// replicate a store).
    #[error(
        "a backup of the server has not acknowledged the change, and the metadata service has not removed it from the replicas in sync within {seconds} s; it may have happened or not"
    )]
    Unacknowledged {
        /// How long the primary waited.
        seconds: u64,
    },
}

fn log_damage(file: &str, at: u64, what: &str, first: u64) -> String {
    format!(
        "the log is damaged: {file}, byte {at}: {what}; frame {first} and what follows it cannot be read"
    )
}

impl StoreError {
    /// The failure of a store whose state a panic left half changed.
    pub(crate) fn panicked() -> Self {
        StoreError::SyncFailed {
            doing: "work on its state",
            reason: "a panic interrupted it; the server's log says where".into(),
        }
    }

    /// The fault without the advice, for a report after a repair.
    pub(crate) fn fault(&self) -> String {
        match self {
            Self::LogDamaged {
                file,
                at,
                what,
                first,
            } => log_damage(file, *at, what, *first),
            other => other.to_string(),
        }
    }

    /// A block whose bytes changed in memory.
    pub(crate) fn memory(key: &ForkKey, chunk: u64, at: u32, closes: bool) -> Self {
        Self::Memory {
            file: key.file,
            cell: key.cell,
            fork: key.fork.clone(),
            chunk,
            at,
            closes,
        }
    }

    /// A chunk that a recipe names and that is not stored.
    pub(crate) fn missing_chunk(key: &ForkKey, chunk: u64, name: &ChunkName) -> Self {
        Self::bad_chunk(key, chunk, name, "it is missing".to_owned())
    }

    fn bad_chunk(key: &ForkKey, chunk: u64, name: &ChunkName, reason: String) -> Self {
        Self::BadChunk {
            file: key.file,
            cell: key.cell,
            fork: key.fork.clone(),
            chunk,
            name: *name,
            reason,
        }
    }

    /// The error of reading a chunk, as one of the addressed fork that is read.
    pub(crate) fn of_chunk(self, key: &ForkKey, chunk: u64, name: &ChunkName) -> Self {
        match self {
            Self::BadChecksum { .. } | Self::Lost { .. } | Self::Unproven { .. } => {
                let reason = self.to_string();
                Self::bad_chunk(key, chunk, name, reason)
            }
            other => other,
        }
    }

    /// The error of reading a recipe, as one of the addressed fork that it belongs to.
    pub(crate) fn of_recipe(mut self) -> Self {
        let place = match &mut self {
            Self::BadChecksum { cell, .. }
            | Self::Lost { cell, .. }
            | Self::Unproven { cell, .. }
            | Self::Memory { cell, .. } => Some(cell),
            _ => None,
        };
        if let Some(cell) = place {
            *cell = cell_of_recipe(*cell);
        }
        self
    }

    /// Whether the store closed itself.
    pub(crate) fn closes(&self) -> bool {
        matches!(self, Self::Memory { closes: true, .. })
    }

    /// A failed storage operation on a file.
    pub(crate) fn io(doing: &'static str, path: &str, error: &io::Error) -> Self {
        Self::Io {
            doing,
            path: path.to_owned(),
            errno: error.raw_os_error(),
            kind: error.kind(),
            reason: error.to_string(),
        }
    }
}

impl From<weft_kv::KvError> for StoreError {
    fn from(error: weft_kv::KvError) -> Self {
        let reason = error.to_string();
        match error {
            weft_kv::KvError::NoSpace { .. }
            | weft_kv::KvError::Suspended { .. }
            | weft_kv::KvError::NotSynced { .. } => Self::IndexFull { reason },
            _ => Self::Index { reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_layout::{CellIndex, FileId};

    use super::*;

    /// One error of each variant with texts that its message must contain. The `match` makes a new
    /// variant fail to compile until it is in the list.
    #[allow(clippy::too_many_lines)] // a list
    fn samples() -> Vec<(StoreError, Vec<&'static str>)> {
        let key = ForkKey {
            file: FileId(7001),
            cell: CellIndex(13),
            fork: ForkName::data(),
        };
        let (file, cell, fork) = (key.file, key.cell, key.fork.clone());
        let place = ["7001", "13", "data"];
        let with = |more: &[&'static str]| [&place[..], more].concat();
        let text = |text: &str| text.to_owned();
        let (named, other) = (ChunkName::of(b"a"), ChunkName::of(b"b"));
        let bad_checksum = StoreError::BadChecksum {
            file,
            cell,
            fork: fork.clone(),
            chunk: 501,
            at: 6,
            block: 909,
            disk: 3,
            expected: 0xaaaa,
            found: 0xbbbb,
        };
        let lost = StoreError::Lost {
            file,
            cell,
            fork: fork.clone(),
            range: 100..250,
        };
        let unproven = StoreError::Unproven {
            file,
            cell,
            fork: fork.clone(),
            range: 100..250,
        };
        let disk_failed = StoreError::DiskFailed {
            file,
            cell,
            fork,
            chunk: 501,
            at: 6,
            block: 909,
            disk: 3,
            shown: text("disk 3 (/mnt/b)"),
            reason: text("input/output error"),
        };
        let all = vec![
            (
                bad_checksum,
                with(&["501", "909", "0x0000aaaa", "0x0000bbbb"]),
            ),
            (lost, with(&["100..250"])),
            (unproven, with(&["100..250"])),
            (
                StoreError::missing_chunk(&key, 501, &named),
                with(&["501", "missing"]),
            ),
            (StoreError::memory(&key, 501, 6, true), with(&["501"])),
            (StoreError::memory(&key, 501, 6, false), with(&["501"])),
            (
                disk_failed,
                with(&["disk 3 (/mnt/b)", "501", "909", "input/output error"]),
            ),
            (
                StoreError::Disk {
                    path: text("/mnt/b"),
                    reason: text("it is not empty"),
                },
                vec!["/mnt/b", "it is not empty"],
            ),
            (
                StoreError::NoSpace {
                    needed: 8192,
                    available: 4096,
                },
                vec!["8192", "4096"],
            ),
            (
                StoreError::IndexFull {
                    reason: text("no space for a table"),
                },
                vec!["no space for a table"],
            ),
            (StoreError::Stale { file }, vec!["7001"]),
            (
                StoreError::NoCheckpoint { file, number: 4 },
                vec!["7001", "4"],
            ),
            (
                StoreError::ChunkMismatch {
                    file,
                    fixed: 65_536,
                    given: 4096,
                },
                vec!["7001", "65536", "4096"],
            ),
            (
                StoreError::WrongName {
                    given: named,
                    found: other,
                },
                Vec::new(),
            ),
            (StoreError::BadChunkSize { given: 17 }, vec!["17"]),
            (
                StoreError::PastLimit {
                    offset: 11,
                    length: 22,
                },
                vec!["11", "22"],
            ),
            (
                StoreError::io("open", "data", &io::Error::from_raw_os_error(libc::EACCES)),
                vec!["open", "data"],
            ),
            (
                StoreError::Locked {
                    path: text("/srv/lock"),
                },
                vec!["/srv/lock"],
            ),
            (
                StoreError::Corrupt {
                    what: "a file's record",
                    at: text("key 07"),
                },
                vec!["a file's record", "key 07"],
            ),
            (
                StoreError::LogDamaged {
                    file: text("log.000000000004"),
                    at: 77,
                    what: "this is not a frame",
                    first: 9,
                },
                vec!["log.000000000004", "77", "this is not a frame", "9"],
            ),
            (
                StoreError::Version {
                    what: "a frame of the log",
                    found: 9,
                    known: 2,
                },
                vec!["a frame of the log", "9", "2"],
            ),
            (
                StoreError::Index {
                    reason: text("a table is damaged"),
                },
                vec!["a table is damaged"],
            ),
            (
                StoreError::SyncFailed {
                    doing: "sync",
                    reason: text("input/output error"),
                },
                vec!["sync", "input/output error"],
            ),
            (StoreError::Closed, Vec::new()),
            (StoreError::NotPrimary, Vec::new()),
            (StoreError::Unacknowledged { seconds: 20 }, vec!["20"]),
        ];
        for (error, _) in &all {
            match error {
                StoreError::BadChecksum { .. }
                | StoreError::Lost { .. }
                | StoreError::Coded { .. }
                | StoreError::Unproven { .. }
                | StoreError::BadChunk { .. }
                | StoreError::Memory { .. }
                | StoreError::DiskFailed { .. }
                | StoreError::Disk { .. }
                | StoreError::NoSpace { .. }
                | StoreError::IndexFull { .. }
                | StoreError::Stale { .. }
                | StoreError::NoCheckpoint { .. }
                | StoreError::ChunkMismatch { .. }
                | StoreError::WrongName { .. }
                | StoreError::BadChunkSize { .. }
                | StoreError::PastLimit { .. }
                | StoreError::Io { .. }
                | StoreError::Locked { .. }
                | StoreError::Corrupt { .. }
                | StoreError::LogDamaged { .. }
                | StoreError::Version { .. }
                | StoreError::Index { .. }
                | StoreError::SyncFailed { .. }
                | StoreError::Closed
                | StoreError::NotPrimary
                | StoreError::Unacknowledged { .. } => {}
            }
        }
        all
    }

    #[test]
    fn messages_start_in_lower_case_have_no_full_stop_and_name_their_values() {
        for (error, values) in samples() {
            let message = error.to_string();
            let first = message.chars().next().unwrap();
            assert!(!first.is_uppercase(), "{message}");
            assert!(
                !message.ends_with('.') && !message.contains('\n'),
                "{message}"
            );
            assert!(!message.contains("  "), "{message}");
            for value in values {
                assert!(message.contains(value), "{value} is not in: {message}");
            }
        }
    }
}
