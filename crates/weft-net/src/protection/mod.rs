//! Tags and encryption of the frames after a handshake (`docs/design/0026-wire-security.md`,
//! `docs/protocol.md`).
//!
//! Each direction has a key of its own, derived from the volume's key and everything that the
//! handshake said. Frame `n` of a direction has a tag over header and body, and one over each
//! [`SEGMENT`] of its payload. Each side counts frames for itself, and the count is part of the
//! tag: what is repeated, left out or in another order does not fit.
//!
//! Shape: AEGIS-128X4 (RFC 10032), whose tag alone costs 19 ms of a processor per GiB, as much as a
//! checksum, and whose encryption costs 24; the tag of AES-GCM costs 50, BLAKE3 keyed 165
//! (`examples/tags.rs`). A payload is cut into segments because it lies in many pieces and the
//! library takes its input in one: at most one segment is copied together at a time.
//!
//! Invariants:
//! 1. No nonce is used twice under a key: it is made of the frame's number and the part's, and both
//!    only grow.
//! 2. A frame gets its number where it leaves and where it arrives, so numbers follow the order on
//!    the stream.
//! 3. Nothing of a frame is delivered, and no memory taken for its payload, before the tag of its
//!    head was checked; nothing of its payload before those of all segments were.

mod open;
mod seal;

use aegis::aegis128x4::{Aegis128X4, Key, Nonce};
use thiserror::Error;
use weft_proto::session::Wire;

use crate::handshake::{VolumeKey, keyed_over};
use crate::pool::BufferPool;

pub(crate) use open::Opener;
pub(crate) use seal::Sealer;

/// Bytes of a tag.
pub(crate) const TAG_BYTES: usize = 16;
/// Payload under one tag; the last one covers the rest.
const SEGMENT: usize = 64 << 10;
/// The part of a frame that is its head; segments follow.
const HEAD: u32 = 0;

/// What of a frame is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cover {
    /// Header and body have a tag: of the payload it covers the checksum. For local sockets, where
    /// only the kernel stands between the peers.
    Heads,
    /// The payload has tags, too.
    All,
    /// Everything has tags, and all but kind, flags, number and lengths is encrypted.
    Encrypted,
}

/// The protection of a connection's frames, which both sides derive from the same bytes.
pub(crate) struct Protection {
    cover: Cover,
    to_server: Key,
    to_client: Key,
}

/// A frame that does not fit its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "frame {frame} after the handshake does not fit its tag: it was changed, injected, repeated, left out or reordered on the \
     way from the peer"
)]
pub(crate) struct Tampered {
    frame: u64,
}

impl Protection {
    /// That of a connection whose handshake began with these bodies; none where `wire` is plain.
    pub(crate) fn of(
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
            let mut cut = Key::default();
            cut.copy_from_slice(&keyed_over(key, label, hello, challenge)[..size_of::<Key>()]);
            cut
        };
        Some(Protection {
            cover,
            to_server: key("weft frames to server"),
            to_client: key("weft frames to client"),
        })
    }

    /// What the client sends with, and receives with; encrypted payloads lie in buffers of `pool`
    /// until they were written.
    pub(crate) fn of_client(self, pool: BufferPool) -> (Sealer, Opener) {
        let opener = Opener::new(self.to_client, self.cover).where_the_first_may_fail();
        (Sealer::new(self.to_server, self.cover, pool), opener)
    }

    /// What the server sends with, and receives with.
    pub(crate) fn of_server(self, pool: BufferPool) -> (Sealer, Opener) {
        let opener = Opener::new(self.to_server, self.cover);
        (Sealer::new(self.to_client, self.cover, pool), opener)
    }
}

/// The key of one direction, and how many frames it has had.
struct Keys {
    key: Key,
    frames: u64,
}

impl Keys {
    fn new(key: Key) -> Keys {
        Keys { key, frames: 0 }
    }

    /// The number of the next frame.
    fn next_frame(&mut self) -> u64 {
        let frame = self.frames;
        self.frames += 1;
        frame
    }

    fn cipher(&self, frame: u64, part: u32) -> Aegis128X4<TAG_BYTES> {
        let mut nonce = Nonce::default();
        nonce[..8].copy_from_slice(&frame.to_le_bytes());
        nonce[8..12].copy_from_slice(&part.to_le_bytes());
        Aegis128X4::new(&self.key, &nonce)
    }
}

#[cfg(test)]
mod tests;
