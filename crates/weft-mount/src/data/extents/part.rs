//! What extents are made of.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::limits::COPIED_WRITE_MAX;

#[derive(Debug)]
pub(super) struct Part {
    pub(super) data: Data,
    pub(super) epoch: u64,
}

#[derive(Debug)]
pub(super) enum Data {
    Growing(BytesMut),
    Fixed(Bytes),
}

/// Neighbouring bytes.
#[derive(Clone, Debug)]
pub(in crate::data) struct Run {
    pub(in crate::data) offset: u64,
    pub(in crate::data) length: u64,
    pub(in crate::data) parts: Vec<Bytes>,
    pub(super) epoch: u64,
}

/// Runs that go to the servers together.
#[derive(Debug, Default)]
pub(in crate::data) struct Batch {
    /// Ascending, disjoint.
    pub(in crate::data) runs: Vec<Run>,
}

impl Data {
    pub(super) fn get(&self) -> &[u8] {
        match self {
            Data::Growing(bytes) => bytes,
            Data::Fixed(bytes) => bytes,
        }
    }

    pub(super) fn slice(&self, range: Range<usize>) -> Bytes {
        match self {
            Data::Growing(bytes) => Bytes::copy_from_slice(&bytes[range]),
            Data::Fixed(bytes) => bytes.slice(range),
        }
    }

    pub(super) fn split_off(&mut self, at: usize) -> Data {
        match self {
            Data::Growing(bytes) => Data::Growing(bytes.split_off(at)),
            Data::Fixed(bytes) => Data::Fixed(bytes.split_off(at)),
        }
    }

    pub(super) fn freeze(self) -> Bytes {
        match self {
            Data::Growing(bytes) => bytes.freeze(),
            Data::Fixed(bytes) => bytes,
        }
    }

    /// A rest of `whole` bytes; copied if it is little.
    pub(super) fn rest_of(self, whole: usize) -> Data {
        let rest = self.get();
        if rest.len() < COPIED_WRITE_MAX && rest.len() < whole / 4 {
            return Data::Fixed(Bytes::copy_from_slice(rest));
        }
        self
    }
}

impl Part {
    pub(super) fn len(&self) -> usize {
        self.data.get().len()
    }
}

impl Run {
    pub(super) fn end(&self) -> u64 {
        self.offset + self.length
    }
}

impl Batch {
    pub(in crate::data) fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.length).sum()
    }

    /// From its first byte to one past its last.
    pub(in crate::data) fn range(&self) -> Range<u64> {
        let start = self.runs.first().map_or(0, |run| run.offset);
        start..self.runs.last().map_or(start, Run::end)
    }
}
