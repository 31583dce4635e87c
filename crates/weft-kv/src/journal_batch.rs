//! A batch of the engine's journal, read as the engine reads it.
//!
//! This relies on fjall 3.1: a journal is batches `1 count(4) sequence(8)`, items
//! `2 type(1) compression(1) keyspace(8) key length(2) value length(4) stored length(4) key value`
//! or `4 keyspace(8)`, and `3 checksum(8) "FJL" 3`; zeros follow. The checksum is XXH3 of the
//! items' bytes; it does not cover count and sequence. Sequences ascend.

use xxhash_rust::xxh3::xxh3_64;

/// The key of the commit's number; no space has keys that begin with a zero byte.
pub(crate) const NUMBER_KEY: &[u8] = b"\0number";
/// The last bytes of every batch.
const TRAILER: &[u8] = b"FJL\x03";
/// Bytes before the first item.
const START: usize = 13;
/// The engine reserves the highest bit of a sequence.
const SEQUENCE_MAX: u64 = (1 << 63) - 1;

/// A complete batch with a correct checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalBatch {
    /// Its bytes in the journal.
    pub(crate) length: usize,
    /// The number that the engine gave it.
    pub(crate) sequence: u64,
    /// The commit's number, if it has one.
    pub(crate) number: Option<u64>,
}

/// Reads the batch at the front; `None` where there is none that the engine could read.
pub(crate) fn read_batch(bytes: &[u8]) -> Option<JournalBatch> {
    let mut rest = Fields(bytes);
    if rest.u8()? != 1 {
        return None;
    }
    let (count, sequence) = (rest.u32()?, rest.u64()?);
    let mut number = None;
    for _ in 0..count {
        number = item(&mut rest)?.or(number);
    }
    let items = &bytes[START..bytes.len() - rest.0.len()];
    if rest.u8()? != 3 || rest.u64()? != xxh3_64(items) || sequence > SEQUENCE_MAX {
        return None;
    }
    (rest.take(TRAILER.len())? == TRAILER).then(|| JournalBatch {
        length: bytes.len() - rest.0.len(),
        sequence,
        number,
    })
}

/// Skips an item; returns the commit's number if it holds that.
#[expect(clippy::option_option, reason = "the outer `None` means no item")]
fn item(rest: &mut Fields<'_>) -> Option<Option<u64>> {
    match rest.u8()? {
        2 => {
            let (_, compression, _) = (rest.u8()?, rest.u8()?, rest.u64()?);
            let (key, value, stored) = (rest.u16()?, rest.u32()?, rest.u32()?);
            // fjall's checksum does not cover the first of the two lengths, and its debug build
            // panics where they differ.
            if compression == 0 && value != stored {
                return None;
            }
            let key = rest.take(usize::from(key))?;
            let stored = rest.take(stored as usize)?;
            if key == NUMBER_KEY && compression == 0 && value == 8 {
                return Some(Some(u64::from_le_bytes(stored.try_into().ok()?)));
            }
        }
        4 => {
            rest.u64()?;
        }
        _ => return None,
    }
    Some(None)
}

/// Reads fields off the front; `None` once bytes run out.
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

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A commit with number 7, as fjall 3.1 writes it.
    fn golden() -> Vec<u8> {
        let mut bytes = vec![1, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([
            2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 8, 0, 0, 0, 8, 0, 0, 0,
        ]);
        bytes.extend(NUMBER_KEY);
        bytes.extend(7_u64.to_le_bytes());
        let sum = xxh3_64(&bytes[START..]);
        bytes.push(3);
        bytes.extend(sum.to_le_bytes());
        bytes.extend(TRAILER);
        bytes
    }

    #[test]
    fn a_batch_is_decoded_and_its_proper_prefixes_are_refused() {
        let bytes = golden();
        let whole = JournalBatch {
            length: bytes.len(),
            sequence: 9,
            number: Some(7),
        };
        assert_eq!(read_batch(&bytes), Some(whole));
        for end in 0..bytes.len() {
            assert_eq!(read_batch(&bytes[..end]), None, "{end}");
        }
    }

    #[test]
    fn the_checksum_covers_the_items() {
        // The seed input of the fuzzer: one pair `k` = `vv`.
        let items = [
            &[
                2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 2, 0, 0, 0,
            ][..],
            b"kvv",
        ];
        assert_eq!(xxh3_64(&items.concat()), 0x6650_f84e_a289_5309);
    }

    /// This module relies on the format of the engine's files, which a new version may change.
    #[test]
    fn a_journal_is_read_as_numbered_batches_to_its_last_byte() {
        let folder = tempfile::tempdir().unwrap();
        let database = fjall::Database::builder(folder.path()).open().unwrap();
        let keyspace = database.keyspace("keys", fjall::KeyspaceCreateOptions::default);
        let keyspace = keyspace.unwrap();
        for number in 1..=20_u64 {
            let mut batch = database.batch();
            // Values up to 64 KiB, above the size that the engine would compress.
            let value = vec![7_u8; 1 << number.min(16)];
            batch.insert(&keyspace, [number as u8; 3], value);
            batch.remove(&keyspace, [0_u8; 9]);
            batch.insert(&keyspace, NUMBER_KEY, number.to_le_bytes());
            batch.commit().unwrap();
        }
        database.persist(fjall::PersistMode::SyncAll).unwrap();
        let bytes = std::fs::read(folder.path().join("0.jnl")).unwrap();
        let (mut rest, mut numbers) = (&bytes[..], Vec::new());
        while let Some(batch) = read_batch(rest) {
            rest = &rest[batch.length..];
            numbers.extend(batch.number);
        }
        assert_eq!(numbers, (1..=20).collect::<Vec<u64>>());
        assert!(rest.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_batch_with_a_flipped_bit_after_the_sequence_is_refused() {
        let whole = golden();
        for at in (0..5).chain(START..whole.len()) {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                assert_eq!(read_batch(&bytes), None, "byte {at}, bit {bit}");
            }
        }
    }
}
