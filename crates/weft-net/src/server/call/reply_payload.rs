//! The payload of a reply, and how it is split into frames.

use bytes::Bytes;
use weft_proto::limits::PAYLOAD_MAX;

/// Payload of a reply.
#[derive(Clone, Debug, Default)]
pub struct ReplyPayload {
    /// The bytes, one piece after another.
    pub parts: Vec<Bytes>,
    /// Their CRC-32C where it is known from when they were stored, so that the client notices any
    /// change since then.
    pub sum: Option<u32>,
}

impl From<Vec<Bytes>> for ReplyPayload {
    fn from(parts: Vec<Bytes>) -> ReplyPayload {
        ReplyPayload { parts, sum: None }
    }
}

impl ReplyPayload {
    /// The number of bytes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    /// Concatenates several.
    pub fn joined(payloads: impl IntoIterator<Item = ReplyPayload>) -> ReplyPayload {
        let (mut parts, mut sum) = (Vec::new(), Some(0));
        for payload in payloads {
            let length = payload.bytes() as usize;
            let both = sum.zip(payload.sum);
            sum = both.map(|(first, second)| weft_sum::joined(first, second, length));
            parts.extend(payload.parts);
        }
        ReplyPayload { parts, sum }
    }
}

impl ReplyPayload {
    /// Leaves what one frame can carry and returns the rest, if there is any.
    ///
    /// The checksum of the first part is computed once and used both for its frame and to derive
    /// the checksum of the rest: bytes that change meanwhile match neither.
    pub(super) fn split_frame(&mut self) -> Option<ReplyPayload> {
        let parts = split(&mut self.parts)?;
        let first = self.sum.map(|_| sum_of(&self.parts));
        let sums = self.sum.zip(first);
        let sum = sums.map(|(all, first)| sum_of_rest(first, all, &parts));
        self.sum = first;
        Some(ReplyPayload { parts, sum })
    }
}

fn sum_of(parts: &[Bytes]) -> u32 {
    let join = |sum, part: &Bytes| weft_sum::joined(sum, weft_sum::of(part), part.len());
    parts.iter().fold(0, join)
}

/// The checksum that the rest had when the one of `all` was computed, derived from those of `all`
/// and of the `first` part.
fn sum_of_rest(first: u32, all: u32, rest: &[Bytes]) -> u32 {
    let length = rest.iter().map(Bytes::len).sum();
    weft_sum::joined(first, 0, length) ^ all
}

/// Leaves in `payload` what one frame can carry and returns the rest, if there is any.
fn split(payload: &mut Vec<Bytes>) -> Option<Vec<Bytes>> {
    let mut space = PAYLOAD_MAX as usize;
    let at = payload.iter().position(|part| {
        let fits = part.len() <= space;
        space -= part.len().min(space);
        !fits
    })?;
    let before: usize = payload[..at].iter().map(Bytes::len).sum();
    let mut rest = payload.split_off(at);
    let fitting = rest[0].split_to(PAYLOAD_MAX as usize - before);
    if !fitting.is_empty() {
        payload.push(fitting);
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_the_rest_is_derived_from_the_whole_and_the_first() {
        let (first, rest) = (weft_sum::of(b"we"), [Bytes::from_static(b"ft")]);
        let sum = sum_of_rest(first, weft_sum::of(b"weft"), &rest);
        assert_eq!(sum, weft_sum::of(b"ft"));
        assert_ne!(sum_of_rest(first, weft_sum::of(b"wift"), &rest), sum);
    }

    #[test]
    fn payload_is_split_at_the_frame_limit() {
        let max = PAYLOAD_MAX as usize;
        let parts = |sizes: &[usize]| -> Vec<Bytes> {
            sizes.iter().map(|n| Bytes::from(vec![0; *n])).collect()
        };
        let sizes = |parts: &[Bytes]| parts.iter().map(Bytes::len).collect::<Vec<_>>();
        let mut fits = parts(&[10, max - 10]);
        assert!(split(&mut fits).is_none());
        let mut long = parts(&[10, max, 5]);
        let rest = split(&mut long).unwrap();
        assert_eq!(sizes(&long), [10, max - 10]);
        assert_eq!(sizes(&rest), [10, 5]);
        let mut edge = parts(&[max, 1]);
        let rest = split(&mut edge).unwrap();
        assert_eq!((sizes(&edge), sizes(&rest)), (vec![max], vec![1]));
    }
}
