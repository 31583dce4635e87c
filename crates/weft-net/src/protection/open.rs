//! Frames on their way in.

use aegis::aegis128x4::Key;
use bytes::BytesMut;
use weft_proto::{CHECKSUMS_AT, Flags};

use super::{Cover, HEAD, Keys, SEGMENT, TAG_BYTES, Tampered};

/// Checks the frames of one direction, in the order in which they arrive.
pub(crate) struct Opener {
    keys: Keys,
    cover: Cover,
    /// The first frame may be a failure instead, which has no tag: a server that refuses a proof
    /// has no secret in common with its client.
    first_may_fail: bool,
    /// The frame whose head was checked last.
    frame: u64,
}

impl Opener {
    pub(super) fn new(key: Key, cover: Cover) -> Opener {
        Opener {
            keys: Keys::new(key),
            cover,
            first_may_fail: false,
            frame: 0,
        }
    }

    pub(super) fn where_the_first_may_fail(self) -> Opener {
        Opener {
            first_may_fail: true,
            ..self
        }
    }

    /// Whether the next frame, with these flags, has tags.
    pub(crate) fn covers(&self, flags: Flags) -> bool {
        !(self.first_may_fail && self.keys.frames == 0 && flags.has(Flags::FAILED))
    }

    /// Bytes of the tags that follow a payload of this length.
    pub(crate) fn payload_tags(&self, length: usize) -> usize {
        match self.cover {
            Cover::Heads => 0,
            Cover::All | Cover::Encrypted => length.div_ceil(SEGMENT) * TAG_BYTES,
        }
    }

    /// Checks the next frame's head, which is header, body and tag; without the tag, and decrypted,
    /// on return.
    pub(crate) fn open_head(&mut self, head: &mut BytesMut) -> Result<(), Tampered> {
        self.frame = self.keys.next_frame();
        let tag = head.split_off(head.len() - TAG_BYTES);
        if self.cover == Cover::Encrypted {
            let (clear, rest) = head.split_at_mut(CHECKSUMS_AT);
            self.open(HEAD, clear, rest, &tag)
        } else {
            self.open(HEAD, head, &mut [], &tag)
        }
    }

    /// Checks the payload of the frame whose head was last, and decrypts it.
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

    /// Decrypts `bytes`, if there are any, under a tag that covers `clear`, too.
    fn open(&self, part: u32, clear: &[u8], bytes: &mut [u8], tag: &[u8]) -> Result<(), Tampered> {
        let tampered = Tampered { frame: self.frame };
        let tag = tag.try_into().map_err(|_| tampered)?;
        let cipher = self.keys.cipher(self.frame, part);
        cipher
            .decrypt_in_place(bytes, tag, clear)
            .map_err(|_| tampered)
    }
}
