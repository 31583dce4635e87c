//! A pointer as the store keeps it: a head, and one entry for each taker, so that a take writes two
//! short pieces whatever the number of takers. `docs/format.md` describes the bytes.

use weft_proto::Failure;

use crate::failure;

/// Bytes of the head, and of each entry.
pub(super) const ENTRY_BYTES: usize = 32;

const MAGIC: [u8; 4] = *b"WPTR";
const VERSION: u32 = 1;

/// The last take of a taker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Take {
    pub(super) taker: u64,
    pub(super) sequence: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl Take {
    pub(super) fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut out = [0; ENTRY_BYTES];
        let fields = [self.taker, self.sequence, self.offset, self.bytes];
        for (place, field) in out.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        out
    }

    fn decode(entry: &[u8]) -> Take {
        Take {
            taker: number(entry, 0),
            sequence: number(entry, 8),
            offset: number(entry, 16),
            bytes: number(entry, 24),
        }
    }
}

/// The head of a pointer at this offset.
pub(super) fn head(offset: u64) -> [u8; ENTRY_BYTES] {
    let mut out = [0; ENTRY_BYTES];
    out[..4].copy_from_slice(&MAGIC);
    out[4..8].copy_from_slice(&VERSION.to_le_bytes());
    out[8..16].copy_from_slice(&offset.to_le_bytes());
    out
}

/// The offset and the takes of a pointer, one for each entry.
///
/// # Errors
/// [`weft_proto::Code::Corrupt`] if the bytes are not a pointer of this version.
pub(super) fn decode(bytes: &[u8]) -> Result<(u64, Vec<Take>), Failure> {
    let Some((head, entries)) = bytes.split_at_checked(ENTRY_BYTES) else {
        return Err(failure::corrupt("a shared pointer has no head"));
    };
    let version = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    if head[..4] != MAGIC || version != VERSION {
        return Err(failure::corrupt(
            "a shared pointer is damaged, or of a newer version of Weft",
        ));
    }
    let takes = entries.chunks_exact(ENTRY_BYTES).map(Take::decode);
    Ok((number(head, 8), takes.collect()))
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_keeps_its_bytes() {
        let take = Take {
            taker: 0x0102_0304_0506_0708,
            sequence: 9,
            offset: 1 << 40,
            bytes: 4096,
        };
        let bytes = [head(77), take.encode()].concat();
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let hex = hex.concat();
        assert_eq!(
            hex,
            format!(
                "57505452010000004d00000000000000{}\
                 08070605040302010900000000000000\
                 00000000000100000010000000000000",
                "00".repeat(16)
            )
        );
        assert_eq!(decode(&bytes), Ok((77, vec![take])));
    }

    #[test]
    fn damaged_pointers_are_refused() {
        let good = head(1);
        assert!(decode(&good[..31]).is_err());
        for at in 0..8 {
            let mut bad = good;
            bad[at] ^= 1;
            assert!(decode(&bad).is_err(), "byte {at}");
        }
    }
}
