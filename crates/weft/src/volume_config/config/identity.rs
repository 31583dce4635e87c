//! The volume's id, and how ids are written.

use weft_net::VolumeKey;

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut out, b| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{b:02x}");
        out
    })
}

/// The volume's id: it identifies the key without revealing it.
pub(crate) fn volume_id(key: &VolumeKey) -> [u8; 16] {
    let hash = blake3::keyed_hash(&key.0, b"weft volume id");
    let mut id = [0; 16];
    id.copy_from_slice(&hash.as_bytes()[..16]);
    id
}
