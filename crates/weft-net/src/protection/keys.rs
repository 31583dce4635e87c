//! The key of a direction, and how frames are divided under it.

use aegis::aegis128x4::{Aegis128X4, Key, Nonce};

/// Bytes of a tag.
pub(crate) const TAG_BYTES: usize = 16;
/// Payload under one tag; the last one covers the rest.
pub(super) const SEGMENT: usize = 64 << 10;
/// The number of a frame's head among the parts that have tags; segments follow.
pub(super) const HEAD: u32 = 0;

/// Which parts of a frame are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// Header and body have a tag, which covers the checksum of the payload. For local sockets,
    /// where only the kernel is between the peers.
    Heads,
    /// The payload has tags, too.
    All,
    /// Everything has tags, and everything but kind, flags, request id and lengths is encrypted.
    Encrypted,
}

/// The key of one direction and the number of frames it has protected.
pub(super) struct DirectionKey {
    key: Key,
    frames: u64,
}

impl DirectionKey {
    pub(super) fn new(key: Key) -> DirectionKey {
        DirectionKey { key, frames: 0 }
    }

    /// Whether no frame was numbered yet.
    pub(super) fn is_unused(&self) -> bool {
        self.frames == 0
    }

    /// Numbers the next frame.
    pub(super) fn next_frame(&mut self) -> u64 {
        let frame = self.frames;
        self.frames += 1;
        frame
    }

    /// The cipher of a part of a frame: its head or a segment.
    pub(super) fn cipher(&self, frame: u64, part: u32) -> Aegis128X4<TAG_BYTES> {
        let mut nonce = Nonce::default();
        nonce[..8].copy_from_slice(&frame.to_le_bytes());
        nonce[8..12].copy_from_slice(&part.to_le_bytes());
        Aegis128X4::new(&self.key, &nonce)
    }
}
