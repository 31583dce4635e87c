//! What a name may stand for, and what somebody saw under it.

use crate::oracle::Losses;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Absent,
    Directory { id: Option<u64> },
    File(FileState),
}

/// A file; its id is unknown if the call that made it was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileState {
    pub(super) id: Option<u64>,
    pub(super) mode: u32,
    pub(super) content: Content,
}

/// The bytes of a file: those of a stamp, which no other content has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// 0: nothing was written.
    pub(super) stamp: u64,
    pub(super) length: usize,
    /// `None`: they lie with the file's metadata.
    pub(super) cells: Option<InCells>,
}

/// How certain bytes on the I/O servers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InCells {
    /// All writes were acknowledged.
    pub(super) whole: bool,
    pub(super) synced: bool,
    /// Losses of power before they were written.
    pub(super) losses: usize,
}

/// What somebody found under a name.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    Absent,
    /// In a listing.
    Listed {
        id: u64,
        directory: bool,
    },
    Directory {
        id: u64,
    },
    File {
        id: u64,
        mode: u32,
        bytes: Vec<u8>,
    },
}

impl Content {
    /// These bytes.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let stamp = self.stamp.to_le_bytes();
        stamp.iter().copied().cycle().take(self.length).collect()
    }

    fn may_be(&self, seen: &[u8], losses: &Losses) -> bool {
        let exact = self
            .cells
            .is_none_or(|cells| cells.whole && (cells.synced || cells.losses == losses.count()));
        let bytes = self.bytes();
        if exact {
            return bytes == seen;
        }
        // Bytes on the servers arrive piece by piece, and are lost so.
        let mut pairs = seen.iter().zip(&bytes);
        seen.len() <= bytes.len() && pairs.all(|(seen, byte)| seen == byte || *seen == 0)
    }
}

impl Entry {
    /// Whether this is what was seen.
    pub(super) fn may_be(&self, seen: &Seen, losses: &Losses) -> bool {
        let same = |known: Option<u64>, id: u64| known.is_none_or(|known| known == id);
        match (self, seen) {
            (Entry::Absent, Seen::Absent) => true,
            (
                Entry::Directory { id: known },
                Seen::Directory { id }
                | Seen::Listed {
                    id,
                    directory: true,
                },
            ) => same(*known, *id),
            (
                Entry::File(file),
                Seen::Listed {
                    id,
                    directory: false,
                },
            ) => same(file.id, *id),
            (Entry::File(file), Seen::File { id, mode, bytes }) => {
                same(file.id, *id) && file.mode == *mode && file.content.may_be(bytes, losses)
            }
            _ => false,
        }
    }

    pub(super) fn file(&self) -> Option<FileState> {
        match self {
            Entry::File(file) => Some(*file),
            _ => None,
        }
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Seen::Absent => f.write_str("nothing"),
            Seen::Listed { id, .. } => write!(f, "file {id} in the listing"),
            Seen::Directory { id } => write!(f, "directory {id}"),
            Seen::File { id, mode, bytes } => {
                let mut first = [0; 8];
                let known = bytes.len().min(8);
                first[..known].copy_from_slice(&bytes[..known]);
                let (stamp, length) = (u64::from_le_bytes(first), bytes.len());
                write!(
                    f,
                    "file {id} with mode {mode:o} and {length} bytes of stamp {stamp}"
                )
            }
        }
    }
}
