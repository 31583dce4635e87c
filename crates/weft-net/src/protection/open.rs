//! Checks and decrypts frames as they arrive.

use aegis::aegis128x4::Key;
use bytes::BytesMut;
use weft_proto::{CHECKSUMS_AT, Flags};

use super::keys::{Cover, DirectionKey, HEAD, SEGMENT, TAG_BYTES};
use crate::error::Tampered;

/// Checks the frames of one direction, in the order in which they arrive.
pub(crate) struct Opener {
    key: DirectionKey,
    cover: Cover,
    /// The first frame may be a failure without a tag: a server that refuses a proof shares no
    /// secret with its client.
    plain_failure: bool,
    /// The number of the frame whose head was checked last.
    frame: u64,
}

impl Opener {
    pub(super) fn new(key: Key, cover: Cover) -> Opener {
        Opener {
            key: DirectionKey::new(key),
            cover,
            plain_failure: false,
            frame: 0,
        }
    }

    /// Accepts a failure without a tag as the first frame.
    pub(super) fn with_plain_failure(self) -> Opener {
        Opener {
            plain_failure: true,
            ..self
        }
    }

    /// Whether the next frame, with these flags, has tags.
    pub(crate) fn covers(&self, flags: Flags) -> bool {
        !(self.plain_failure && self.key.is_unused() && flags.has(Flags::FAILED))
    }

    /// Bytes of the tags that follow a payload of this length.
    pub(crate) fn payload_tags(&self, length: usize) -> usize {
        match self.cover {
            Cover::Heads => 0,
            Cover::All | Cover::Encrypted => length.div_ceil(SEGMENT) * TAG_BYTES,
        }
    }

    /// Checks the head of the next frame (header, body and tag), removes the tag and decrypts the
    /// rest.
    pub(crate) fn open_head(&mut self, head: &mut BytesMut) -> Result<(), Tampered> {
        self.frame = self.key.next_frame();
        let tag = head.split_off(head.len() - TAG_BYTES);
        if self.cover == Cover::Encrypted {
            let (clear, rest) = head.split_at_mut(CHECKSUMS_AT);
            self.open(HEAD, clear, rest, &tag)
        } else {
            self.open(HEAD, head, &mut [], &tag)
        }
    }

    /// Checks and decrypts the payload of the frame whose head was checked last.
    pub(crate) fn open_payload(&self, payload: &mut [u8], tags: &[u8]) -> Result<(), Tampered> {
        if self.cover == Cover::Heads {
            return Ok(());
        }
        let segments = payload.chunks_mut(SEGMENT).zip(tags.chunks(TAG_BYTES));
        for (number, (segment, tag)) in (HEAD + 1..).zip(segments) {
            if self.cover == Cover::Encrypted {
                self.open(number, &[], segment, tag)?;
            } else {
                self.open(number, segment, &mut [], tag)?;
            }
        }
        Ok(())
    }

    /// Decrypts `bytes`, which may be empty, under a tag that also covers `clear`.
    fn open(&self, part: u32, clear: &[u8], bytes: &mut [u8], tag: &[u8]) -> Result<(), Tampered> {
        let tampered = Tampered { frame: self.frame };
        let tag = tag.try_into().map_err(|_| tampered)?;
        let cipher = self.key.cipher(self.frame, part);
        cipher
            .decrypt_in_place(bytes, tag, clear)
            .map_err(|_| tampered)
    }
}
