//! The key of each record, and typed reads. Numbers in keys are big-endian, so that their order is
//! numeric and the records of one directory or file are adjacent.

use prost::Message;
use weft_kv::{Reader, Space};

use super::record::{
    CountersRecord, EntryRecord, HoldRecord, InlineRecord, InodeRecord, IntentRecord, VolumeRecord,
};
use crate::error::MetaError;

/// `id` → [`InodeRecord`].
pub(crate) const INODES: Space = Space("inodes");
/// `parent id ‖ name` → [`EntryRecord`].
pub(crate) const ENTRIES: Space = Space("entries");
/// `id ‖ name` → `XattrRecord`.
pub(crate) const XATTRS: Space = Space("xattrs");
/// `id` → `InlineRecord`.
pub(crate) const INLINE: Space = Space("inline");
/// `id ‖ checkpoint's name` → `CheckpointRecord`.
pub(crate) const CHECKPOINTS: Space = Space("checkpoints");
/// `checkpoint's number ‖ file` (8 bytes each) → `TreeFileRecord`.
pub(crate) const TREE_FILES: Space = Space("tree_files");
/// `id` → [`HoldRecord`].
pub(crate) const HOLDS: Space = Space("held");
/// `id` → an empty `ParityRecord`, of each file that has parity or should have it.
pub(crate) const WITH_PARITY: Space = Space("with_parity");
/// `id` → `ParityRecord`.
pub(crate) const PARITY: Space = Space("parity");
/// `kind ‖ id` (1 and 8 bytes) → `QuotaRecord`.
pub(crate) const QUOTAS: Space = Space("quotas");
/// `id` → `OrphanRecord`.
pub(crate) const ORPHANS: Space = Space("orphans");
/// `number` → [`IntentRecord`].
pub(crate) const INTENTS: Space = Space("intents");
/// `server id` (4 bytes) → `ServerRecord`.
pub(crate) const SERVERS: Space = Space("servers");
/// [`VOLUME_KEY`] and [`COUNTERS_KEY`].
pub(crate) const VOLUME: Space = Space("volume");
/// → [`VolumeRecord`].
pub(crate) const VOLUME_KEY: &[u8] = b"volume";
/// → [`CountersRecord`].
pub(crate) const COUNTERS_KEY: &[u8] = b"counters";
/// Present while no service has the volume open and no client had a file open when the last one
/// closed it.
pub(crate) const CLEAN_KEY: &[u8] = b"clean";
/// Key of the history of the service's incarnations in [`VOLUME`].
pub(crate) const INCARNATIONS_KEY: &[u8] = b"incarnations";

/// `id ‖ name`.
pub(crate) fn with_name(id: u64, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(8 + name.len());
    key.extend_from_slice(&id.to_be_bytes());
    key.extend_from_slice(name);
    key
}

/// `number ‖ number`.
pub(crate) fn pair(first: u64, second: u64) -> [u8; 16] {
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}

/// The number a key begins with.
pub(crate) fn number(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(..8)?.try_into().ok()?))
}

/// Decodes a record, or says which one is damaged.
pub(crate) fn decode<M: Message + Default>(
    what: &'static str,
    id: u64,
    bytes: &[u8],
) -> Result<M, MetaError> {
    M::decode(bytes).map_err(|error| MetaError::Corrupt {
        what,
        id,
        reason: error.to_string(),
    })
}

pub(crate) fn inode(reader: &dyn Reader, id: u64) -> Result<Option<InodeRecord>, MetaError> {
    let bytes = reader.get(INODES, &id.to_be_bytes())?;
    bytes.map(|bytes| decode("inode", id, &bytes)).transpose()
}

/// The inode that an entry names; a missing one is damage.
pub(crate) fn named_inode(reader: &dyn Reader, id: u64) -> Result<InodeRecord, MetaError> {
    inode(reader, id)?.ok_or_else(|| MetaError::Corrupt {
        what: "inode",
        id,
        reason: "a directory names it, but it is missing".into(),
    })
}

pub(crate) fn entry(
    reader: &dyn Reader,
    parent: u64,
    name: &[u8],
) -> Result<Option<EntryRecord>, MetaError> {
    let bytes = reader.get(ENTRIES, &with_name(parent, name))?;
    bytes.map(|bytes| entry_in(parent, &bytes)).transpose()
}

/// An entry of a directory. No inode has the id 0.
pub(crate) fn entry_in(parent: u64, bytes: &[u8]) -> Result<EntryRecord, MetaError> {
    let record: EntryRecord = decode("entry in", parent, bytes)?;
    if record.id == 0 {
        return Err(MetaError::Corrupt {
            what: "entry in",
            id: parent,
            reason: "it names no inode".into(),
        });
    }
    Ok(record)
}

pub(crate) fn intent(reader: &dyn Reader, number: u64) -> Result<Option<IntentRecord>, MetaError> {
    let bytes = reader.get(INTENTS, &number.to_be_bytes())?;
    bytes
        .map(|bytes| decode("intent", number, &bytes))
        .transpose()
}

/// The hold of checkpoints of trees on a file's cells.
pub(crate) fn hold(reader: &dyn Reader, id: u64) -> Result<Option<HoldRecord>, MetaError> {
    let bytes = reader.get(HOLDS, &id.to_be_bytes())?;
    bytes.map(|bytes| decode("hold of", id, &bytes)).transpose()
}

pub(crate) fn volume(reader: &dyn Reader) -> Result<Option<VolumeRecord>, MetaError> {
    let bytes = reader.get(VOLUME, VOLUME_KEY)?;
    bytes.map(|bytes| decode("volume", 0, &bytes)).transpose()
}

pub(crate) fn counters(reader: &dyn Reader) -> Result<CountersRecord, MetaError> {
    let bytes = reader.get(VOLUME, COUNTERS_KEY)?;
    let bytes = bytes.ok_or(MetaError::NotFormatted)?;
    decode("counters", 0, &bytes)
}

/// The bytes of an inline file; an empty file has no record.
pub(crate) fn content(reader: &dyn Reader, id: u64) -> Result<InlineRecord, MetaError> {
    let bytes = reader.get(INLINE, &id.to_be_bytes())?;
    let record = bytes.map(|bytes| decode("bytes of file", id, &bytes));
    Ok(record.transpose()?.unwrap_or_default())
}

/// The inode; `None` also where its record is damaged, which the check reports separately.
pub(crate) fn readable(reader: &dyn Reader, id: u64) -> Result<Option<InodeRecord>, MetaError> {
    match inode(reader, id) {
        Err(MetaError::Corrupt { .. }) => Ok(None),
        other => other,
    }
}
