//! Rules of reads: what lies over the servers' bytes, and what is known of the size.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use weft_client::Attributes;

use super::FileState;
use super::content::Location;
use super::prefetch::PrefetchedRange;
use super::size::SizeQueryTicket;
use super::streams::Advice;
use crate::data::clock::Clock;

/// The layers of a range as of one moment: dirty pieces over what is below.
pub(in crate::data) struct Layers {
    /// Absolute offsets, ascending, disjoint.
    pub(in crate::data) dirty: Vec<(u64, Bytes)>,
    pub(in crate::data) below: Below,
}

/// The layer below the dirty pieces.
pub(in crate::data) enum Below {
    /// The pieces cover all of the range.
    Covered,
    /// The content of an inline file from the range's start on, within the range.
    Content(Bytes),
    /// The cells.
    Cells,
}

impl FileState {
    /// Adds an open; returns its number.
    pub(in crate::data) fn add_open(&mut self, read_ahead: u64) -> u64 {
        self.opens.add(read_ahead, self.failures.all_reported())
    }

    /// Whether there have been other opens than the first.
    pub(in crate::data) fn had_other_opens(&self) -> bool {
        self.opens.count() > 1
    }

    /// Drops bytes read ahead in this range.
    pub(in crate::data) fn drop_prefetched(&mut self, range: &Range<u64>) {
        self.opens.drop_prefetched(range);
    }

    /// The layers of a range.
    pub(in crate::data) fn layers(&self, range: Range<u64>) -> Layers {
        let dirty = self.write_back.overlay(range.clone());
        let covered: u64 = dirty.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let below = match self.content.location() {
            _ if covered == range.end - range.start => Below::Covered,
            Location::Inline(content) | Location::Moving(content) => {
                let within = |at: u64| at.min(content.len() as u64) as usize;
                Below::Content(content.slice(within(range.start)..within(range.end)))
            }
            Location::Cells => Below::Cells,
        };
        Layers { dirty, below }
    }

    /// A read of an open from the cells: the bytes that were read ahead of it, ascending, and what
    /// to read ahead now. `None` if the open reads nothing ahead.
    pub(in crate::data) fn follow_read(
        &mut self,
        open: u64,
        range: &Range<u64>,
    ) -> Option<(Vec<Arc<PrefetchedRange>>, Advice)> {
        if !self.content.is_in_cells() {
            return None;
        }
        let end = self.exact_end();
        self.opens.read(open, range, end)
    }

    /// The part of a range that is worth reading ahead for an open; `None` if there is none.
    pub(in crate::data) fn prefetchable(
        &self,
        open: u64,
        range: &Range<u64>,
    ) -> Option<Range<u64>> {
        let (start, end) = (range.start, range.end.min(self.size.end()));
        (start < end && self.opens.has(open)).then_some(start..end)
    }

    /// Bytes are being read ahead for an open.
    pub(in crate::data) fn add_prefetched(&mut self, open: u64, bytes: PrefetchedRange) {
        self.opens.add_prefetched(open, Arc::new(bytes));
    }

    /// The size, if it is known without a query.
    pub(in crate::data) fn fresh_size(&self, write_behind: bool) -> Option<u64> {
        if !self.content.is_in_cells() {
            return Some(self.size.end());
        }
        (self.size.is_fresh() && write_behind).then_some(self.size.end())
    }

    /// The end, if it is exact but for what other clients may write.
    pub(in crate::data) fn exact_end(&self) -> Option<u64> {
        let exact = self.size.is_exact() || !self.content.is_in_cells();
        exact.then_some(self.size.end())
    }

    /// Whether the size was exact and nothing has made it doubtful since.
    pub(in crate::data) fn has_exact_size(&self) -> bool {
        self.size.is_exact()
    }

    /// One past the last byte that this cache knows of, if it knows any.
    pub(in crate::data) fn known_end(&self) -> Option<u64> {
        if self.content.is_doubtful() {
            return Some(self.write_back.end());
        }
        let end = self.size.end();
        self.exact_end().or((end > 0).then_some(end))
    }

    /// Where an append goes at least; `known`: the end as of `truncations` of the file. An
    /// invalidation since makes the end inexact but takes no bytes away; a truncation does.
    pub(in crate::data) fn append_floor(&self, known: u64, truncations: u64) -> u64 {
        let end = self.size.end();
        if self.exact_end().is_some() || self.size.truncations() != truncations {
            end
        } else {
            known.max(end)
        }
    }

    /// How often it was written or truncated here; `None` while a write goes through, or a
    /// truncation, or another change that needs the file at rest, is under way.
    pub(in crate::data) fn changes(&self) -> Option<u64> {
        let (begun, ended) = self.size.through();
        (begun == ended && !self.write_back.is_held()).then(|| self.size.changes())
    }

    /// Writes through that began so far.
    pub(in crate::data) fn begun_through(&self) -> u64 {
        self.size.through().0
    }

    /// Whether so many writes through have ended.
    pub(in crate::data) fn have_ended_through(&self, count: u64) -> bool {
        self.size.through().1 >= count
    }

    /// How often the file was truncated.
    pub(in crate::data) fn truncations(&self) -> u64 {
        self.size.truncations()
    }

    /// How often written bytes were lost.
    pub(in crate::data) fn losses(&self) -> u64 {
        self.size.losses()
    }

    /// The size is not exact any more.
    pub(in crate::data) fn forget_size(&mut self) {
        self.size.forget();
    }

    /// A size query begins, before it is sent.
    pub(in crate::data) fn begin_size_query(&mut self) -> SizeQueryTicket {
        self.size.begin_query(self.write_back.end())
    }

    /// A size query has its answer; returns the end as known now.
    pub(in crate::data) fn end_size_query(
        &mut self,
        query: SizeQueryTicket,
        size: Option<u64>,
    ) -> u64 {
        self.size.end_query(query, size)
    }

    pub(in crate::data) fn cancel_size_query(&mut self) {
        self.size.cancel_query();
    }

    /// Compares the service's attributes with what is known: where they differ, another client has
    /// changed the file.
    pub(in crate::data) fn compare(&mut self, attributes: &Attributes, clock: &Clock) {
        if let Location::Inline(content) = self.content.location()
            && (!attributes.inline || attributes.size != content.len() as u64)
            && self.write_back.is_idle()
            && self.write_back.is_clean()
        {
            self.content.doubt(clock);
        }
        if self.content.is_in_cells() && attributes.size != self.size.end() {
            self.size.forget();
        }
    }
}
