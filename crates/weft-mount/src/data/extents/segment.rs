//! Segments of dirty bytes, and the runs and batches in which they are sent.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::limits::COPIED_WRITE_MAX;

/// Dirty bytes in one buffer.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) data: SegmentData,
    pub(super) epoch: u64,
}

/// Their buffer.
#[derive(Debug)]
pub(super) enum SegmentData {
    /// Small writes are appended to it.
    Growing(BytesMut),
    /// One large write, or part of one.
    Fixed(Bytes),
}

/// Adjacent bytes.
#[derive(Clone, Debug)]
pub(in crate::data) struct Run {
    pub(in crate::data) offset: u64,
    pub(in crate::data) length: u64,
    pub(in crate::data) buffers: Vec<Bytes>,
    pub(super) epoch: u64,
}

/// Runs that are sent together.
#[derive(Debug, Default)]
pub(in crate::data) struct Batch {
    /// Ascending, disjoint.
    pub(in crate::data) runs: Vec<Run>,
}

impl SegmentData {
    pub(super) fn get(&self) -> &[u8] {
        match self {
            SegmentData::Growing(bytes) => bytes,
            SegmentData::Fixed(bytes) => bytes,
        }
    }

    pub(super) fn slice(&self, range: Range<usize>) -> Bytes {
        match self {
            SegmentData::Growing(bytes) => Bytes::copy_from_slice(&bytes[range]),
            SegmentData::Fixed(bytes) => bytes.slice(range),
        }
    }

    pub(super) fn split_off(&mut self, at: usize) -> SegmentData {
        match self {
            SegmentData::Growing(bytes) => SegmentData::Growing(bytes.split_off(at)),
            SegmentData::Fixed(bytes) => SegmentData::Fixed(bytes.split_off(at)),
        }
    }

    pub(super) fn freeze(self) -> Bytes {
        match self {
            SegmentData::Growing(bytes) => bytes.freeze(),
            SegmentData::Fixed(bytes) => bytes,
        }
    }

    /// The remainder of a segment of `whole` bytes; copied if it is small.
    pub(super) fn rest_of(self, whole: usize) -> SegmentData {
        let rest = self.get();
        if rest.len() < COPIED_WRITE_MAX && rest.len() < whole / 4 {
            return SegmentData::Fixed(Bytes::copy_from_slice(rest));
        }
        self
    }
}

impl Segment {
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
