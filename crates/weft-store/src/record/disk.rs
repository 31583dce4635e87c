//! The owner of a disk: its label, and its record in the index.

use bytes::BufMut;

use super::index::{corrupt, open, seal};
use super::{VERSION, checksum};
use crate::error::StoreError;

/// The first bytes of a label.
const MAGIC: &[u8; 3] = b"WfD";
/// The longest name of an owner, in bytes.
const OWNER_MAX: usize = 255;
/// Prefix of the keys of disks in the index.
pub(crate) const DISK_PREFIX: &[u8] = b"disk";

/// The label of a disk: its store and its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelRecord {
    /// The disk's number in its server.
    pub(crate) number: u16,
    /// The name of its store.
    pub(crate) owner: String,
}

impl LabelRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let owner = self.owner.as_bytes();
        let owner = &owner[..owner.len().min(OWNER_MAX)];
        let mut out = MAGIC.to_vec();
        out.put_u8(VERSION);
        out.put_u16_le(self.number);
        out.put_u8(owner.len() as u8);
        out.put_slice(owner);
        let crc = checksum(&out);
        out.put_u32_le(crc);
        out
    }

    /// Reads a label; ignores the bytes after it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let wrong = || corrupt("a disk's label", bytes.get(..8).unwrap_or(bytes));
        let length = usize::from(*bytes.get(6).ok_or_else(wrong)?);
        let (front, rest) = bytes.split_at_checked(7 + length).ok_or_else(wrong)?;
        if &front[..3] != MAGIC || rest.get(..4) != Some(&checksum(front).to_le_bytes()) {
            return Err(wrong());
        }
        if front[3] != VERSION {
            return Err(StoreError::Version {
                what: "a disk's label",
                found: front[3],
                known: VERSION,
            });
        }
        Ok(Self {
            number: u16::from_le_bytes([front[4], front[5]]),
            owner: String::from_utf8(front[7..].to_vec()).map_err(|_| wrong())?,
        })
    }
}

/// A disk in the index: where it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiskRecord {
    /// Its path in the configuration.
    pub(crate) path: String,
}

impl DiskRecord {
    pub(crate) fn key(number: u16) -> Vec<u8> {
        let mut out = DISK_PREFIX.to_vec();
        out.put_u16(number);
        out
    }
    /// The disk's number, if this is the key of a disk.
    pub(crate) fn decode_key(key: &[u8]) -> Option<u16> {
        let number = key.strip_prefix(DISK_PREFIX)?;
        Some(u16::from_be_bytes(number.try_into().ok()?))
    }
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.put_slice(self.path.as_bytes());
        seal(out)
    }
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Self, StoreError> {
        let what = "a disk's record";
        let fields = open(what, key, value)?;
        let path = String::from_utf8(fields.0.to_vec());
        Ok(Self {
            path: path.map_err(|_| corrupt(what, key))?,
        })
    }
}
