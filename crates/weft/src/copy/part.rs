//! The part of a transfer that one process does: it follows from the length and two numbers alone.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::limits::TRANSFER_PARTS_MAX;

/// Part `number` of `of`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransferPart {
    /// The number of this part, from 1.
    pub(crate) number: u32,
    /// The number of parts.
    pub(crate) of: u32,
}

impl TransferPart {
    /// The only part.
    pub(crate) const WHOLE: TransferPart = TransferPart { number: 1, of: 1 };

    /// The byte range of this part in a transfer of `length` bytes: whole pieces of `step` bytes,
    /// except for the last piece of the transfer. The parts are disjoint, in order, and cover
    /// everything.
    pub(crate) fn share(self, length: u64, step: u64) -> Range<u64> {
        let pieces = u128::from(length.div_ceil(step));
        let place = |number: u32| {
            let piece = pieces * u128::from(number) / u128::from(self.of);
            // Below `length` after the minimum, so it fits.
            (piece * u128::from(step)).min(u128::from(length)) as u64
        };
        place(self.number - 1)..place(self.number)
    }

    /// Whether the file with this key belongs to this part, in transfers of whole files.
    pub(crate) fn takes(self, key: &[u8]) -> bool {
        let hash = blake3::hash(key);
        let first: [u8; 4] = *hash.as_bytes().first_chunk().expect("a hash is longer");
        u32::from_le_bytes(first) % self.of == self.number - 1
    }
}

impl fmt::Display for TransferPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for TransferPart {
    type Err = String;

    fn from_str(text: &str) -> Result<TransferPart, String> {
        let numbers = text.split_once('/');
        let parsed =
            numbers.and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        let (number, of): (u32, u32) = parsed.ok_or_else(|| {
            format!("`{text}` is not a part: write I/N, such as 2/4 for the second of four")
        })?;
        if !(1..=TRANSFER_PARTS_MAX).contains(&of) {
            return Err(format!(
                "a transfer cannot have {of} parts: choose 1 to {TRANSFER_PARTS_MAX}"
            ));
        }
        if !(1..=of).contains(&number) {
            return Err(format!(
                "there is no part {number} of {of}: they are numbered from 1 to {of}"
            ));
        }
        Ok(TransferPart { number, of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_everything_once_in_whole_pieces() {
        for length in [0, 1, 9, 10, 11, 95, 100, 1 << 40, u64::MAX] {
            for of in [1, 2, 3, 7, 512] {
                let mut end = 0;
                for number in 1..=of {
                    let share = TransferPart { number, of }.share(length, 10);
                    assert_eq!(share.start, end, "{length} bytes, part {number} of {of}");
                    assert!(share.start.is_multiple_of(10) || share.start == length);
                    end = share.end;
                }
                assert_eq!(end, length);
            }
        }
    }

    #[test]
    fn parts_are_parsed_and_malformed_ones_refused() {
        assert_eq!("2/4".parse(), Ok(TransferPart { number: 2, of: 4 }));
        for (text, word) in [
            ("0/4", "from 1 to 4"),
            ("5/4", "no part 5"),
            ("1/0", "0 parts"),
            ("1", "I/N"),
            ("x/2", "I/N"),
            ("1/513", "513"),
        ] {
            let error = text.parse::<TransferPart>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
