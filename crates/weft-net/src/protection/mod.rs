//! Tags and encryption of the frames after a handshake (`docs/design/0026-wire-security.md`,
//! `docs/protocol.md`).
//!
//! Each direction has a separate key, derived from the volume's key and the whole handshake. Frame
//! `n` of a direction has a tag over header and body, and one over each segment (64 KiB) of its
//! payload. Each side counts frames for itself, and the count is part of the tag: a frame that is
//! repeated, left out or reordered does not match.
//!
//! Shape: AEGIS-128X4 (RFC 10032), whose tag alone costs 19 ms of a processor per GiB, as much as a
//! checksum, and whose encryption costs 24; the tag of AES-GCM costs 50, BLAKE3 keyed 165
//! (`examples/tags.rs`). A payload is split into segments because it lies in many pieces and the
//! library takes contiguous input: at most one segment is gathered at a time.
//!
//! Invariants:
//! 1. No nonce is used twice under a key: it consists of the frame's number and the segment's, and
//!    both only grow.
//! 2. Frames are numbered where they leave and where they arrive, so numbers follow the order on
//!    the stream.
//! 3. No part of a frame is delivered, and no memory allocated for its payload, before the tag of
//!    its head was checked; no byte of its payload before the tags of all segments were.

mod keys;
mod open;
mod seal;

use aegis::aegis128x4::Key;
use weft_proto::session::Wire;

use crate::buffers::BufferPool;
use crate::identity::VolumeKey;

pub(crate) use keys::TAG_BYTES;
pub(crate) use open::Opener;
pub(crate) use seal::Sealer;

use keys::Cover;

/// The protection of a connection's frames, which both sides derive from the same bytes.
pub(crate) struct Protection {
    cover: Cover,
    to_server: Key,
    to_client: Key,
}

impl Protection {
    /// The protection of a connection whose handshake began with these bodies; `None` where `wire`
    /// is plain.
    pub(crate) fn new(
        key: &VolumeKey,
        (hello, challenge): (&[u8], &[u8]),
        wire: Wire,
        local: bool,
    ) -> Option<Protection> {
        let cover = match (wire, local) {
            (Wire::Plain, _) => return None,
            (_, true) => Cover::Heads,
            (Wire::Mac, false) => Cover::All,
            (Wire::Encrypted, false) => Cover::Encrypted,
        };
        let key = |label| {
            let mut half = Key::default();
            let hash = key.hash_transcript(label, hello, challenge);
            half.copy_from_slice(&hash[..size_of::<Key>()]);
            half
        };
        Some(Protection {
            cover,
            to_server: key("weft frames to server"),
            to_client: key("weft frames to client"),
        })
    }

    /// The client's sealer and opener; encrypted payloads lie in buffers of `pool` until they are
    /// written.
    pub(crate) fn client_side(self, pool: BufferPool) -> (Sealer, Opener) {
        let opener = Opener::new(self.to_client, self.cover).with_plain_failure();
        (Sealer::new(self.to_server, self.cover, pool), opener)
    }

    /// The server's sealer and opener.
    pub(crate) fn server_side(self, pool: BufferPool) -> (Sealer, Opener) {
        let opener = Opener::new(self.to_server, self.cover);
        (Sealer::new(self.to_client, self.cover, pool), opener)
    }
}

#[cfg(test)]
mod tests;
