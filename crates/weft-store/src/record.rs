//! Durable bytes: the log's frames and items, and the index's keys and values.
//!
//! This is the one declaration; `docs/format.md` explains it and a test compares the golden bytes
//! there with what this module writes. All integers are little-endian, except in keys of the
//! index, where they are big-endian so that byte order is numeric order.
//!
//! Decoders survive any bytes: every count is checked against the bytes that are left before
//! anything is allocated.

use bytes::{BufMut, Bytes};
use crc_fast::crc32_iscsi;
use weft_kv::Space;
use weft_layout::{CellIndex, FileId};

use crate::error::StoreError;
use crate::key::{ForkKey, ForkName};
use crate::pool::BLOCK;

/// Version of every record in this file.
pub(crate) const VERSION: u8 = 1;
/// File records: tombstones and last operations.
pub(crate) const FILES: Space = Space("files");
/// Fork records.
pub(crate) const FORKS: Space = Space("forks");
/// Chunk entries.
pub(crate) const CHUNKS: Space = Space("chunks");
/// The store's own record.
pub(crate) const META: Space = Space("store");
/// The key spaces that a store's index must hold.
pub const INDEX_SPACES: [Space; 4] = [FILES, FORKS, CHUNKS, META];
/// Key of [`StoreRecord`] in [`META`].
pub(crate) const STORE_KEY: &[u8] = b"store";

/// Largest body of a frame.
pub(crate) const BODY_MAX: usize = 64 << 20;
/// Bytes of a [`FrameRecord`].
pub(crate) const FRAME_BYTES: usize = 32;
/// Begins every frame of a log.
pub(crate) const MAGIC: [u8; 3] = *b"WfL";

/// CRC-32C (iSCSI) of `bytes`.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc32_iscsi(bytes)
}

/// Reads fields off the front of a record; `None` once bytes run out.
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

/// The header of one frame of the log; the body follows, padded with zeros to 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameRecord {
    /// Bytes of the body without the padding.
    pub(crate) body: u32,
    /// Number of the frame: one more than its predecessor's, over all segments.
    pub(crate) sequence: u64,
    /// CRC-32C of the body.
    pub(crate) crc: u32,
    /// 1 when the frame says that everything up to a sequence is on stable storage.
    pub(crate) synced: bool,
}

/// What stands where a frame header was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// Fewer bytes than a header.
    Short,
    /// Not a header, or a damaged one.
    Bad,
    /// A header of a version this program does not know.
    Version(u8),
    /// A header whose checksum is right.
    Good(FrameRecord),
}

impl FrameRecord {
    /// Header, body and padding, for a body without its checksum computed yet.
    pub(crate) fn append(out: &mut Vec<u8>, sequence: u64, synced: bool, body: &[u8]) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        out.push(VERSION);
        out.put_u32_le(u32::try_from(body.len()).expect("bodies are at most 64 MiB"));
        out.put_u64_le(sequence);
        out.put_u32_le(checksum(body));
        out.put_u8(u8::from(synced));
        out.put_bytes(0, 7);
        let crc = checksum(&out[start..]);
        out.put_u32_le(crc);
        out.extend_from_slice(body);
        out.put_bytes(0, padding(body.len()));
    }

    /// Reads the header at the front of `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Header {
        let Some(bytes) = bytes.get(..FRAME_BYTES) else {
            return Header::Short;
        };
        let (front, crc) = bytes.split_at(FRAME_BYTES - 4);
        if front[..3] != MAGIC || crc != checksum(front).to_le_bytes() {
            return Header::Bad;
        }
        if front[3] != VERSION {
            return Header::Version(front[3]);
        }
        let mut fields = Fields(&front[4..]);
        let mut read = || {
            Some(Self {
                body: fields.u32()?,
                sequence: fields.u64()?,
                crc: fields.u32()?,
                synced: fields.u8()? == 1,
            })
        };
        match read() {
            Some(frame) if frame.body as usize <= BODY_MAX => Header::Good(frame),
            _ => Header::Bad,
        }
    }

    /// Bytes from this frame's header to the next one's.
    pub(crate) fn stride(&self) -> u64 {
        (FRAME_BYTES + self.body as usize + padding(self.body as usize)) as u64
    }
}

/// Zero bytes after a body.
pub(crate) fn padding(body: usize) -> usize {
    body.next_multiple_of(8) - body
}

/// Names a fork in log and index, for ever: never used twice in one store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ForkId(pub(crate) u64);

/// A block of a disk: `disk << 48 | block`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(pub(crate) u64);

impl Place {
    /// No block: a hole.
    pub(crate) const NONE: Self = Self(u64::MAX);

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

/// Consecutive blocks of a chunk that lie consecutively on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunRecord {
    /// First block in the chunk.
    pub(crate) first: u32,
    /// How many.
    pub(crate) blocks: u32,
    /// Where the first lies.
    pub(crate) place: Place,
}

/// Runs of a chunk and one checksum per block of theirs, in order.
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
            out.put_u32_le(run.blocks);
            out.put_u64_le(run.place.0);
        }
        for crc in &self.crcs {
            out.put_u32_le(*crc);
        }
    }

    fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let count = fields.u32()? as usize;
        if count > fields.0.len() / 16 {
            return None;
        }
        let mut runs = Vec::with_capacity(count);
        let (mut end, mut blocks) = (0_u32, 0_usize);
        for _ in 0..count {
            let run = RunRecord {
                first: fields.u32()?,
                blocks: fields.u32()?,
                place: Place(fields.u64()?),
            };
            let last = run.first.checked_add(run.blocks)?;
            if run.blocks == 0 || run.first < end || last > 4096 || run.place.disk() != 0 {
                return None;
            }
            end = last;
            blocks += run.blocks as usize;
            runs.push(run);
        }
        let crcs = fields.take(blocks * 4)?;
        let crcs = crcs
            .chunks_exact(4)
            .map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]))
            .collect();
        Some(Self { runs, crcs })
    }
}

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
    /// These blocks of a chunk lie here now; `Data` of these blocks up to sequence `as_of` is in
    /// them. The fork is at least `end` long.
    Map {
        id: ForkId,
        chunk: u64,
        as_of: u64,
        end: u64,
        runs: RunsRecord,
    },
    /// A fork's length is set; what lay beyond is gone.
    Truncate { id: ForkId, length: u64 },
    /// The last cutting operation that the file has seen.
    Operation { file: FileId, op: u64 },
    /// A fork is gone.
    Remove { id: ForkId },
    /// A file is gone, for ever.
    Delete { file: FileId },
    /// Everything up to this sequence is on stable storage.
    Synced { through: u64 },
}

const FORK: u8 = 1;
const DATA: u8 = 2;
const MAP: u8 = 3;
const TRUNCATE: u8 = 4;
const OPERATION: u8 = 5;
const REMOVE: u8 = 6;
const DELETE: u8 = 7;
const SYNCED: u8 = 8;

impl ItemRecord {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Fork { id, chunk, key } => {
                out.put_u8(FORK);
                out.put_u64_le(id.0);
                out.put_u32_le(*chunk);
                out.put_u64_le(key.file.0);
                out.put_u32_le(key.cell.0);
                out.put_u8(key.fork.as_str().len() as u8);
                out.extend_from_slice(key.fork.as_str().as_bytes());
            }
            Self::Data { id, offset, data } => Self::encode_data(out, *id, *offset, data),
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
            Self::Remove { id } => {
                out.put_u8(REMOVE);
                out.put_u64_le(id.0);
            }
            Self::Delete { file } => {
                out.put_u8(DELETE);
                out.put_u64_le(file.0);
            }
            Self::Synced { through } => {
                out.put_u8(SYNCED);
                out.put_u64_le(*through);
            }
        }
    }

    /// A `Data` item without taking the bytes into a value first.
    pub(crate) fn encode_data(out: &mut Vec<u8>, id: ForkId, offset: u64, data: &[u8]) {
        out.put_u8(DATA);
        out.put_u64_le(id.0);
        out.put_u64_le(offset);
        out.put_u32_le(data.len() as u32);
        out.extend_from_slice(data);
    }

    fn decode(fields: &mut Fields<'_>, body: &Bytes) -> Option<Self> {
        Some(match fields.u8()? {
            FORK => {
                let (id, chunk) = (ForkId(fields.u64()?), fields.u32()?);
                let (file, cell) = (FileId(fields.u64()?), CellIndex(fields.u32()?));
                let length = fields.u8()? as usize;
                let fork = name(fields.take(length)?)?;
                if chunk != 0 && !chunk_is_legal(chunk) {
                    return None;
                }
                Self::Fork {
                    id,
                    chunk,
                    key: ForkKey { file, cell, fork },
                }
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
            _ => return None,
        })
    }
}

/// The front of a frame's body: the time of everything in it.
pub(crate) fn begin_body(out: &mut Vec<u8>, modified: i64) {
    out.put_i64_le(modified);
}

/// The time and the items of a frame's body; `None` when it is not what this program writes.
pub(crate) fn decode_body(body: &Bytes) -> Option<(i64, Vec<ItemRecord>)> {
    let mut fields = Fields(body);
    let modified = fields.i64()?;
    let mut items = Vec::new();
    while !fields.0.is_empty() {
        items.push(ItemRecord::decode(&mut fields, body)?);
    }
    Some((modified, items))
}

fn name(bytes: &[u8]) -> Option<ForkName> {
    ForkName::new(std::str::from_utf8(bytes).ok()?).ok()
}

/// Whether a chunk size is within its bounds.
pub(crate) fn chunk_is_legal(chunk: u32) -> bool {
    (crate::CHUNK_MIN..=crate::CHUNK_MAX).contains(&chunk)
}

/// Whether `offset + length` is within the largest offset.
pub(crate) fn end_is_legal(offset: u64, length: u64) -> bool {
    offset
        .checked_add(length)
        .is_some_and(|end| end <= weft_layout::OFFSET_MAX)
}

fn corrupt(what: &'static str, key: &[u8]) -> StoreError {
    use std::fmt::Write as _;
    let mut at = String::from("key ");
    for byte in key {
        let _ = write!(at, "{byte:02x}");
    }
    StoreError::Corrupt { what, at }
}

/// Ends an index value with its checksum.
fn seal(mut value: Vec<u8>) -> Vec<u8> {
    let crc = checksum(&value);
    value.put_u32_le(crc);
    value
}

/// Checks version and checksum of an index value; the fields between them.
fn open<'a>(what: &'static str, key: &[u8], value: &'a [u8]) -> Result<Fields<'a>, StoreError> {
    let split = value.len().checked_sub(4).filter(|&n| n > 0);
    let (front, crc) = value.split_at(split.ok_or_else(|| corrupt(what, key))?);
    if crc != checksum(front).to_le_bytes() {
        return Err(corrupt(what, key));
    }
    if front[0] != VERSION {
        return Err(StoreError::Version {
            what,
            found: front[0],
            known: VERSION,
        });
    }
    Ok(Fields(&front[1..]))
}

/// A file in the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileRecord {
    /// The file was deleted.
    pub(crate) deleted: bool,
    /// The last cutting operation it has seen.
    pub(crate) op: u64,
}

impl FileRecord {
    pub(crate) fn key(file: FileId) -> Vec<u8> {
        file.0.to_be_bytes().to_vec()
    }
    pub(crate) fn decode_key(key: &[u8]) -> Result<FileId, StoreError> {
        let id = key.try_into().map_err(|_| corrupt("a file's key", key))?;
        Ok(FileId(u64::from_be_bytes(id)))
    }
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = vec![VERSION, u8::from(self.deleted)];
        out.put_u64_le(self.op);
        seal(out)
    }
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Self, StoreError> {
        let what = "a file's record";
        let mut fields = open(what, key, value)?;
        let mut read = || {
            Some(Self {
                deleted: fields.u8()? != 0,
                op: fields.u64()?,
            })
        };
        read().ok_or_else(|| corrupt(what, key))
    }
}

/// A fork in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForkRecord {
    pub(crate) id: ForkId,
    pub(crate) chunk: u32,
    pub(crate) length: u64,
    pub(crate) modified: i64,
    /// Blocks in its chunks' entries.
    pub(crate) blocks: u64,
}

impl ForkRecord {
    pub(crate) fn key(key: &ForkKey) -> Vec<u8> {
        let mut out = Vec::with_capacity(12 + key.fork.as_str().len());
        out.put_u64(key.file.0);
        out.put_u32(key.cell.0);
        out.extend_from_slice(key.fork.as_str().as_bytes());
        out
    }
    pub(crate) fn decode_key(key: &[u8]) -> Result<ForkKey, StoreError> {
        let read = || {
            let (file, rest) = key.split_at_checked(8)?;
            let (cell, fork) = rest.split_at_checked(4)?;
            Some(ForkKey {
                file: FileId(u64::from_be_bytes(file.try_into().ok()?)),
                cell: CellIndex(u32::from_be_bytes(cell.try_into().ok()?)),
                fork: name(fork)?,
            })
        };
        read().ok_or_else(|| corrupt("a fork's key", key))
    }
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.put_u64_le(self.id.0);
        out.put_u32_le(self.chunk);
        out.put_u64_le(self.length);
        out.put_i64_le(self.modified);
        out.put_u64_le(self.blocks);
        seal(out)
    }
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Self, StoreError> {
        let what = "a fork's record";
        let mut fields = open(what, key, value)?;
        let mut read = || {
            let fork = Self {
                id: ForkId(fields.u64()?),
                chunk: fields.u32()?,
                length: fields.u64()?,
                modified: fields.i64()?,
                blocks: fields.u64()?,
            };
            ((fork.chunk == 0 || chunk_is_legal(fork.chunk)) && end_is_legal(fork.length, 0))
                .then_some(fork)
        };
        read().ok_or_else(|| corrupt(what, key))
    }
}

/// A chunk in the index: its runs and checksums.
pub(crate) struct ChunkRecord;

impl ChunkRecord {
    /// Epoch 0, inverted, ends every key until checkpoints exist.
    pub(crate) fn key(id: ForkId, chunk: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        out.put_u64(id.0);
        out.put_u64(chunk);
        out.put_u64(!0);
        out
    }
    pub(crate) fn decode_key(key: &[u8]) -> Result<(ForkId, u64), StoreError> {
        let read = || {
            let mut words = key
                .chunks_exact(8)
                .map(|w| u64::from_be_bytes(w.try_into().unwrap_or_default()));
            let found = (ForkId(words.next()?), words.next()?);
            (words.next()? == !0 && key.len() == 24).then_some(found)
        };
        read().ok_or_else(|| corrupt("a chunk's key", key))
    }
    pub(crate) fn encode(runs: &RunsRecord) -> Vec<u8> {
        let mut out = Vec::with_capacity(9 + runs.runs.len() * 16 + runs.crcs.len() * 4);
        out.push(VERSION);
        runs.encode(&mut out);
        seal(out)
    }
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<RunsRecord, StoreError> {
        let what = "a chunk's record";
        let mut fields = open(what, key, value)?;
        RunsRecord::decode(&mut fields)
            .filter(|_| fields.0.is_empty())
            .ok_or_else(|| corrupt(what, key))
    }
}

/// The store itself, in the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreRecord {
    /// The next fork's id.
    pub(crate) next_fork: u64,
    /// The sequence that the index holds everything up to.
    pub(crate) applied: u64,
}

impl StoreRecord {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.put_u64_le(self.next_fork);
        out.put_u64_le(self.applied);
        seal(out)
    }
    pub(crate) fn decode(value: &[u8]) -> Result<Self, StoreError> {
        let what = "the store's record";
        let mut fields = open(what, STORE_KEY, value)?;
        let mut read = || {
            Some(Self {
                next_fork: fields.u64()?,
                applied: fields.u64()?,
            })
        };
        read().ok_or_else(|| corrupt(what, STORE_KEY))
    }
}

/// The file `running`: the boot under which the store was opened.
pub(crate) struct RunningRecord;

impl RunningRecord {
    pub(crate) fn encode(boot: &str) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(boot.as_bytes());
        seal(out)
    }
    pub(crate) fn decode(value: &[u8]) -> Option<String> {
        let fields = open("the running mark", b"running", value).ok()?;
        String::from_utf8(fields.0.to_vec()).ok()
    }
}
