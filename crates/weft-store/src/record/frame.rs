//! Frames of the log: a header, a body of items, and an end mark.

use bytes::BufMut;

use super::{Fields, checksum};

/// Largest body of a frame.
pub(crate) const BODY_MAX: usize = 64 << 20;
/// A frame's body is closed once it has this size.
pub(crate) const BODY_SOFT: usize = BODY_MAX / 4;
/// Bytes of a [`FrameRecord`].
pub(crate) const FRAME_BYTES: usize = 32;
/// The first bytes of every frame.
pub(crate) const MAGIC: [u8; 3] = *b"WfL";
/// Frames end with [`END`] from this version on.
pub(crate) const FRAME_VERSION: u8 = 2;
/// The last byte of a frame: not zero, so that a frame that lacks its end is not taken for a
/// complete one.
pub(crate) const END: u8 = 0xe5;

/// The header of one frame of the log; the body follows, then zeros and [`END`] up to a multiple of
/// 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameRecord {
    /// Bytes of the body without the padding.
    pub(crate) body: u32,
    /// Number of the frame: one more than its predecessor's, over all segments.
    pub(crate) sequence: u64,
    /// CRC-32C of the body.
    pub(crate) crc: u32,
    /// The frame says that everything up to a sequence is on stable storage.
    pub(crate) synced: bool,
    /// It ends with [`END`].
    pub(crate) ends: bool,
}

/// What was found where a frame header was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// Fewer bytes than a header.
    Short,
    /// Not a header, or a damaged header.
    Bad,
    /// A header of a version this program does not know.
    Version(u8),
    /// A header with the right checksum.
    Good(FrameRecord),
}

impl FrameRecord {
    /// Header, body and padding.
    pub(crate) fn append(out: &mut Vec<u8>, sequence: u64, synced: bool, body: &[u8]) {
        out.extend_from_slice(&Self::head(body.len(), checksum(body), sequence, synced));
        out.extend_from_slice(body);
        Self::end(out, body.len());
    }

    /// The header of a frame whose body has this length and checksum.
    pub(crate) fn head(body: usize, sum: u32, sequence: u64, synced: bool) -> [u8; FRAME_BYTES] {
        let mut header = [0; FRAME_BYTES];
        let (front, crc) = header.split_at_mut(FRAME_BYTES - 4);
        let mut fields = &mut *front;
        fields.put_slice(&MAGIC);
        fields.put_u8(FRAME_VERSION);
        fields.put_u32_le(u32::try_from(body).expect("bodies are at most 64 MiB"));
        fields.put_u64_le(sequence);
        fields.put_u32_le(sum);
        fields.put_u8(u8::from(synced));
        crc.copy_from_slice(&checksum(front).to_le_bytes());
        header
    }

    /// Bytes that follow a body of this length.
    pub(crate) fn end(out: &mut Vec<u8>, body: usize) {
        out.put_bytes(0, padding(body, true) - 1);
        out.put_u8(END);
    }

    /// Reads the header at the front of `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Header {
        let Some(bytes) = bytes.get(..FRAME_BYTES) else {
            return Header::Short;
        };
        let (front, crc) = bytes.split_at(FRAME_BYTES - 4);
        if front[..3] != MAGIC || crc != checksum(front).to_le_bytes() {
            return Header::Bad;
        }
        let ends = match front[3] {
            FRAME_VERSION => true,
            1 => false,
            other => return Header::Version(other),
        };
        let mut fields = Fields(&front[4..]);
        let mut read = || {
            Some(Self {
                body: fields.u32()?,
                sequence: fields.u64()?,
                crc: fields.u32()?,
                synced: fields.flag()?,
                ends,
            })
        };
        let frame = read();
        let rest_is_zero = fields.0.iter().all(|b| *b == 0);
        match frame {
            Some(frame) if frame.body as usize <= BODY_MAX && rest_is_zero => Header::Good(frame),
            _ => Header::Bad,
        }
    }

    /// Bytes from this frame's header to the next one's.
    pub(crate) fn stride(&self) -> u64 {
        let body = self.body as usize;
        (FRAME_BYTES + body + padding(body, self.ends)) as u64
    }

    /// Whether these are the bytes that follow its body.
    pub(crate) fn is_end(&self, bytes: &[u8]) -> bool {
        let zeros = match bytes.split_last() {
            Some((last, zeros)) if self.ends => {
                if *last != END {
                    return false;
                }
                zeros
            }
            _ => bytes,
        };
        zeros.iter().all(|b| *b == 0)
    }
}

/// Bytes after a body, with or without [`END`].
fn padding(body: usize, ends: bool) -> usize {
    (body + usize::from(ends)).next_multiple_of(8) - body
}
