//! Taking bytes out.

use std::ops::Range;

use super::Extents;
use super::part::{Part, Run};

impl Extents {
    /// Takes a covered range out.
    pub(super) fn extract(&mut self, range: Range<u64>) -> Run {
        self.split_at(range.start);
        self.split_at(range.end);
        let mut rest = self.dirty.split_off(&range.start);
        let mut after = rest.split_off(&range.end);
        self.dirty.append(&mut after);
        let (mut parts, mut epoch, mut length) = (Vec::with_capacity(rest.len()), u64::MAX, 0);
        for part in rest.into_values() {
            self.uncount(part.epoch);
            epoch = epoch.min(part.epoch);
            length += part.len() as u64;
            parts.push(part.data.freeze());
        }
        self.dirty_bytes -= length as usize;
        Run {
            offset: range.start,
            length,
            parts,
            epoch,
        }
    }

    /// Makes `place` a border between parts, if it is inside one.
    pub(super) fn split_at(&mut self, place: u64) {
        let Some((at, part)) = self.dirty.range_mut(..place).next_back() else {
            return;
        };
        let within = (place - at) as usize;
        if within < part.len() {
            let (data, epoch) = (part.data.split_off(within), part.epoch);
            self.dirty.insert(place, Part { data, epoch });
            self.count(epoch);
        }
    }

    /// Removes dirty bytes.
    pub(super) fn cut(&mut self, range: Range<u64>) {
        let before = self.dirty.range(..range.start).next_back();
        let before = before.filter(|(at, part)| *at + part.len() as u64 > range.start);
        let first = before.map_or(range.start, |(at, _)| *at);
        while let Some((at, _)) = self.dirty.range(first..range.end).next() {
            let at = *at;
            if at < range.start {
                self.cut_inside(at, &range);
                if self.dirty.range(range.start..range.end).next().is_none() {
                    return;
                }
            }
            let Some((at, _)) = self.dirty.range(range.start..range.end).next() else {
                return;
            };
            let at = *at;
            self.cut_front(at, range.end);
        }
    }

    /// Removes `range` from the part at `at`, which begins before it.
    pub(super) fn cut_inside(&mut self, at: u64, range: &Range<u64>) {
        let Some(mut part) = self.dirty.remove(&at) else {
            return;
        };
        let (whole, epoch) = (part.len(), part.epoch);
        self.uncount(epoch);
        self.dirty_bytes -= whole;
        let mut rest = part.data.split_off((range.start - at) as usize);
        let removed = (range.end - range.start).min(rest.get().len() as u64);
        let rest = rest.split_off(removed as usize);
        self.insert(at, part.data.rest_of(whole), epoch);
        if !rest.get().is_empty() {
            self.insert(range.end, rest.rest_of(whole), epoch);
        }
    }

    /// Removes the bytes before `end` from the part at `at`.
    pub(super) fn cut_front(&mut self, at: u64, end: u64) {
        let Some(mut part) = self.dirty.remove(&at) else {
            return;
        };
        let whole = part.len();
        self.uncount(part.epoch);
        self.dirty_bytes -= whole;
        if end - at < whole as u64 {
            let rest = part.data.split_off((end - at) as usize);
            self.insert(end, rest.rest_of(whole), part.epoch);
        }
    }
}
