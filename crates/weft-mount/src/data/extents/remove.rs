//! Removes dirty bytes, or takes them out to be sent.

use std::ops::Range;

use super::Extents;
use super::segment::{Run, Segment};

impl Extents {
    /// Takes a range out that dirty bytes cover.
    pub(super) fn extract(&mut self, range: Range<u64>) -> Run {
        self.split_at(range.start);
        self.split_at(range.end);
        let mut rest = self.dirty.split_off(&range.start);
        let mut after = rest.split_off(&range.end);
        self.dirty.append(&mut after);
        let (mut buffers, mut epoch, mut length) = (Vec::with_capacity(rest.len()), u64::MAX, 0);
        for segment in rest.into_values() {
            self.uncount(segment.epoch);
            epoch = epoch.min(segment.epoch);
            length += segment.len() as u64;
            buffers.push(segment.data.freeze());
        }
        self.dirty_bytes -= length as usize;
        Run {
            offset: range.start,
            length,
            buffers,
            epoch,
        }
    }

    /// Splits the segment that has `offset` inside, so that a segment begins there.
    pub(super) fn split_at(&mut self, offset: u64) {
        let Some((at, segment)) = self.dirty.range_mut(..offset).next_back() else {
            return;
        };
        let within = (offset - at) as usize;
        if within < segment.len() {
            let (data, epoch) = (segment.data.split_off(within), segment.epoch);
            self.dirty.insert(offset, Segment { data, epoch });
            self.count(epoch);
        }
    }

    /// Removes dirty bytes.
    pub(super) fn remove(&mut self, range: Range<u64>) {
        let before = self.dirty.range(..range.start).next_back();
        let before = before.filter(|(at, segment)| *at + segment.len() as u64 > range.start);
        let first = before.map_or(range.start, |(at, _)| *at);
        while let Some((at, _)) = self.dirty.range(first..range.end).next() {
            let at = *at;
            if at < range.start {
                self.remove_inside(at, &range);
                if self.dirty.range(range.start..range.end).next().is_none() {
                    return;
                }
            }
            let Some((at, _)) = self.dirty.range(range.start..range.end).next() else {
                return;
            };
            let at = *at;
            self.remove_front(at, range.end);
        }
    }

    /// Removes `range` from the segment at `at`, which begins before it.
    pub(super) fn remove_inside(&mut self, at: u64, range: &Range<u64>) {
        let Some(mut segment) = self.dirty.remove(&at) else {
            return;
        };
        let (whole, epoch) = (segment.len(), segment.epoch);
        self.uncount(epoch);
        self.dirty_bytes -= whole;
        let mut rest = segment.data.split_off((range.start - at) as usize);
        let removed = (range.end - range.start).min(rest.get().len() as u64);
        let rest = rest.split_off(removed as usize);
        self.insert(at, segment.data.rest_of(whole), epoch);
        if !rest.get().is_empty() {
            self.insert(range.end, rest.rest_of(whole), epoch);
        }
    }

    /// Removes the bytes before `end` from the segment at `at`.
    pub(super) fn remove_front(&mut self, at: u64, end: u64) {
        let Some(mut segment) = self.dirty.remove(&at) else {
            return;
        };
        let whole = segment.len();
        self.uncount(segment.epoch);
        self.dirty_bytes -= whole;
        if end - at < whole as u64 {
            let rest = segment.data.split_off((end - at) as usize);
            self.insert(end, rest.rest_of(whole), segment.epoch);
        }
    }
}
