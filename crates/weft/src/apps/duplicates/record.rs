//! The records of a grid of blocks, and the list of files that they number.
//!
//! A record is 64 bytes: the BLAKE3 hash of the block's bytes (32), the file's number (8), the
//! block's offset in the file (8), the block's length (8), zeros (8); numbers are big-endian, so
//! that the order of the bytes is the order of hash, file and offset. docs/applications.md fixes
//! this format.

use anyhow::{Context, Result};

/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = 64;

/// One block of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRecord {
    pub(crate) hash: [u8; 32],
    pub(crate) file: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl BlockRecord {
    /// The record of a block with these bytes.
    pub(crate) fn of(block: &[u8], file: u64, offset: u64) -> BlockRecord {
        BlockRecord {
            hash: *blake3::hash(block).as_bytes(),
            file,
            offset,
            length: block.len() as u64,
        }
    }

    /// The record as bytes.
    pub(crate) fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..32].copy_from_slice(&self.hash);
        bytes[32..40].copy_from_slice(&self.file.to_be_bytes());
        bytes[40..48].copy_from_slice(&self.offset.to_be_bytes());
        bytes[48..56].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Decodes a record.
    pub(crate) fn decode(bytes: &[u8; RECORD_BYTES]) -> BlockRecord {
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(number)
        };
        let mut hash = [0; 32];
        hash.copy_from_slice(&bytes[..32]);
        BlockRecord {
            hash,
            file: number(32),
            offset: number(40),
            length: number(48),
        }
    }
}

/// A file of the tree: its path relative to the tree, and its size when it was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeFile {
    pub(crate) path: Vec<u8>,
    pub(crate) size: u64,
}

/// The bytes of the list of files: for each its size (8), the length of its path (4), its path. A
/// file's number is its place in the list, from 0.
pub(crate) fn encode_names(files: &[TreeFile]) -> Vec<u8> {
    let mut out = Vec::new();
    for file in files {
        out.extend(file.size.to_be_bytes());
        out.extend((file.path.len() as u32).to_be_bytes());
        out.extend(&file.path);
    }
    out
}

/// Decodes the list of files.
pub(crate) fn decode_names(mut bytes: &[u8]) -> Result<Vec<TreeFile>> {
    let mut files = Vec::new();
    while !bytes.is_empty() {
        let torn = "the list of files ends within an entry";
        let (size, rest) = bytes.split_first_chunk::<8>().context(torn)?;
        let (length, rest) = rest.split_first_chunk::<4>().context(torn)?;
        let length = u32::from_be_bytes(*length) as usize;
        let (path, rest) = rest.split_at_checked(length).context(torn)?;
        files.push(TreeFile {
            path: path.to_vec(),
            size: u64::from_be_bytes(*size),
        });
        bytes = rest;
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_record_are_at_their_documented_offsets() {
        let record = BlockRecord::of(b"block", 0x0102, 0x3000);
        let bytes = record.encode();
        assert_eq!(bytes[..32], *blake3::hash(b"block").as_bytes());
        assert_eq!(bytes[32..40], [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(bytes[40..48], [0, 0, 0, 0, 0, 0, 0x30, 0]);
        assert_eq!(
            bytes[48..],
            [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(BlockRecord::decode(&bytes), record);
    }

    #[test]
    fn names_round_trip_and_torn_lists_are_refused() {
        let files = vec![
            TreeFile {
                path: b"a/b".to_vec(),
                size: 7,
            },
            TreeFile {
                path: vec![0xFF, b'\n'],
                size: u64::MAX,
            },
        ];
        let bytes = encode_names(&files);
        assert_eq!(decode_names(&bytes).unwrap(), files);
        assert_eq!(decode_names(&[]).unwrap(), []);
        for end in 1..bytes.len() {
            let whole = end == 8 + 4 + 3;
            assert_eq!(
                decode_names(&bytes[..end]).is_ok(),
                whole,
                "truncated at {end}"
            );
        }
    }
}
