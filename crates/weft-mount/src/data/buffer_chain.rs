//! A byte range in several buffers, so that received buffers are passed on without a copy.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A sequence of bytes in several buffers. Cloning and splitting copy no bytes.
#[derive(Clone, Debug, Default)]
pub struct BufferChain {
    buffers: VecDeque<Bytes>,
    length: usize,
}

impl BufferChain {
    /// How many bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The buffers, in order; none is empty.
    pub fn buffers(&self) -> impl Iterator<Item = &Bytes> {
        self.buffers.iter()
    }

    /// All bytes in one buffer. Copies if there are several.
    pub fn into_bytes(mut self) -> Bytes {
        if self.buffers.len() <= 1 {
            return self.buffers.pop_front().unwrap_or_default();
        }
        let mut whole = BytesMut::with_capacity(self.length);
        for buffer in &self.buffers {
            whole.extend_from_slice(buffer);
        }
        whole.freeze()
    }

    pub(super) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.length += bytes.len();
            self.buffers.push_back(bytes);
        }
    }

    pub(super) fn push_zeros(&mut self, mut count: usize) {
        while count > 0 {
            let now = count.min(ZEROS.len());
            self.push(Bytes::from_static(&ZEROS[..now]));
            count -= now;
        }
    }

    pub(super) fn append(&mut self, mut other: BufferChain) {
        self.length += other.length;
        self.buffers.append(&mut other.buffers);
    }

    /// Splits off the first `count` bytes, or all if there are fewer.
    pub(super) fn split_to(&mut self, count: usize) -> BufferChain {
        let mut front = BufferChain::default();
        let mut missing = count.min(self.length);
        self.length -= missing;
        while let Some(buffer) = self.buffers.front_mut().filter(|_| missing > 0) {
            if buffer.len() > missing {
                front.push(buffer.split_to(missing));
                break;
            }
            missing -= buffer.len();
            front.push(buffer.clone());
            self.buffers.pop_front();
        }
        front
    }

    pub(super) fn truncate(&mut self, length: usize) {
        if length < self.length {
            *self = self.split_to(length);
        }
    }

    /// The range `start..start + length` with `pieces` (absolute offsets, ascending, disjoint) over
    /// zeros.
    pub(super) fn from_pieces(start: u64, length: usize, pieces: Vec<(u64, Bytes)>) -> BufferChain {
        let mut chain = BufferChain::default();
        for (at, bytes) in pieces {
            chain.push_zeros((at - start) as usize - chain.length);
            chain.push(bytes);
        }
        chain.push_zeros(length - chain.length);
        chain
    }

    /// Puts `pieces` (absolute offsets, ascending, disjoint, inside) over the bytes; the chain
    /// begins at `start`.
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
    fn pieces_overwrite_zeros_and_earlier_pieces() {
        let pieces = vec![
            (12, Bytes::from_static(b"abc")),
            (16, Bytes::from_static(b"d")),
        ];
        let mut chain = BufferChain::from_pieces(10, 9, pieces);
        assert_eq!(chain.clone().into_bytes(), &b"\0\0abc\0d\0\0"[..]);
        chain.overlay(
            10,
            vec![
                (10, Bytes::from_static(b"x")),
                (14, Bytes::from_static(b"yz")),
            ],
        );
        assert_eq!(chain.clone().into_bytes(), &b"x\0abyzd\0\0"[..]);
        assert_eq!(chain.split_to(3).into_bytes(), &b"x\0a"[..]);
        chain.truncate(4);
        assert_eq!(chain.into_bytes(), &b"byzd"[..]);
    }
}
