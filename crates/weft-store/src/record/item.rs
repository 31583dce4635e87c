//! Items of the log: the changes in the bodies of frames.

use std::ops::Range;

use bytes::{BufMut, Bytes};
use weft_layout::{CellIndex, CellOffset, FileId};

use super::{Fields, ForkId, RunsRecord, TouchedRecord, chunk_is_legal, end_is_legal, name};
use crate::key::{ADDRESSED, ForkKey, Run};

/// One change, inside a frame of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ItemRecord {
    /// A fork exists.
    Fork {
        id: ForkId,
        chunk: u32,
        key: ForkKey,
    },
    /// Bytes of a fork.
    Data {
        id: ForkId,
        offset: u64,
        data: Bytes,
    },
    /// Bytes of many pieces of a fork; the bytes of the runs are contiguous in `data`.
    Pieces {
        id: ForkId,
        runs: Vec<Run>,
        data: Bytes,
    },
    /// New places of blocks of a chunk; the blocks contain their `Data` up to sequence `as_of`. The
    /// fork is at least `end` long.
    Map {
        id: ForkId,
        chunk: u64,
        as_of: u64,
        end: u64,
        runs: RunsRecord,
    },
    /// A fork's length is set; bytes beyond it are gone.
    Truncate { id: ForkId, length: u64 },
    /// The last numbered operation that the file has seen.
    Operation { file: FileId, op: u64 },
    /// A fork is removed.
    Remove { id: ForkId },
    /// A file is deleted for ever.
    Delete { file: FileId },
    /// Everything up to this sequence is on stable storage.
    Synced { through: u64 },
    /// Bytes of a fork are zeros: whole blocks of them are holes.
    Clear {
        id: ForkId,
        offset: u64,
        length: u64,
    },
    /// A checkpoint of a file is made; its forks follow.
    Checkpoint { file: FileId, number: u64 },
    /// A fork loses its name and becomes a checkpoint fork.
    Keep { id: ForkId, number: u64 },
    /// A fork takes over the name, with the parent's contents, length and time.
    Derive {
        id: ForkId,
        parent: ForkId,
        chunk: u32,
        length: u64,
        modified: i64,
        key: ForkKey,
    },
    /// A checkpoint is dropped; its forks belong to none.
    Forget { file: FileId, number: u64 },
    /// A checkpoint fork's blocks of a chunk pass to its only child, or are freed.
    Adopt {
        from: ForkId,
        to: ForkId,
        chunk: u64,
    },
    /// A checkpoint fork without chunks is removed; its only child derives from its parent.
    Merged { from: ForkId, to: ForkId },
    /// The fork gets its own entry of a chunk that showed its parent's, with all blocks inherited.
    Own { id: ForkId, chunk: u64 },
    /// A fork's length is set; bytes beyond it are gone from the chunk that it divides. Emptying
    /// later chunks is deferred.
    Cut { id: ForkId, length: u64 },
    /// A range of chunks of a fork is emptied.
    Empty { id: ForkId, from: u64, to: u64 },
    /// The forks that frames up to this one touched.
    Touched(TouchedRecord),
    /// Bytes of a fork before `end` are in doubt, and it is at least this long. It is created if it
    /// does not exist.
    Doubt {
        id: ForkId,
        chunk: u32,
        key: ForkKey,
        end: u64,
        length: u64,
    },
    /// All forks of files before this one are in doubt, except those of checkpoints; absent forks
    /// are in doubt as well.
    DoubtAll { below: FileId },
    /// Nothing of a file is in doubt any more; `None`: of any file.
    Trust { file: Option<FileId> },
}

/// The ranges of the runs' bytes in their data; adjacent ones are joined.
pub(crate) fn rows(runs: &[Run]) -> impl Iterator<Item = Range<usize>> {
    let row = |runs: &[Run]| runs[0].at..runs.last().map_or(0, |run| run.at + run.bytes() as usize);
    runs.chunk_by(|a, b| a.at + a.bytes() as usize == b.at)
        .map(row)
}

const FORK: u8 = 1;
const DATA: u8 = 2;
const MAP: u8 = 3;
const TRUNCATE: u8 = 4;
const OPERATION: u8 = 5;
const REMOVE: u8 = 6;
const DELETE: u8 = 7;
const SYNCED: u8 = 8;
const CLEAR: u8 = 9;
const CHECKPOINT: u8 = 10;
const KEEP: u8 = 11;
const DERIVE: u8 = 12;
const FORGET: u8 = 13;
const ADOPT: u8 = 14;
const MERGED: u8 = 15;
const OWN: u8 = 16;
const PIECES: u8 = 17;
const CUT: u8 = 18;
const EMPTY: u8 = 19;
const TOUCHED: u8 = 20;
const DOUBT: u8 = 21;
const DOUBT_ALL: u8 = 22;
const TRUST: u8 = 23;
const DOUBT_OLDER: u8 = 24;
/// Bytes of one run of a `Pieces` item.
const RUN_BYTES: usize = 24;

fn put_one(out: &mut Vec<u8>, kind: u8, value: u64) {
    out.put_u8(kind);
    out.put_u64_le(value);
}

fn put_two(out: &mut Vec<u8>, kind: u8, first: u64, second: u64) {
    out.put_u8(kind);
    out.put_u64_le(first);
    out.put_u64_le(second);
}

fn put_key(out: &mut Vec<u8>, key: &ForkKey) {
    out.put_u64_le(key.file.0);
    out.put_u32_le(key.cell.0);
    out.put_u8(key.fork.as_str().len() as u8);
    out.extend_from_slice(key.fork.as_str().as_bytes());
}

fn take_key(fields: &mut Fields<'_>) -> Option<ForkKey> {
    let (file, cell) = (FileId(fields.u64()?), CellIndex(fields.u32()?));
    let length = fields.u8()? as usize;
    let fork = name(fields.take(length)?)?;
    Some(ForkKey { file, cell, fork })
}

impl ItemRecord {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Fork { id, chunk, key } => {
                out.put_u8(FORK);
                out.put_u64_le(id.0);
                out.put_u32_le(*chunk);
                put_key(out, key);
            }
            Self::Data { id, offset, data } => Self::encode_data(out, *id, *offset, data),
            Self::Pieces { id, runs, data } => Self::encode_pieces(out, *id, runs, data),
            Self::Map {
                id,
                chunk,
                as_of,
                end,
                runs,
            } => {
                out.put_u8(MAP);
                for field in [id.0, *chunk, *as_of, *end] {
                    out.put_u64_le(field);
                }
                runs.encode(out);
            }
            Self::Truncate { id, length } => {
                out.put_u8(TRUNCATE);
                out.put_u64_le(id.0);
                out.put_u64_le(*length);
            }
            Self::Operation { file, op } => {
                out.put_u8(OPERATION);
                out.put_u64_le(file.0);
                out.put_u64_le(*op);
            }
            Self::Remove { id } => put_one(out, REMOVE, id.0),
            Self::Delete { file } => put_one(out, DELETE, file.0),
            Self::Synced { through } => put_one(out, SYNCED, *through),
            Self::Clear { id, offset, length } => {
                out.put_u8(CLEAR);
                for field in [id.0, *offset, *length] {
                    out.put_u64_le(field);
                }
            }
            Self::Checkpoint { file, number } => put_two(out, CHECKPOINT, file.0, *number),
            Self::Keep { id, number } => put_two(out, KEEP, id.0, *number),
            Self::Derive {
                id,
                parent,
                chunk,
                length,
                modified,
                key,
            } => {
                put_two(out, DERIVE, id.0, parent.0);
                out.put_u32_le(*chunk);
                out.put_u64_le(*length);
                out.put_i64_le(*modified);
                put_key(out, key);
            }
            Self::Forget { file, number } => put_two(out, FORGET, file.0, *number),
            Self::Adopt { from, to, chunk } => {
                put_two(out, ADOPT, from.0, to.0);
                out.put_u64_le(*chunk);
            }
            Self::Merged { from, to } => put_two(out, MERGED, from.0, to.0),
            Self::Own { id, chunk } => put_two(out, OWN, id.0, *chunk),
            Self::Cut { id, length } => put_two(out, CUT, id.0, *length),
            Self::Empty { id, from, to } => {
                put_two(out, EMPTY, id.0, *from);
                out.put_u64_le(*to);
            }
            Self::Touched(record) => {
                out.put_u8(TOUCHED);
                record.encode(out);
            }
            Self::Doubt {
                id,
                chunk,
                key,
                end,
                length,
            } => {
                put_two(out, DOUBT, id.0, *end);
                out.put_u64_le(*length);
                out.put_u32_le(*chunk);
                put_key(out, key);
            }
            Self::DoubtAll { below: ADDRESSED } => out.put_u8(DOUBT_ALL),
            Self::DoubtAll { below } => put_one(out, DOUBT_OLDER, below.0),
            Self::Trust { file } => {
                out.put_u8(TRUST);
                // No file has the largest number.
                out.put_u64_le(file.map_or(u64::MAX, |file| file.0));
            }
        }
    }

    /// Encodes a `Data` item without an owned value.
    pub(crate) fn encode_data(out: &mut Vec<u8>, id: ForkId, offset: u64, data: &[u8]) {
        Self::encode_data_head(out, id, offset, data.len());
        out.extend_from_slice(data);
    }

    /// Encodes a `Data` item up to its bytes.
    pub(crate) fn encode_data_head(out: &mut Vec<u8>, id: ForkId, offset: u64, length: usize) {
        out.put_u8(DATA);
        out.put_u64_le(id.0);
        out.put_u64_le(offset);
        out.put_u32_le(length as u32);
    }

    /// Encodes a `Pieces` item with the runs' bytes of `data`.
    pub(crate) fn encode_pieces(out: &mut Vec<u8>, id: ForkId, runs: &[Run], data: &[u8]) {
        Self::encode_pieces_head(out, id, runs);
        for row in rows(runs) {
            out.extend_from_slice(&data[row]);
        }
    }

    /// Encodes a `Pieces` item up to its bytes, whose ranges are [`rows`].
    pub(crate) fn encode_pieces_head(out: &mut Vec<u8>, id: ForkId, runs: &[Run]) {
        out.put_u8(PIECES);
        out.put_u64_le(id.0);
        out.put_u32_le(runs.len() as u32);
        for run in runs {
            out.put_u64_le(run.offset.0);
            out.put_u32_le(run.length as u32);
            out.put_u32_le(run.count as u32);
            out.put_u64_le(run.stride);
        }
    }

    fn decode_pieces(fields: &mut Fields<'_>, body: &Bytes) -> Option<Self> {
        let (id, count) = (ForkId(fields.u64()?), fields.u32()? as usize);
        let mut table = Fields(fields.take(count.checked_mul(RUN_BYTES)?)?);
        let mut runs = Vec::with_capacity(count);
        let mut sum = 0_usize;
        while !table.0.is_empty() {
            let run = Run {
                offset: CellOffset(table.u64()?),
                at: sum,
                length: table.u32()?.into(),
                count: table.u32()?.into(),
                stride: table.u64()?,
            };
            if run.length == 0 || run.count == 0 || run.stride == 0 || !run.is_legal() {
                return None;
            }
            sum = sum.checked_add(usize::try_from(run.bytes()).ok()?)?;
            runs.push(run);
        }
        let data = body.slice_ref(fields.take(sum)?);
        (!runs.is_empty()).then_some(Self::Pieces { id, runs, data })
    }

    fn decode(fields: &mut Fields<'_>, body: &Bytes) -> Option<Self> {
        Some(match fields.u8()? {
            FORK => {
                let (id, chunk) = (ForkId(fields.u64()?), fields.u32()?);
                let key = take_key(fields)?;
                if chunk != 0 && !chunk_is_legal(chunk) {
                    return None;
                }
                Self::Fork { id, chunk, key }
            }
            DATA => {
                let (id, offset) = (ForkId(fields.u64()?), fields.u64()?);
                let length = fields.u32()? as usize;
                let data = body.slice_ref(fields.take(length)?);
                if data.is_empty() || !end_is_legal(offset, data.len() as u64) {
                    return None;
                }
                Self::Data { id, offset, data }
            }
            PIECES => return Self::decode_pieces(fields, body),
            MAP => {
                let item = Self::Map {
                    id: ForkId(fields.u64()?),
                    chunk: fields.u64()?,
                    as_of: fields.u64()?,
                    end: fields.u64()?,
                    runs: RunsRecord::decode(fields)?,
                };
                match &item {
                    Self::Map { chunk, end, .. } if !end_is_legal(*end, 0) || *chunk >> 52 != 0 => {
                        return None;
                    }
                    _ => item,
                }
            }
            TRUNCATE => {
                let (id, length) = (ForkId(fields.u64()?), fields.u64()?);
                if !end_is_legal(length, 0) {
                    return None;
                }
                Self::Truncate { id, length }
            }
            CUT => {
                let (id, length) = (ForkId(fields.u64()?), fields.u64()?);
                if !end_is_legal(length, 0) {
                    return None;
                }
                Self::Cut { id, length }
            }
            EMPTY => {
                let (id, from, to) = (ForkId(fields.u64()?), fields.u64()?, fields.u64()?);
                if from >= to || from >> 52 != 0 {
                    return None;
                }
                Self::Empty { id, from, to }
            }
            OPERATION => Self::Operation {
                file: FileId(fields.u64()?),
                op: fields.u64()?,
            },
            REMOVE => Self::Remove {
                id: ForkId(fields.u64()?),
            },
            DELETE => Self::Delete {
                file: FileId(fields.u64()?),
            },
            SYNCED => Self::Synced {
                through: fields.u64()?,
            },
            CLEAR => {
                let (id, offset, length) = (ForkId(fields.u64()?), fields.u64()?, fields.u64()?);
                if length == 0 || !end_is_legal(offset, length) {
                    return None;
                }
                Self::Clear { id, offset, length }
            }
            kind => return Self::decode_related(kind, fields),
        })
    }

    /// Items about checkpoints, forks that derive from others, and doubt.
    fn decode_related(kind: u8, fields: &mut Fields<'_>) -> Option<Self> {
        Some(match kind {
            CHECKPOINT => Self::Checkpoint {
                file: FileId(fields.u64()?),
                number: fields.u64()?,
            },
            KEEP => Self::Keep {
                id: ForkId(fields.u64()?),
                number: fields.u64()?,
            },
            DERIVE => {
                let (id, parent) = (ForkId(fields.u64()?), ForkId(fields.u64()?));
                let (chunk, length) = (fields.u32()?, fields.u64()?);
                let (modified, key) = (fields.i64()?, take_key(fields)?);
                if (chunk != 0 && !chunk_is_legal(chunk)) || !end_is_legal(length, 0) {
                    return None;
                }
                Self::Derive {
                    id,
                    parent,
                    chunk,
                    length,
                    modified,
                    key,
                }
            }
            FORGET => Self::Forget {
                file: FileId(fields.u64()?),
                number: fields.u64()?,
            },
            ADOPT => {
                let (from, to, chunk) =
                    (ForkId(fields.u64()?), ForkId(fields.u64()?), fields.u64()?);
                if chunk >> 52 != 0 {
                    return None;
                }
                Self::Adopt { from, to, chunk }
            }
            OWN => {
                let (id, chunk) = (ForkId(fields.u64()?), fields.u64()?);
                if chunk >> 52 != 0 {
                    return None;
                }
                Self::Own { id, chunk }
            }
            TOUCHED => Self::Touched(TouchedRecord::decode(fields)?),
            DOUBT => {
                let (id, end, length) = (ForkId(fields.u64()?), fields.u64()?, fields.u64()?);
                let (chunk, key) = (fields.u32()?, take_key(fields)?);
                if (chunk != 0 && !chunk_is_legal(chunk)) || !end_is_legal(length, 0) {
                    return None;
                }
                Self::Doubt {
                    id,
                    chunk,
                    key,
                    end,
                    length,
                }
            }
            DOUBT_ALL => Self::DoubtAll { below: ADDRESSED },
            DOUBT_OLDER => {
                let below = FileId(fields.u64()?);
                (below != ADDRESSED).then_some(Self::DoubtAll { below })?
            }
            TRUST => {
                let file = fields.u64()?;
                let file = (file != u64::MAX).then_some(FileId(file));
                Self::Trust { file }
            }
            MERGED => Self::Merged {
                from: ForkId(fields.u64()?),
                to: ForkId(fields.u64()?),
            },
            _ => return None,
        })
    }
}

/// Begins a frame's body with the time of its items.
pub(crate) fn new_body(modified: i64) -> Vec<u8> {
    let mut body = Vec::with_capacity(256);
    body.put_i64_le(modified);
    body
}

/// The time and the items of a frame's body; `None` if the body is malformed.
pub(crate) fn decode_body(body: &Bytes) -> Option<(i64, Vec<ItemRecord>)> {
    let mut fields = Fields(body);
    let modified = fields.i64()?;
    let mut items = Vec::new();
    while !fields.0.is_empty() {
        items.push(ItemRecord::decode(&mut fields, body)?);
    }
    Some((modified, items))
}
