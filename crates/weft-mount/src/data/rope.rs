//! Bytes that follow each other, in parts.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A run of bytes whose parts lie anywhere in memory. Cheap to clone and to cut: nothing is copied.
#[derive(Clone, Debug, Default)]
pub struct Rope {
    parts: VecDeque<Bytes>,
    length: usize,
}

impl Rope {
    /// How many bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The parts, in order; none is empty.
    pub fn parts(&self) -> impl Iterator<Item = &Bytes> {
        self.parts.iter()
    }

    /// All of it in one piece. Copies if there is more than one part.
    pub fn into_bytes(mut self) -> Bytes {
        if self.parts.len() <= 1 {
            return self.parts.pop_front().unwrap_or_default();
        }
        let mut whole = BytesMut::with_capacity(self.length);
        for part in &self.parts {
            whole.extend_from_slice(part);
        }
        whole.freeze()
    }

    pub(super) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.length += bytes.len();
            self.parts.push_back(bytes);
        }
    }

    pub(super) fn push_zeros(&mut self, mut count: usize) {
        while count > 0 {
            let now = count.min(ZEROS.len());
            self.push(Bytes::from_static(&ZEROS[..now]));
            count -= now;
        }
    }

    pub(super) fn append(&mut self, mut other: Rope) {
        self.length += other.length;
        self.parts.append(&mut other.parts);
    }

    /// Takes the first `count` bytes off, or all if there are fewer.
    pub(super) fn split_to(&mut self, count: usize) -> Rope {
        let mut front = Rope::default();
        let mut missing = count.min(self.length);
        self.length -= missing;
        while let Some(part) = self.parts.front_mut().filter(|_| missing > 0) {
            if part.len() > missing {
                front.push(part.split_to(missing));
                break;
            }
            missing -= part.len();
            front.push(part.clone());
            self.parts.pop_front();
        }
        front
    }

    pub(super) fn truncate(&mut self, length: usize) {
        if length < self.length {
            *self = self.split_to(length);
        }
    }

    /// Covers `start..start + length` with `pieces` (absolute offsets, ascending, disjoint) over
    /// zeros.
    pub(super) fn from_pieces(start: u64, length: usize, pieces: Vec<(u64, Bytes)>) -> Rope {
        let mut rope = Rope::default();
        for (at, bytes) in pieces {
            rope.push_zeros((at - start) as usize - rope.length);
            rope.push(bytes);
        }
        rope.push_zeros(length - rope.length);
        rope
    }

    /// Replaces what `pieces` (absolute offsets, ascending, disjoint, inside) have; the rope begins
    /// at `start`.
    pub(super) fn overlay(&mut self, start: u64, pieces: Vec<(u64, Bytes)>) {
        if pieces.is_empty() {
            return;
        }
        let mut below = std::mem::take(self);
        for (at, bytes) in pieces {
            self.append(below.split_to((at - start) as usize - self.length));
            below.split_to(bytes.len());
            self.push(bytes);
        }
        self.append(below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_lie_over_zeros_and_over_each_other() {
        let pieces = vec![
            (12, Bytes::from_static(b"abc")),
            (16, Bytes::from_static(b"d")),
        ];
        let mut rope = Rope::from_pieces(10, 9, pieces);
        assert_eq!(rope.clone().into_bytes(), &b"\0\0abc\0d\0\0"[..]);
        rope.overlay(
            10,
            vec![
                (10, Bytes::from_static(b"x")),
                (14, Bytes::from_static(b"yz")),
            ],
        );
        assert_eq!(rope.clone().into_bytes(), &b"x\0abyzd\0\0"[..]);
        assert_eq!(rope.split_to(3).into_bytes(), &b"x\0a"[..]);
        rope.truncate(4);
        assert_eq!(rope.into_bytes(), &b"byzd"[..]);
    }
}
