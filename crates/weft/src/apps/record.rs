//! Fixed-size records and the order they are sorted in.
//!
//! The order is by the bytes of the key, then by the whole record. Records that compare equal are
//! therefore equal byte for byte. Two things rely on that: equal records are interchangeable, and
//! padding of 0xFF bytes, which no record follows, can be removed from the end
//! (docs/applications.md).

use std::cmp::Ordering;
use std::hash::Hasher;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::limits::RECORD_BYTES_MAX;

/// The size of records and where their key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordOrder {
    size: usize,
    from: usize,
    to: usize,
}

/// Why a record size or key is refused.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum RecordError {
    /// The size is 0.
    #[error("a record needs at least 1 byte: give --record N")]
    Empty,
    /// The size is too large for one request.
    #[error("a record of {size} bytes is too large: at most {RECORD_BYTES_MAX}")]
    TooLarge { size: u64 },
    /// The key is not a range.
    #[error(
        "the key {text:?} is not a byte range: write FROM..TO, like 0..8; FROM or TO may be left out"
    )]
    Key { text: String },
    /// The key is outside the record.
    #[error(
        "the key {from}..{to} does not fit records of {size} bytes: choose FROM < TO <= {size}"
    )]
    KeyOutside { from: u64, to: u64, size: u64 },
}

impl RecordOrder {
    /// Checks a record's size and a key `FROM..TO`; no key: the whole record.
    pub(crate) fn parse(size: u64, key: Option<&str>) -> Result<RecordOrder, RecordError> {
        if size == 0 {
            return Err(RecordError::Empty);
        }
        if size > RECORD_BYTES_MAX {
            return Err(RecordError::TooLarge { size });
        }
        let (from, to) = match key {
            None => (0, size),
            Some(text) => range(text, size).ok_or_else(|| RecordError::Key {
                text: text.to_owned(),
            })?,
        };
        if from >= to || to > size {
            return Err(RecordError::KeyOutside { from, to, size });
        }
        Ok(RecordOrder {
            size: size as usize,
            from: from as usize,
            to: to as usize,
        })
    }

    /// Bytes of a record.
    pub(crate) fn size(self) -> usize {
        self.size
    }

    /// The order: key, then everything.
    #[inline]
    pub(crate) fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        a[self.from..self.to]
            .cmp(&b[self.from..self.to])
            .then_with(|| a.cmp(b))
    }

    /// The first bytes of the key as a number: where two differ, they are in the order of the
    /// records.
    #[inline]
    pub(crate) fn prefix(self, record: &[u8]) -> u64 {
        let key = &record[self.from..self.to];
        let mut first = [0; 8];
        let taken = key.len().min(8);
        first[..taken].copy_from_slice(&key[..taken]);
        u64::from_be_bytes(first)
    }

    /// Number and checksum of these records, whatever their order.
    pub(crate) fn digest(self, records: &[u8]) -> RecordDigest {
        let mut digest = RecordDigest::default();
        for record in records.chunks_exact(self.size) {
            // SipHash with fixed keys: detects lost, doubled and torn records as well as any 64
            // bits.
            let mut hasher = std::hash::DefaultHasher::new();
            hasher.write(record);
            digest.add(RecordDigest {
                records: 1,
                sum: hasher.finish(),
            });
        }
        digest
    }
}

fn range(text: &str, size: u64) -> Option<(u64, u64)> {
    let (from, to) = text.split_once("..")?;
    let number = |text: &str, absent: u64| match text.trim() {
        "" => Some(absent),
        digits => digits.parse().ok(),
    };
    Some((number(from, 0)?, number(to, size)?))
}

/// Number of records and the sum of their hashes: equal for any two orders of the same records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordDigest {
    pub(crate) records: u64,
    pub(crate) sum: u64,
}

impl RecordDigest {
    /// Adds the digest of other records.
    pub(crate) fn add(&mut self, other: RecordDigest) {
        self.records += other.records;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ranges_within_the_record() {
        let order = RecordOrder::parse(16, Some("4..8")).unwrap();
        assert_eq!((order.size, order.from, order.to), (16, 4, 8));
        let open = RecordOrder::parse(16, Some("4..")).unwrap();
        assert_eq!((open.from, open.to), (4, 16));
        assert_eq!(RecordOrder::parse(0, None), Err(RecordError::Empty));
        for outside in ["4..4", "8..4", "0..17", "16..", "..0"] {
            let refused = RecordOrder::parse(16, Some(outside));
            assert!(
                matches!(refused, Err(RecordError::KeyOutside { .. })),
                "{outside}"
            );
        }
        for nonsense in ["4", "a..b", "-1..4", "1..2..3", ""] {
            let refused = RecordOrder::parse(16, Some(nonsense));
            assert!(
                matches!(refused, Err(RecordError::Key { .. })),
                "{nonsense}"
            );
        }
    }

    #[test]
    fn records_are_ordered_by_key_first() {
        let order = RecordOrder::parse(4, Some("2..4")).unwrap();
        assert_eq!(order.compare(b"zzaa", b"aabb"), Ordering::Less);
        assert_eq!(order.compare(b"bbaa", b"aaaa"), Ordering::Greater);
        assert_eq!(order.compare(b"abaa", b"abaa"), Ordering::Equal);
        assert!(order.prefix(b"zzaa") < order.prefix(b"aabb"));
    }

    #[test]
    fn a_tally_ignores_order_and_detects_changes() {
        let order = RecordOrder::parse(2, None).unwrap();
        assert_eq!(order.digest(b"aabbcc"), order.digest(b"ccaabb"));
        assert_ne!(order.digest(b"aabbcc"), order.digest(b"aabbbb"));
        let mut sum = order.digest(b"aa");
        sum.add(order.digest(b"bbcc"));
        assert_eq!(sum, order.digest(b"aabbcc"));
    }
}
