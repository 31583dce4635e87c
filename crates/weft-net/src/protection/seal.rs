//! Tags and encrypts frames as they leave.

use aegis::aegis128x4::Key;
use bytes::Bytes;
use weft_proto::CHECKSUMS_AT;

use super::keys::{Cover, DirectionKey, HEAD, SEGMENT};
use crate::buffers::{BufferPool, ReceiveBuffer as _};

/// Protects the frames of one direction, in the order in which they leave.
pub(crate) struct Sealer {
    key: DirectionKey,
    cover: Cover,
    /// Scratch memory for a segment whose bytes lie in several pieces.
    gathered: Vec<u8>,
    /// Memory of encrypted payloads until they are written.
    pool: BufferPool,
}

impl Sealer {
    pub(super) fn new(key: Key, cover: Cover, pool: BufferPool) -> Sealer {
        Sealer {
            key: DirectionKey::new(key),
            cover,
            gathered: Vec::new(),
            pool,
        }
    }

    /// Protects the next frame: appends its tag to `head` (header and body) and returns the tags of
    /// the payload.
    pub(crate) fn seal(&mut self, head: &mut Vec<u8>, payload: &mut Vec<Bytes>) -> Vec<u8> {
        let frame = self.key.next_frame();
        let tag = if self.cover == Cover::Encrypted {
            let (clear, rest) = head.split_at_mut(CHECKSUMS_AT);
            self.key.cipher(frame, HEAD).encrypt_in_place(rest, clear)
        } else {
            self.key.cipher(frame, HEAD).encrypt_in_place(&mut [], head)
        };
        head.extend_from_slice(&tag);
        match self.cover {
            _ if payload.is_empty() => Vec::new(),
            Cover::Heads => Vec::new(),
            Cover::All => self.tags(frame, payload),
            Cover::Encrypted => self.encrypt(frame, payload),
        }
    }

    fn tags(&mut self, frame: u64, payload: &[Bytes]) -> Vec<u8> {
        let (key, gathered) = (&self.key, &mut self.gathered);
        let mut tags = Vec::new();
        let mut number = HEAD;
        let mut tag = |segment: &[u8]| {
            number += 1;
            let cipher = key.cipher(frame, number);
            tags.extend_from_slice(&cipher.encrypt_in_place(&mut [], segment));
        };
        gathered.clear();
        for (i, part) in payload.iter().enumerate() {
            let last = i + 1 == payload.len();
            let mut rest = &part[..];
            while !rest.is_empty() {
                let taken = rest.len().min(SEGMENT - gathered.len());
                let (now, later) = rest.split_at(taken);
                rest = later;
                if gathered.is_empty() && (taken == SEGMENT || last) {
                    tag(now);
                    continue;
                }
                gathered.extend_from_slice(now);
                if gathered.len() == SEGMENT {
                    tag(gathered);
                    gathered.clear();
                }
            }
        }
        if !gathered.is_empty() {
            tag(gathered);
        }
        tags
    }

    /// Copies and encrypts a payload segment by segment, each while it is in the processor's cache.
    fn encrypt(&mut self, frame: u64, payload: &mut Vec<Bytes>) -> Vec<u8> {
        let length = payload.iter().map(Bytes::len).sum();
        let mut buffer = self.pool.take(length);
        let mut tags = Vec::new();
        let mut parts = payload.drain(..);
        let mut part = Bytes::new();
        for (number, segment) in (HEAD + 1..).zip(buffer.bytes_mut().chunks_mut(SEGMENT)) {
            let mut filled = 0;
            while filled < segment.len() {
                if part.is_empty() {
                    part = parts.next().unwrap_or_default();
                    continue;
                }
                let taken = part.len().min(segment.len() - filled);
                segment[filled..filled + taken].copy_from_slice(&part.split_to(taken));
                filled += taken;
            }
            let cipher = self.key.cipher(frame, number);
            tags.extend_from_slice(&cipher.encrypt_in_place(segment, &[]));
        }
        drop(parts);
        payload.push(Box::new(buffer).freeze());
        tags
    }
}
