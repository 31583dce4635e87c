//! Fetched bytes of a range, and ranges that are fetched ahead of the reader.

use std::ops::Range;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::AbortHandle;

use crate::data::buffer_chain::BufferChain;

/// The bytes of a range.
#[derive(Clone, Default)]
pub(in crate::data) struct FetchedRange {
    /// All of the range, zeros where nothing was found.
    bytes: BufferChain,
    /// One past the last byte that was found.
    found: u64,
    /// The file's size, if the read reported it.
    size: Option<u64>,
}

impl FetchedRange {
    /// A range with these pieces (absolute offsets, ascending, disjoint).
    pub(in crate::data) fn new(
        range: &Range<u64>,
        pieces: Vec<(u64, Bytes)>,
        size: Option<u64>,
    ) -> FetchedRange {
        let found = pieces
            .last()
            .map_or(0, |(at, bytes)| at + bytes.len() as u64);
        let length = (range.end - range.start) as usize;
        FetchedRange {
            bytes: BufferChain::from_pieces(range.start, length, pieces),
            found,
            size,
        }
    }

    pub(in crate::data) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Appends the range that follows.
    pub(in crate::data) fn append(&mut self, next: FetchedRange) {
        self.bytes.append(next.bytes);
        self.found = self.found.max(next.found);
        self.size = next.size;
    }

    /// Overwrites bytes with dirty pieces; the range begins at file offset `start`.
    pub(in crate::data) fn overlay(&mut self, start: u64, pieces: Vec<(u64, Bytes)>) {
        if let Some((at, bytes)) = pieces.last() {
            self.found = self.found.max(at + bytes.len() as u64);
        }
        self.bytes.overlay(start, pieces);
    }

    pub(in crate::data) fn found(&self) -> u64 {
        self.found
    }

    pub(in crate::data) fn size(&self) -> Option<u64> {
        self.size
    }

    pub(in crate::data) fn into_bytes(self) -> BufferChain {
        self.bytes
    }
}

/// A range that is read ahead. Dropping the last reference aborts the fetch.
pub(in crate::data) struct PrefetchedRange {
    range: Range<u64>,
    stream: u64,
    fetched: watch::Receiver<Option<FetchedRange>>,
    task: AbortHandle,
    _budget: OwnedSemaphorePermit,
}

impl Drop for PrefetchedRange {
    fn drop(&mut self) {
        // No reader waits for it any more: the servers need not continue.
        self.task.abort();
    }
}

impl PrefetchedRange {
    pub(in crate::data) fn new(
        range: Range<u64>,
        stream: u64,
        fetched: watch::Receiver<Option<FetchedRange>>,
        task: AbortHandle,
        budget: OwnedSemaphorePermit,
    ) -> PrefetchedRange {
        PrefetchedRange {
            range,
            stream,
            fetched,
            task,
            _budget: budget,
        }
    }

    pub(in crate::data) fn start(&self) -> u64 {
        self.range.start
    }

    pub(in crate::data) fn end(&self) -> u64 {
        self.range.end
    }

    /// The number of the stream that it belongs to.
    pub(super) fn stream(&self) -> u64 {
        self.stream
    }

    /// Waits for a range inside it; `None` if it could not be read.
    pub(in crate::data) async fn get(&self, wanted: &Range<u64>) -> Option<FetchedRange> {
        let mut fetched = self.fetched.clone();
        let fetched = fetched.wait_for(Option::is_some).await.ok()?.clone()?;
        let mut bytes = fetched.bytes;
        bytes.split_to((wanted.start - self.range.start) as usize);
        bytes.truncate((wanted.end - wanted.start) as usize);
        Some(FetchedRange {
            bytes,
            found: fetched.found.min(wanted.end),
            // It may be outdated by now.
            size: None,
        })
    }
}
