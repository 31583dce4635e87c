//! The index: keys and values; each value ends with its checksum.

use bytes::BufMut;
use weft_kv::{Position, Space};
use weft_layout::{CellIndex, FileId};

use super::{
    Fields, ForkId, RunRecord, RunsRecord, VERSION, checksum, chunk_is_legal, end_is_legal, name,
};
use crate::error::StoreError;
use crate::key::ForkKey;

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

pub(super) fn corrupt(what: &'static str, key: &[u8]) -> StoreError {
    use std::fmt::Write as _;
    let mut at = String::from("key ");
    for byte in key {
        let _ = write!(at, "{byte:02x}");
    }
    StoreError::Corrupt { what, at }
}

/// Ends an index value with its checksum.
pub(super) fn seal(mut value: Vec<u8>) -> Vec<u8> {
    let crc = checksum(&value);
    value.put_u32_le(crc);
    value
}

/// Checks version and checksum of an index value; the fields between them.
pub(super) fn open<'a>(
    what: &'static str,
    key: &[u8],
    value: &'a [u8],
) -> Result<Fields<'a>, StoreError> {
    Ok(open_up_to(VERSION, what, key, value)?.1)
}

/// As [`open`], for a value of any version up to `newest`.
fn open_up_to<'a>(
    newest: u8,
    what: &'static str,
    key: &[u8],
    value: &'a [u8],
) -> Result<(u8, Fields<'a>), StoreError> {
    let split = value.len().checked_sub(4).filter(|&n| n > 0);
    let (front, crc) = value.split_at(split.ok_or_else(|| corrupt(what, key))?);
    if crc != checksum(front).to_le_bytes() {
        return Err(corrupt(what, key));
    }
    if front[0] == 0 || front[0] > newest {
        return Err(StoreError::Version {
            what,
            found: front[0],
            known: newest,
        });
    }
    Ok((front[0], Fields(&front[1..])))
}

/// A file in the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileRecord {
    /// The file was deleted.
    pub(crate) deleted: bool,
    /// The last numbered operation it has seen.
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
                deleted: fields.flag()?,
                op: fields.u64()?,
            })
        };
        read()
            .filter(|_| fields.0.is_empty())
            .ok_or_else(|| corrupt(what, key))
    }
}

/// A checkpoint of a file in the index, beside the file's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointRecord {
    /// When it was made.
    pub(crate) made: i64,
}

impl CheckpointRecord {
    pub(crate) fn key(file: FileId, number: u64) -> Vec<u8> {
        let mut out = FileRecord::key(file);
        out.put_u64(number);
        out
    }
    /// The file and the number, if this is the key of a checkpoint and not of a file.
    pub(crate) fn decode_key(key: &[u8]) -> Option<(FileId, u64)> {
        let (file, number) = key.split_at_checked(8)?;
        let number = u64::from_be_bytes(number.try_into().ok()?);
        Some((FileId(u64::from_be_bytes(file.try_into().ok()?)), number))
    }
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.put_i64_le(self.made);
        seal(out)
    }
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Self, StoreError> {
        let what = "a checkpoint's record";
        let mut fields = open(what, key, value)?;
        let made = fields.i64().filter(|_| fields.0.is_empty());
        let made = made.ok_or_else(|| corrupt(what, key))?;
        Ok(Self { made })
    }
}

/// The version of a fork's record that names its parent and its checkpoint.
const FORK_VERSION: u8 = 2;

/// The key of a fork's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ForkEntry {
    /// The live fork of this name.
    Live(ForkKey),
    /// A checkpoint fork: its name when it lost it, and its id.
    Checkpoint(ForkKey, ForkId),
}

/// A fork in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForkRecord {
    pub(crate) id: ForkId,
    pub(crate) chunk: u32,
    pub(crate) length: u64,
    pub(crate) modified: i64,
    /// Blocks that it owns in its chunks' entries.
    pub(crate) blocks: u64,
    /// The fork whose chunks show where it has none.
    pub(crate) parent: Option<ForkId>,
    /// Chunks from this number on are not its parent's.
    pub(crate) inherit: u64,
    /// Its checkpoint; 0: none.
    pub(crate) checkpoint: u64,
}

impl ForkRecord {
    pub(crate) fn key(key: &ForkKey) -> Vec<u8> {
        let mut out = Vec::with_capacity(12 + key.fork.as_str().len());
        out.put_u64(key.file.0);
        out.put_u32(key.cell.0);
        out.extend_from_slice(key.fork.as_str().as_bytes());
        out
    }
    /// The key of a fork that lost its name: names contain no NUL.
    pub(crate) fn checkpoint_fork_key(key: &ForkKey, id: ForkId) -> Vec<u8> {
        let mut out = Self::key(key);
        out.push(0);
        out.put_u64(id.0);
        out
    }
    pub(crate) fn decode_key(key: &[u8]) -> Result<ForkEntry, StoreError> {
        let read = || {
            let (file, rest) = key.split_at_checked(8)?;
            let (cell, rest) = rest.split_at_checked(4)?;
            let end = rest.iter().position(|b| *b == 0);
            let (fork, id) = rest.split_at(end.unwrap_or(rest.len()));
            let named = ForkKey {
                file: FileId(u64::from_be_bytes(file.try_into().ok()?)),
                cell: CellIndex(u32::from_be_bytes(cell.try_into().ok()?)),
                fork: name(fork)?,
            };
            Some(match id.split_first() {
                None => ForkEntry::Live(named),
                Some((_, id)) => {
                    ForkEntry::Checkpoint(named, ForkId(u64::from_be_bytes(id.try_into().ok()?)))
                }
            })
        };
        read().ok_or_else(|| corrupt("a fork's key", key))
    }
    pub(crate) fn encode(self) -> Vec<u8> {
        let related = self.parent.is_some() || self.checkpoint != 0;
        let mut out = vec![if related { FORK_VERSION } else { VERSION }];
        out.put_u64_le(self.id.0);
        out.put_u32_le(self.chunk);
        out.put_u64_le(self.length);
        out.put_i64_le(self.modified);
        out.put_u64_le(self.blocks);
        if related {
            out.put_u8(u8::from(self.parent.is_some()));
            out.put_u64_le(self.parent.unwrap_or_default().0);
            out.put_u64_le(self.inherit);
            out.put_u64_le(self.checkpoint);
        }
        seal(out)
    }
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Self, StoreError> {
        let what = "a fork's record";
        let (version, mut fields) = open_up_to(FORK_VERSION, what, key, value)?;
        let mut read = || {
            let mut fork = Self {
                id: ForkId(fields.u64()?),
                chunk: fields.u32()?,
                length: fields.u64()?,
                modified: fields.i64()?,
                blocks: fields.u64()?,
                parent: None,
                inherit: 0,
                checkpoint: 0,
            };
            if version == FORK_VERSION {
                let (derived, parent) = (fields.flag()?, ForkId(fields.u64()?));
                fork.parent = derived.then_some(parent);
                fork.inherit = fields.u64()?;
                fork.checkpoint = fields.u64()?;
                let related = derived || fork.checkpoint != 0;
                if !related || (!derived && parent != ForkId::default()) {
                    return None;
                }
            }
            ((fork.chunk == 0 || chunk_is_legal(fork.chunk)) && end_is_legal(fork.length, 0))
                .then_some(fork)
        };
        read()
            .filter(|_| fields.0.is_empty())
            .ok_or_else(|| corrupt(what, key))
    }
}

/// A chunk in the index: its runs and checksums.
pub(crate) struct ChunkRecord;

impl ChunkRecord {
    /// All ones end every key: reserved for a version.
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
    /// Decodes only the runs: a restart needs no checksums of a million entries.
    pub(crate) fn decode_runs(key: &[u8], value: &[u8]) -> Result<Vec<RunRecord>, StoreError> {
        let what = "a chunk's record";
        let mut fields = open(what, key, value)?;
        let found = RunsRecord::decode_runs(&mut fields);
        let (runs, crcs) = found.ok_or_else(|| corrupt(what, key))?;
        let whole = fields.0.len() == crcs;
        whole.then_some(runs).ok_or_else(|| corrupt(what, key))
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
    /// The store has, or had, other disks than number 0.
    pub(crate) several: bool,
}

/// The version of the store's record with several disks: a program that knows only one disk must
/// not open such a store.
const SEVERAL_VERSION: u8 = 2;

impl StoreRecord {
    pub(crate) fn encode(self) -> Vec<u8> {
        let version = if self.several {
            SEVERAL_VERSION
        } else {
            VERSION
        };
        let mut out = vec![version];
        out.put_u64_le(self.next_fork);
        out.put_u64_le(self.applied);
        seal(out)
    }
    pub(crate) fn decode(value: &[u8]) -> Result<Self, StoreError> {
        let what = "the store's record";
        let (version, mut fields) = open_up_to(SEVERAL_VERSION, what, STORE_KEY, value)?;
        let mut read = || {
            Some(Self {
                next_fork: fields.u64()?,
                applied: fields.u64()?,
                several: version == SEVERAL_VERSION,
            })
        };
        read()
            .filter(|_| fields.0.is_empty())
            .ok_or_else(|| corrupt(what, STORE_KEY))
    }
}

/// Named bytes of the store's owner.
pub(crate) struct NoteRecord;

impl NoteRecord {
    pub(crate) fn key(name: &str) -> Vec<u8> {
        [b"note.", name.as_bytes()].concat()
    }
    pub(crate) fn encode(bytes: &[u8]) -> Vec<u8> {
        seal([&[VERSION], bytes].concat())
    }
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Vec<u8>, StoreError> {
        Ok(open("a note", key, value)?.0.to_vec())
    }
}

/// The file `reached`: how far the log had come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogWatermark {
    /// Everything up to this frame is on stable storage.
    pub(crate) synced: u64,
    /// Everything up to this frame was handed to the kernel.
    pub(crate) given: u64,
}

impl LogWatermark {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.put_u64_le(self.synced);
        out.put_u64_le(self.given);
        seal(out)
    }
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let mut fields = open("how far the log came", b"reached", value).ok()?;
        let record = Self {
            synced: fields.u64()?,
            given: fields.u64()?,
        };
        fields.0.is_empty().then_some(record)
    }
}

/// The files `incarnations.0` and `incarnations.1`: the history of the store's incarnations, in
/// turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryRecord {
    /// Increases with each write; the newer of the two files counts.
    pub(crate) turn: u64,
    /// [`weft_kv::History::encode`].
    pub(crate) history: Vec<u8>,
}

impl HistoryRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.put_u64_le(self.turn);
        out.put_u32_le(self.history.len() as u32);
        out.extend_from_slice(&self.history);
        seal(out)
    }
    /// Zeros follow the record up to the file's length.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let length = Fields(value.get(9..)?).u32()? as usize;
        let length = 13_usize.checked_add(length)?.checked_add(4)?;
        let (value, behind) = value.split_at_checked(length)?;
        if behind.iter().any(|byte| *byte != 0) {
            return None;
        }
        let mut fields = open("a history of incarnations", b"incarnations", value).ok()?;
        let (turn, length) = (fields.u64()?, fields.u32()? as usize);
        (fields.0.len() == length).then(|| Self {
            turn,
            history: fields.0.to_vec(),
        })
    }
}

/// The file `service`: the last known durable position of the metadata service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServicePositionRecord(pub(crate) Position);

impl ServicePositionRecord {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.put_u64_le(self.0.incarnation);
        out.put_u64_le(self.0.sequence);
        seal(out)
    }
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let mut fields = open("what was heard of the service", b"service", value).ok()?;
        let at = Position {
            incarnation: fields.u64()?,
            sequence: fields.u64()?,
        };
        fields.0.is_empty().then_some(Self(at))
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
