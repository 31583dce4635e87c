//! Bytes of one file that are not at its servers yet.
//!
//! Two layers over the servers' bytes: *in-flight* ranges, which some [`Batch`] carries, and over
//! them *dirty* ranges, which wait. Pure: no clock, no lock, no message.
//!
//! Invariants:
//! 1. Dirty segments are disjoint; in-flight runs are disjoint. Dirty bytes are not sent while an
//!    in-flight run overlaps them, so a later write never ends up under an earlier one. Bytes that
//!    replace dirty ones inherit their age: a range that is overwritten again and again is sent
//!    when its first bytes are due.
//! 2. A byte is copied at most once (small writes, joined into growing buffers; a third more while
//!    the buffer grows), and a byte of a write of [`COPIED_WRITE_MAX`] or more never; except the
//!    remainders of overwritten segments, so that a few bytes do not hold a large buffer.

mod overlay;
mod remove;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::limits::{BLOCK, COPIED_WRITE_MAX, SEGMENT_OVERHEAD};
pub(super) use segment::Batch;
use segment::{Run, Segment, SegmentData};

/// Dirty and in-flight bytes of a file.
#[derive(Debug, Default)]
pub(super) struct Extents {
    dirty: BTreeMap<u64, Segment>,
    in_flight: BTreeMap<u64, Run>,
    /// Blocks that were whole when they were last written.
    whole: BTreeSet<u64>,
    /// The number of segments and runs of each epoch.
    epochs: BTreeMap<u64, usize>,
    dirty_bytes: usize,
    in_flight_bytes: usize,
}

impl Extents {
    /// Dirty bytes, those in flight not counted.
    pub(super) fn dirty_bytes(&self) -> usize {
        self.dirty_bytes
    }

    /// The charge to the mount's budget.
    pub(super) fn charge(&self) -> usize {
        self.dirty_bytes + self.in_flight_bytes + self.dirty.len() * SEGMENT_OVERHEAD
    }

    /// One past the last byte, dirty or in flight; 0 without any.
    pub(super) fn end(&self) -> u64 {
        let dirty = self.dirty.last_key_value();
        let in_flight = self.in_flight.last_key_value();
        let dirty = dirty.map_or(0, |(at, segment)| at + segment.len() as u64);
        dirty.max(in_flight.map_or(0, |(_, run)| run.end()))
    }

    /// The oldest epoch of which anything is left.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.epochs.keys().next().copied()
    }

    /// Takes a write.
    pub(super) fn write(&mut self, offset: u64, data: Bytes, epoch: u64) {
        let range = offset..offset + data.len() as u64;
        if data.len() >= COPIED_WRITE_MAX {
            let epoch = self.oldest_in(&range).map_or(epoch, |old| old.min(epoch));
            self.remove(range.clone());
            self.insert(offset, SegmentData::Fixed(data), epoch);
        } else {
            self.write_small(offset, &data, epoch);
        }
        for block in range.start / BLOCK..=(range.end - 1) / BLOCK {
            if self.covers(block * BLOCK..(block + 1) * BLOCK) {
                self.whole.insert(block);
            }
        }
    }

    fn write_small(&mut self, mut offset: u64, mut data: &[u8], epoch: u64) {
        while !data.is_empty() {
            let to_block_end = (BLOCK - offset % BLOCK) as usize;
            let (now, later) = data.split_at(data.len().min(to_block_end));
            if !self.write_in_place(offset, now) {
                let range = offset..offset + now.len() as u64;
                let epoch = self.oldest_in(&range).map_or(epoch, |old| old.min(epoch));
                self.remove(range);
                if !self.grow(offset, now, epoch) {
                    self.insert(offset, SegmentData::Growing(BytesMut::from(now)), epoch);
                }
            }
            offset += now.len() as u64;
            data = later;
        }
    }

    /// The oldest epoch of dirty bytes in a range.
    fn oldest_in(&self, range: &Range<u64>) -> Option<u64> {
        let before = self.dirty.range(..range.start).next_back();
        let before = before.filter(|(at, segment)| *at + segment.len() as u64 > range.start);
        let segments = before.into_iter().chain(self.dirty.range(range.clone()));
        segments.map(|(_, segment)| segment.epoch).min()
    }

    /// Overwrites bytes of one growing buffer.
    fn write_in_place(&mut self, offset: u64, data: &[u8]) -> bool {
        let Some((at, segment)) = self.dirty.range_mut(..=offset).next_back() else {
            return false;
        };
        let from = (offset - at) as usize;
        match &mut segment.data {
            SegmentData::Growing(bytes) if from + data.len() <= bytes.len() => {
                bytes[from..from + data.len()].copy_from_slice(data);
                true
            }
            _ => false,
        }
    }

    /// Adds to the growing buffer that ends at `offset`, within a block.
    fn grow(&mut self, offset: u64, data: &[u8], epoch: u64) -> bool {
        if offset.is_multiple_of(BLOCK) {
            return false;
        }
        let Some((at, segment)) = self.dirty.range_mut(..offset).next_back() else {
            return false;
        };
        let (ends, same) = (at + segment.len() as u64, segment.epoch == epoch);
        match &mut segment.data {
            SegmentData::Growing(bytes) if ends == offset && same => {
                if bytes.capacity() - bytes.len() < data.len() {
                    let to_block_end = (BLOCK - at % BLOCK) as usize;
                    let wanted = (4 * (bytes.len() + data.len())).min(to_block_end);
                    bytes.reserve(wanted - bytes.len());
                }
                bytes.extend_from_slice(data);
                self.dirty_bytes += data.len();
                true
            }
            _ => false,
        }
    }

    /// Takes the next batch: a whole block if there is one, else runs with bytes of an epoch before
    /// `due`, at most `runs` of them and a block's worth of bytes (only the last run may exceed
    /// it).
    pub(super) fn take(&mut self, due: u64, runs: usize) -> Option<Batch> {
        if let Some(block) = self.take_block() {
            return Some(block);
        }
        if self.oldest().is_none_or(|oldest| oldest >= due) {
            return None;
        }
        let (mut ranges, mut bytes) = (Vec::new(), 0);
        let mut from = 0;
        while let Some((range, epoch)) = self.next_run(from) {
            from = range.end;
            if epoch < due && !self.overlaps_in_flight(&range) {
                bytes += range.end - range.start;
                ranges.push(range);
                if ranges.len() == runs || bytes >= BLOCK {
                    break;
                }
            }
        }
        self.send(ranges)
    }

    /// Takes everything dirty that is not over an in-flight run.
    pub(super) fn take_all(&mut self) -> Option<Batch> {
        let (mut ranges, mut from) = (Vec::new(), 0);
        while let Some((range, _)) = self.next_run(from) {
            from = range.end;
            if !self.overlaps_in_flight(&range) {
                ranges.push(range);
            }
        }
        self.send(ranges)
    }

    fn take_block(&mut self) -> Option<Batch> {
        let mut blocks = self.whole.iter().copied();
        loop {
            let block = blocks.next()?;
            let range = block * BLOCK..(block + 1) * BLOCK;
            if self.overlaps_in_flight(&range) {
                continue;
            }
            self.whole.remove(&block);
            // Bytes may have been removed since.
            if self.covers(range.clone()) {
                return self.send(vec![range]);
            }
            blocks = self.whole.iter().copied();
        }
    }

    fn send(&mut self, ranges: Vec<Range<u64>>) -> Option<Batch> {
        let runs: Vec<Run> = ranges
            .into_iter()
            .map(|range| self.extract(range))
            .collect();
        for run in &runs {
            self.in_flight_bytes += run.length as usize;
            self.count(run.epoch);
            self.in_flight.insert(run.offset, run.clone());
        }
        (!runs.is_empty()).then_some(Batch { runs })
    }

    /// A batch has arrived, or was abandoned.
    pub(super) fn arrived(&mut self, batch: &Batch) {
        for run in &batch.runs {
            if self.in_flight.remove(&run.offset).is_some() {
                self.in_flight_bytes -= run.length as usize;
                self.uncount(run.epoch);
            }
        }
    }

    /// Drops dirty bytes from `size` on.
    pub(super) fn truncate(&mut self, size: u64) {
        self.remove(size..u64::MAX);
    }

    /// The next adjacent dirty segments from `from` on, within one block, and their oldest epoch.
    fn next_run(&self, from: u64) -> Option<(Range<u64>, u64)> {
        let (start, epoch) = match self.dirty.range(..from).next_back() {
            Some((at, segment)) if at + segment.len() as u64 > from => (from, segment.epoch),
            _ => self
                .dirty
                .range(from..)
                .next()
                .map(|(at, segment)| (*at, segment.epoch))?,
        };
        let limit = (start / BLOCK + 1) * BLOCK;
        let (mut end, mut oldest) = (start, epoch);
        let first = self.dirty.range(..=start).next_back();
        for (at, segment) in first.into_iter().chain(self.dirty.range(start + 1..)) {
            if *at > end || end >= limit {
                break;
            }
            end = at + segment.len() as u64;
            oldest = oldest.min(segment.epoch);
        }
        Some((start..end.min(limit), oldest))
    }

    fn covers(&self, range: Range<u64>) -> bool {
        let first = self.dirty.range(..=range.start).next_back();
        let rest = self.dirty.range(range.start + 1..range.end);
        let mut covered = range.start;
        for (at, segment) in first.into_iter().chain(rest) {
            if *at > covered {
                return false;
            }
            covered = covered.max(at + segment.len() as u64);
        }
        covered >= range.end
    }

    fn overlaps_in_flight(&self, range: &Range<u64>) -> bool {
        let before = self.in_flight.range(..range.end).next_back();
        before.is_some_and(|(_, run)| run.end() > range.start)
    }

    fn insert(&mut self, at: u64, data: SegmentData, epoch: u64) {
        self.dirty_bytes += data.get().len();
        self.count(epoch);
        self.dirty.insert(at, Segment { data, epoch });
    }

    fn count(&mut self, epoch: u64) {
        *self.epochs.entry(epoch).or_default() += 1;
    }

    fn uncount(&mut self, epoch: u64) {
        if let Some(count) = self.epochs.get_mut(&epoch) {
            *count -= 1;
            if *count == 0 {
                self.epochs.remove(&epoch);
            }
        }
    }
}
