//! Memory that a read fills, and a copy for a history.

use std::ops::Range;

use bytes::Bytes;
use weft_layout::Request;

use super::span::Sink;

/// Memory that a read fills, and a copy of what it fills it with.
pub(super) struct Copying<S> {
    inner: S,
    copy: Vec<u8>,
}

impl<S: Sink> Copying<S> {
    pub(super) fn new(inner: S, request: &Request) -> Copying<S> {
        Copying {
            inner,
            copy: vec![0; request.memory() as usize],
        }
    }

    pub(super) fn into_copy(self) -> Vec<u8> {
        self.copy
    }
}

impl<S: Sink> Sink for Copying<S> {
    fn put(&mut self, at: usize, bytes: &Bytes, range: Range<usize>) {
        self.copy[at..at + range.len()].copy_from_slice(&bytes[range.clone()]);
        self.inner.put(at, bytes, range);
    }
}
