//! Durable bytes: the log's frames and items, and the index's keys and values.
//!
//! This is the one declaration; `docs/format.md` explains it and a test compares the golden bytes
//! there with what this module writes. All integers are little-endian, except in keys of the
//! index, where they are big-endian so that byte order is numeric order.
//!
//! Decoders survive any bytes: a count is checked against the remaining bytes before anything is
//! allocated.

mod disk;
mod doubt;
mod frame;
mod index;
mod item;
mod ranges;
#[cfg(test)]
mod tests;

use bytes::BufMut;
use weft_layout::{ADDRESSED_BIT, ChunkCode};

use crate::key::ForkName;
use crate::pool::BLOCK;

pub(crate) use disk::{DISK_PREFIX, DiskRecord, LabelRecord};
pub(crate) use doubt::{DoubtRecord, MissingForksRecord, TouchedRecord, VerifiedFileRecord};
pub(crate) use frame::{BODY_MAX, BODY_SOFT, FRAME_BYTES, FRAME_VERSION, FrameRecord, Header};
pub use index::INDEX_SPACES;
pub(crate) use index::{
    CHUNKS, CheckpointRecord, ChunkRecord, FILES, FORKS, FileRecord, ForkEntry, ForkRecord,
    HistoryRecord, LogWatermark, META, NoteRecord, RunningRecord, STORE_KEY, ServicePositionRecord,
    StoreRecord,
};
pub(crate) use item::{ItemRecord, decode_body, new_body, rows};
pub(crate) use ranges::Ranges;

/// Version of every record that has no other.
pub(crate) const VERSION: u8 = 1;
/// CRC-32C (iSCSI) of `bytes`.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    weft_sum::of(bytes)
}

/// Reads fields from the front of a record; `None` when bytes run out.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(front)
    }
    fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }
    /// A byte that is 0 or 1.
    fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
    fn i64(&mut self) -> Option<i64> {
        Some(i64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}

/// Identifies a fork in log and index; a store never reuses an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ForkId(pub(crate) u64);

/// A block of a disk: `disk << 48 | block`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(pub(crate) u64);

impl Place {
    /// No block: a hole.
    pub(crate) const NONE: Self = Self(u64::MAX);
    /// Most blocks of a disk: one number is left, so that [`Place::NONE`] is on none.
    const BLOCKS_MAX: u64 = 0xffff_ffff_ffff;
    /// The number of no disk; lost blocks have it.
    const LOST_DISK: u16 = u16::MAX;
    /// The number of no disk; coded blocks have it.
    const CODED_DISK: u16 = u16::MAX - 1;
    /// The place of a chunk's first block if all its blocks are coded.
    pub(crate) const CODED: Self = Self((Self::CODED_DISK as u64) << 48);
    /// The place of a chunk's first block if all its blocks are lost.
    pub(crate) const LOST: Self = Self((Self::LOST_DISK as u64) << 48);

    pub(crate) fn disk(self) -> u16 {
        (self.0 >> 48) as u16
    }
    pub(crate) fn block(self) -> u64 {
        self.0 & 0xffff_ffff_ffff
    }
    pub(crate) fn offset(self) -> u64 {
        self.block() * BLOCK as u64
    }
    pub(crate) fn plus(self, blocks: u32) -> Self {
        Self(self.0 + u64::from(blocks))
    }
}

/// Consecutive blocks of a chunk at consecutive places of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunRecord {
    /// First block in the chunk.
    pub(crate) first: u32,
    /// How many.
    pub(crate) blocks: u32,
    /// The place of the first one.
    pub(crate) place: Place,
    /// They belong to a fork that this one derives from.
    pub(crate) inherited: bool,
}

/// The bit of a run's block count that marks inherited blocks.
const INHERITED: u32 = 1 << 31;

/// Runs of a chunk and a checksum for each of their blocks, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunsRecord {
    pub(crate) runs: Vec<RunRecord>,
    pub(crate) crcs: Vec<u32>,
}

impl RunsRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32_le(self.runs.len() as u32);
        for run in &self.runs {
            out.put_u32_le(run.first);
            let inherited = if run.inherited { INHERITED } else { 0 };
            out.put_u32_le(run.blocks | inherited);
            out.put_u64_le(run.place.0);
        }
        for crc in &self.crcs {
            out.put_u32_le(*crc);
        }
    }

    fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let (runs, bytes) = Self::decode_runs(fields)?;
        let crcs = fields.take(bytes)?;
        let crcs = crcs
            .chunks_exact(4)
            .map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]))
            .collect();
        Some(Self { runs, crcs })
    }

    /// The runs, and how many bytes of checksums follow.
    fn decode_runs(fields: &mut Fields<'_>) -> Option<(Vec<RunRecord>, usize)> {
        let count = fields.u32()? as usize;
        if count > fields.0.len() / 16 {
            return None;
        }
        let mut runs = Vec::with_capacity(count);
        let (mut end, mut blocks) = (0_u32, 0_usize);
        for _ in 0..count {
            let (first, count, place) = (fields.u32()?, fields.u32()?, Place(fields.u64()?));
            let run = RunRecord {
                first,
                blocks: count & !INHERITED,
                place,
                inherited: count & INHERITED != 0,
            };
            let last = run.first.checked_add(run.blocks)?;
            let inside = run.place.block() + u64::from(run.blocks) <= Place::BLOCKS_MAX;
            if run.blocks == 0 || run.first < end || last > 4096 || !inside {
                return None;
            }
            end = last;
            blocks += run.blocks as usize;
            runs.push(run);
        }
        Some((runs, blocks * 4))
    }
}

fn name(bytes: &[u8]) -> Option<ForkName> {
    ForkName::new(std::str::from_utf8(bytes).ok()?).ok()
}

/// Bytes of an entry of a recipe: the name of a chunk, or zeros for a hole.
pub(crate) const ENTRY_BYTES: u64 = 32;

/// Whether a chunk size is within its bounds, for plain or addressed forks.
pub(crate) fn chunk_is_legal(chunk: ChunkCode) -> bool {
    (crate::CHUNK_MIN..=crate::CHUNK_MAX).contains(&(chunk & !ADDRESSED_BIT))
}

/// Whether `offset + length` is within the largest offset.
pub(crate) fn end_is_legal(offset: u64, length: u64) -> bool {
    offset
        .checked_add(length)
        .is_some_and(|end| end <= weft_layout::OFFSET_MAX)
}

impl Place {
    /// Whether it stands for a lost block.
    pub(crate) fn is_lost(self) -> bool {
        self.disk() == Place::LOST_DISK
    }

    /// Whether it stands for a coded block, whose bytes other servers can compute.
    pub(crate) fn is_coded(self) -> bool {
        self.disk() == Place::CODED_DISK
    }

    /// Whether no disk of the store has the block.
    pub(crate) fn is_absent(self) -> bool {
        self.is_lost() || self.is_coded()
    }
}
