//! Records of unproven data, and of what bounds it: the forks that the frames of a log touched.

use std::ops::Range;

use bytes::BufMut;
use weft_layout::{CellIndex, FileId, OFFSET_MAX};

use super::index::{corrupt, open, seal};
use super::ranges::Ranges;
use super::{Fields, ForkId, VERSION, name};
use crate::error::StoreError;
use crate::key::{ADDRESSED, ForkKey, ForkName};

/// Prefix of the keys of forks' doubts.
const DOUBT_PREFIX: &[u8] = b"doubt.";
/// Prefix of the keys of trusted files.
const TRUST_PREFIX: &[u8] = b"trust.";

/// Prefix of the keys of checkpoints made while absent forks were in doubt.
const UNSURE_PREFIX: &[u8] = b"doubt-at.";

/// The bytes of a fork that are in doubt, in the index.
pub(crate) struct DoubtRecord;

impl DoubtRecord {
    /// All keys are in this range, and also those of [`MissingForksRecord`] and
    /// [`VerifiedFileRecord`].
    pub(crate) const KEYS: (&[u8], &[u8]) = (b"doubt", b"trust/");

    pub(crate) fn key(id: ForkId) -> Vec<u8> {
        [DOUBT_PREFIX, &id.0.to_be_bytes()].concat()
    }

    pub(crate) fn decode_key(key: &[u8]) -> Option<ForkId> {
        let id = key.strip_prefix(DOUBT_PREFIX)?.try_into().ok()?;
        Some(ForkId(u64::from_be_bytes(id)))
    }

    pub(crate) fn encode(ranges: &Ranges) -> Vec<u8> {
        let mut out = vec![VERSION];
        for range in ranges.each() {
            out.put_u64_le(range.start);
            out.put_u64_le(range.end);
        }
        seal(out)
    }

    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Ranges, StoreError> {
        let what = "a fork's doubt";
        let mut fields = open(what, key, value)?;
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut read = || {
            while !fields.0.is_empty() {
                ranges.push(fields.u64()?..fields.u64()?);
            }
            Ranges::new(std::mem::take(&mut ranges))
        };
        read().ok_or_else(|| corrupt(what, key))
    }
}

/// Absent forks are in doubt: those of files before one, except of trusted files.
pub(crate) struct MissingForksRecord;

impl MissingForksRecord {
    pub(crate) const KEY: &[u8] = b"doubt";

    /// `below`: [`ADDRESSED`], written as nothing, means all files.
    pub(crate) fn encode(below: FileId) -> Vec<u8> {
        let mut out = vec![VERSION];
        if below != ADDRESSED {
            out.put_u64_le(below.0);
        }
        seal(out)
    }

    pub(crate) fn decode(value: &[u8]) -> Result<FileId, StoreError> {
        let what = "the bound of doubt";
        let mut fields = open(what, Self::KEY, value)?;
        if fields.0.is_empty() {
            return Ok(ADDRESSED);
        }
        let below = fields.u64().map(FileId).filter(|_| fields.0.is_empty());
        below.ok_or_else(|| corrupt(what, Self::KEY))
    }
}

/// A file is trusted, or a checkpoint was made in doubt: the key says it all.
pub(crate) struct VerifiedFileRecord;

impl VerifiedFileRecord {
    pub(crate) fn key(file: FileId) -> Vec<u8> {
        [TRUST_PREFIX, &file.0.to_be_bytes()].concat()
    }

    pub(crate) fn decode_key(key: &[u8]) -> Option<FileId> {
        let file = key.strip_prefix(TRUST_PREFIX)?.try_into().ok()?;
        Some(FileId(u64::from_be_bytes(file)))
    }

    pub(crate) fn unsure_key(file: FileId, number: u64) -> Vec<u8> {
        let (file, number) = (file.0.to_be_bytes(), number.to_be_bytes());
        [UNSURE_PREFIX, &file, &number].concat()
    }

    pub(crate) fn decode_unsure_key(key: &[u8]) -> Option<(FileId, u64)> {
        let (file, number) = key.strip_prefix(UNSURE_PREFIX)?.split_at_checked(8)?;
        let file = u64::from_be_bytes(file.try_into().ok()?);
        let number = u64::from_be_bytes(number.try_into().ok()?);
        Some((FileId(file), number))
    }

    pub(crate) fn encode() -> Vec<u8> {
        seal(vec![VERSION])
    }

    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let what = "a mark of trust";
        let fields = open(what, key, value)?;
        let whole = fields.0.is_empty();
        whole.then_some(()).ok_or_else(|| corrupt(what, key))
    }
}

/// The forks that frames touched: from one frame on, up to the frame with this record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TouchedRecord {
    pub(crate) from: u64,
    /// They may have touched others as well.
    pub(crate) any: bool,
    /// By name, ascending, with the current length of each; 0 if it does not exist.
    pub(crate) forks: Vec<(ForkKey, u64)>,
}

impl TouchedRecord {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(u8::from(self.any));
        put_number(out, self.from);
        put_number(out, self.forks.len() as u64);
        let (mut last, data) = (0, ForkName::data());
        for (key, length) in &self.forks {
            put_number(out, key.file.0 - last);
            last = key.file.0;
            put_number(out, key.cell.0.into());
            let short = key.fork == data;
            let name = if short { "" } else { key.fork.as_str() };
            out.put_u8(name.len() as u8);
            out.extend_from_slice(name.as_bytes());
            put_number(out, *length);
        }
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let (any, from) = (fields.flag()?, number(fields)?);
        let count = usize::try_from(number(fields)?).ok()?;
        // At least four bytes each.
        if count > fields.0.len() / 4 {
            return None;
        }
        let mut forks: Vec<(ForkKey, u64)> = Vec::with_capacity(count);
        let mut last = 0_u64;
        for _ in 0..count {
            last = last.checked_add(number(fields)?)?;
            let cell = CellIndex(u32::try_from(number(fields)?).ok()?);
            let fork = match fields.u8()? {
                0 => ForkName::data(),
                length => name(fields.take(length.into())?)?,
            };
            let length = number(fields).filter(|length| *length <= OFFSET_MAX)?;
            let file = FileId(last);
            let key = ForkKey { file, cell, fork };
            if forks.last().is_some_and(|(before, _)| *before >= key) {
                return None;
            }
            forks.push((key, length));
        }
        Some(Self { from, any, forks })
    }
}

/// A number in 7 bits per byte, lowest first; the top bit of a byte means that another follows.
fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    out.put_u8(number as u8);
}

fn number(fields: &mut Fields<'_>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = fields.u8()?;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            // Each number has one encoding.
            return (byte != 0 || shift == 0).then_some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_encoding_and_round_trip() {
        for n in [0, 1, 127, 128, 300, 1 << 21, u64::MAX / 2, u64::MAX] {
            let mut out = Vec::new();
            put_number(&mut out, n);
            let mut fields = Fields(&out);
            assert_eq!((number(&mut fields), fields.0.len()), (Some(n), 0));
        }
        assert_eq!(number(&mut Fields(&[0x80, 0])), None);
        assert_eq!(number(&mut Fields(&[0xff; 10])), None);
    }
}
