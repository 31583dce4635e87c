//! What a check of stored bytes finds: a fault, and where it is.

use std::ops::Range;

use crate::key::ForkKey;

/// What is wrong with blocks of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// They are not what was written.
    Checksum,
    /// The disk does not give them.
    Unreadable {
        /// What it says.
        reason: String,
    },
    /// The chunk's entry in the index is not what was written: where the chunk lies is not known.
    Entry {
        /// What is wrong with it.
        reason: String,
    },
    /// What was written there is lost: reading it fails.
    Lost {
        /// Which bytes of the fork.
        range: Range<u64>,
        /// The checkpoint that keeps the fork, 0: none does; `None`: it is the fork as it is now.
        checkpoint: Option<u64>,
    },
    /// Nothing proves that bytes of the fork are as they were acknowledged, and reading them fails.
    Unproven {
        /// Which; none: its length is not proven.
        range: Range<u64>,
        /// As of [`Fault::Lost`].
        checkpoint: Option<u64>,
    },
    /// They lie beyond the disk's end.
    Beyond,
    /// They count as free.
    Free,
    /// Another chunk has them, too.
    Twice,
    /// They are inherited from a fork that does not have them.
    Inherited,
    /// The fork does not derive from others as it says.
    Tree {
        /// What is wrong.
        reason: String,
    },
}

/// Blocks of a chunk that are bad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The fork.
    pub key: ForkKey,
    /// The chunk's number in the fork.
    pub chunk: u64,
    /// Which blocks of 4 KiB of the chunk; none when the entry is bad.
    pub blocks: Range<u32>,
    /// The number of the disk.
    pub disk: u16,
    /// The block of the disk where the first of them lies.
    pub place: u64,
    /// What is wrong.
    pub fault: Fault,
}

impl Finding {
    /// Takes a finding in that continues this one; whether it does.
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
