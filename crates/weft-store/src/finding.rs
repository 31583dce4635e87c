//! What a check of stored bytes finds: faults and their locations.

use std::ops::Range;

use crate::key::ForkKey;

/// A fault of blocks of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// They do not match their checksums.
    Checksum,
    /// They match their checksums, and are not the contents that the name of the addressed chunk
    /// is the hash of.
    Name,
    /// The disk cannot read them.
    Unreadable {
        /// The error of the disk.
        reason: String,
    },
    /// The chunk's entry in the index is damaged: where the chunk's blocks lie is unknown.
    Entry {
        /// What is wrong with it.
        reason: String,
    },
    /// The bytes written there are lost: reading them fails.
    Lost {
        /// Which bytes of the fork.
        range: Range<u64>,
        /// The fork's checkpoint, 0 for a fork that only other forks need; `None`: the live fork.
        checkpoint: Option<u64>,
    },
    /// Nothing proves that bytes of the fork are as they were acknowledged, and reading them fails.
    Unproven {
        /// Which bytes; empty: the fork's length is not proven.
        range: Range<u64>,
        /// As of [`Fault::Lost`].
        checkpoint: Option<u64>,
    },
    /// They lie beyond the end of the disk.
    Beyond,
    /// The allocator counts them as free.
    Free,
    /// Another chunk has them as well.
    Twice,
    /// They are inherited from a fork that does not have them.
    Inherited,
    /// The fork's derivation is inconsistent.
    Tree {
        /// What is wrong.
        reason: String,
    },
}

impl Fault {
    /// What is wrong where [`Fault::Name`] is found.
    pub const NOT_ITS_NAME: &str = "the contents are not those of the chunk's name";
}

/// Bad blocks of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The fork.
    pub key: ForkKey,
    /// The chunk's number in the fork.
    pub chunk: u64,
    /// The 4 KiB blocks of the chunk; empty when the entry is bad.
    pub blocks: Range<u32>,
    /// The number of the disk.
    pub disk: u16,
    /// The block number on the disk of the first of them.
    pub place: u64,
    /// What is wrong.
    pub fault: Fault,
}

impl Finding {
    /// Merges a finding that continues this one; returns whether it does.
    pub(crate) fn absorb(&mut self, next: &Finding) -> bool {
        let continues = (&self.key, self.chunk, self.disk) == (&next.key, next.chunk, next.disk)
            && self.blocks.end == next.blocks.start
            && self.place + self.blocks.len() as u64 == next.place
            && self.fault == next.fault;
        if continues {
            self.blocks.end = next.blocks.end;
        }
        continues
    }
}
