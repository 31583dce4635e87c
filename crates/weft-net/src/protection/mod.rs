//! Tags and encryption of the frames after a handshake (`docs/design/0026-wire-security.md`, `docs/protocol.md`).
//!
//! Each direction has a secret of its own, derived from the volume's key and everything that the handshake said. Frame
//! `n` of a direction has a tag over header and body, and one over each [`SEGMENT`] of its payload. Each side counts
//! frames for itself, and the count is part of the tag: what is repeated, left out or in another order does not fit.
//!
//! Shape: AES-256-GCM of `aws-lc-rs`, whose tag alone costs 48 ms of a processor per GiB and whose encryption costs 100 to 130;
//! BLAKE3 keyed costs 165 (`examples/tags.rs`). The tag of a payload is cut into segments because the library takes its
//! input in one piece, and a payload lies in many: at most one segment is copied together at a time.
//!
//! Invariants:
//! 1. No nonce is used twice under a key: it is made of the frame's number and the part's, and both only grow.
//! 2. A frame gets its number where it leaves and where it arrives, so numbers follow the order on the stream.
//! 3. Nothing of a frame is delivered, and no memory taken for its payload, before the tag of its head was checked;
//!    nothing of its payload before those of all segments were.

mod open;
mod seal;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
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
/// Frames after which a direction's key is replaced, which keeps every key far below the bounds of AES-GCM.
const FRAMES_PER_KEY: u64 = 1 << 20;
/// The part of a frame that is its head; segments follow.
const HEAD: u32 = 0;

/// What of a frame is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cover {
    /// Header and body have a tag: of the payload it covers the checksum. For local sockets, where only the kernel
    /// stands between the peers.
    Heads,
    /// The payload has tags, too.
    All,
    /// Everything has tags, and all but kind, flags, number and lengths is encrypted.
    Encrypted,
}

/// The protection of a connection's frames, which both sides derive from the same bytes.
pub(crate) struct Protection {
    cover: Cover,
    to_server: [u8; 32],
    to_client: [u8; 32],
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
        Some(Protection {
            cover,
            to_server: keyed_over(key, "weft frames to server", hello, challenge),
            to_client: keyed_over(key, "weft frames to client", hello, challenge),
        })
    }

    /// What the client sends with, and receives with; encrypted payloads lie in buffers of `pool` until they were written.
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

/// The keys of one direction, one after another, and the frames that it has had.
struct Keys {
    key: LessSafeKey,
    secret: [u8; 32],
    frames: u64,
}

impl Keys {
    fn new(secret: [u8; 32]) -> Keys {
        Keys {
            key: key_of(&secret),
            secret,
            frames: 0,
        }
    }

    /// The number of the next frame, for which [`Keys::key`] is the key from now on.
    fn next_frame(&mut self) -> u64 {
        let frame = self.frames;
        if frame > 0 && frame.is_multiple_of(FRAMES_PER_KEY) {
            self.secret = *blake3::keyed_hash(&self.secret, b"weft next secret").as_bytes();
            self.key = key_of(&self.secret);
        }
        self.frames += 1;
        frame
    }

    /// The tag of bytes that travel as they are.
    fn tag(&self, frame: u64, part: u32, bytes: &[u8]) -> [u8; TAG_BYTES] {
        self.encrypt(frame, part, bytes, &mut [])
    }

    /// Encrypts `bytes` in place; the tag covers `clear`, too.
    fn encrypt(&self, frame: u64, part: u32, clear: &[u8], bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce(frame, part), Aad::from(clear), bytes);
        let Some(tag) = tag.ok().and_then(|tag| tag.as_ref().try_into().ok()) else {
            unreachable!(
                "a frame is far shorter than what the cipher takes, and its tag as long as all are"
            )
        };
        tag
    }
}

fn key_of(secret: &[u8; 32]) -> LessSafeKey {
    let key = blake3::keyed_hash(secret, b"weft frame key");
    let Ok(key) = UnboundKey::new(&AES_256_GCM, key.as_bytes()) else {
        unreachable!("the cipher takes keys of 32 bytes")
    };
    LessSafeKey::new(key)
}

fn nonce(frame: u64, part: u32) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..8].copy_from_slice(&frame.to_le_bytes());
    bytes[8..].copy_from_slice(&part.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests;
