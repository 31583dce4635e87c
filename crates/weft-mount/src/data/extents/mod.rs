//! Bytes of one file that are not at its servers yet.
//!
//! Two layers over what the servers have: *flying* ranges, which are on their way in some
//! [`Batch`], and *dirty* ones over them, which wait. Pure: no clock, no lock, no message.
//!
//! Invariants:
//! 1. Dirty parts are disjoint; flying runs are disjoint. Nothing dirty takes off while a flying
//!    run overlaps it, so a later write never ends up under an earlier one. What replaces dirty
//!    bytes is as old as they are: bytes that are written again and again take off when the first
//!    are due.
//! 2. A byte was copied at most once (small writes, joined into growing buffers; a third more while
//!    the buffer grows), a byte of a write of [`COPIED_WRITE_MAX`] or more never, except the rests
//!    of overwritten parts, so that little bytes do not hold large buffers.

mod cut;
mod overlay;
mod part;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::limits::{BLOCK, COPIED_WRITE_MAX, SEGMENT_OVERHEAD};
pub(super) use part::Batch;
use part::{Data, Part, Run};

/// Dirty and flying bytes of a file.
#[derive(Debug, Default)]
pub(super) struct Extents {
    dirty: BTreeMap<u64, Part>,
    flying: BTreeMap<u64, Run>,
    /// Blocks that were whole when they were last written.
    whole: BTreeSet<u64>,
    /// How many parts and runs there are of each epoch.
    epochs: BTreeMap<u64, usize>,
    dirty_bytes: usize,
    flying_bytes: usize,
}

impl Extents {
    /// Dirty bytes, those flying not counted.
    pub(super) fn dirty_bytes(&self) -> usize {
        self.dirty_bytes
    }

    /// What the mount's budget is charged.
    pub(super) fn charge(&self) -> usize {
        self.dirty_bytes + self.flying_bytes + self.dirty.len() * SEGMENT_OVERHEAD
    }

    /// One past the last byte, dirty or flying; 0 without any.
    pub(super) fn end(&self) -> u64 {
        let dirty = self.dirty.last_key_value();
        let flying = self.flying.last_key_value();
        let dirty = dirty.map_or(0, |(at, part)| at + part.len() as u64);
        dirty.max(flying.map_or(0, |(_, run)| run.end()))
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
            self.cut(range.clone());
            self.insert(offset, Data::Fixed(data), epoch);
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
            let room = (BLOCK - offset % BLOCK) as usize;
            let (now, later) = data.split_at(data.len().min(room));
            if !self.write_in_place(offset, now) {
                let range = offset..offset + now.len() as u64;
                let epoch = self.oldest_in(&range).map_or(epoch, |old| old.min(epoch));
                self.cut(range);
                if !self.grow(offset, now, epoch) {
                    self.insert(offset, Data::Growing(BytesMut::from(now)), epoch);
                }
            }
            offset += now.len() as u64;
            data = later;
        }
    }

    /// The oldest epoch of dirty bytes in a range.
    fn oldest_in(&self, range: &Range<u64>) -> Option<u64> {
        let before = self.dirty.range(..range.start).next_back();
        let before = before.filter(|(at, part)| *at + part.len() as u64 > range.start);
        let parts = before.into_iter().chain(self.dirty.range(range.clone()));
        parts.map(|(_, part)| part.epoch).min()
    }

    /// Overwrites bytes of one growing buffer.
    fn write_in_place(&mut self, offset: u64, data: &[u8]) -> bool {
        let Some((at, part)) = self.dirty.range_mut(..=offset).next_back() else {
            return false;
        };
        let from = (offset - at) as usize;
        match &mut part.data {
            Data::Growing(bytes) if from + data.len() <= bytes.len() => {
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
        let Some((at, part)) = self.dirty.range_mut(..offset).next_back() else {
            return false;
        };
        let (ends, same) = (at + part.len() as u64, part.epoch == epoch);
        match &mut part.data {
            Data::Growing(bytes) if ends == offset && same => {
                if bytes.capacity() - bytes.len() < data.len() {
                    let room = (BLOCK - at % BLOCK) as usize;
                    let wanted = (4 * (bytes.len() + data.len())).min(room);
                    bytes.reserve(wanted - bytes.len());
                }
                bytes.extend_from_slice(data);
                self.dirty_bytes += data.len();
                true
            }
            _ => false,
        }
    }

    /// Takes the next batch: a whole block if there is one, else runs that have bytes of an epoch
    /// before `due`, at most `runs` of them and a block's worth of bytes (more only in a single
    /// part's last run).
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
            if epoch < due && !self.meets_flying(&range) {
                bytes += range.end - range.start;
                ranges.push(range);
                if ranges.len() == runs || bytes >= BLOCK {
                    break;
                }
            }
        }
        self.take_off(ranges)
    }

    /// Takes everything dirty that is not over a flying run.
    pub(super) fn take_all(&mut self) -> Option<Batch> {
        let (mut ranges, mut from) = (Vec::new(), 0);
        while let Some((range, _)) = self.next_run(from) {
            from = range.end;
            if !self.meets_flying(&range) {
                ranges.push(range);
            }
        }
        self.take_off(ranges)
    }

    fn take_block(&mut self) -> Option<Batch> {
        let mut blocks = self.whole.iter().copied();
        loop {
            let block = blocks.next()?;
            let range = block * BLOCK..(block + 1) * BLOCK;
            if self.meets_flying(&range) {
                continue;
            }
            self.whole.remove(&block);
            // It may have been cut since.
            if self.covers(range.clone()) {
                return self.take_off(vec![range]);
            }
            blocks = self.whole.iter().copied();
        }
    }

    fn take_off(&mut self, ranges: Vec<Range<u64>>) -> Option<Batch> {
        let runs: Vec<Run> = ranges
            .into_iter()
            .map(|range| self.extract(range))
            .collect();
        for run in &runs {
            self.flying_bytes += run.length as usize;
            self.count(run.epoch);
            self.flying.insert(run.offset, run.clone());
        }
        (!runs.is_empty()).then_some(Batch { runs })
    }

    /// A batch has landed, or was given up.
    pub(super) fn landed(&mut self, batch: &Batch) {
        for run in &batch.runs {
            if self.flying.remove(&run.offset).is_some() {
                self.flying_bytes -= run.length as usize;
                self.uncount(run.epoch);
            }
        }
    }

    /// Drops dirty bytes from `size` on.
    pub(super) fn truncate(&mut self, size: u64) {
        self.cut(size..u64::MAX);
    }

    /// Dirty neighbours from `from` on, within one block, and their oldest epoch.
    fn next_run(&self, from: u64) -> Option<(Range<u64>, u64)> {
        let (start, epoch) = match self.dirty.range(..from).next_back() {
            Some((at, part)) if at + part.len() as u64 > from => (from, part.epoch),
            _ => self
                .dirty
                .range(from..)
                .next()
                .map(|(at, part)| (*at, part.epoch))?,
        };
        let limit = (start / BLOCK + 1) * BLOCK;
        let (mut end, mut oldest) = (start, epoch);
        let first = self.dirty.range(..=start).next_back();
        for (at, part) in first.into_iter().chain(self.dirty.range(start + 1..)) {
            if *at > end || end >= limit {
                break;
            }
            end = at + part.len() as u64;
            oldest = oldest.min(part.epoch);
        }
        Some((start..end.min(limit), oldest))
    }

    fn covers(&self, range: Range<u64>) -> bool {
        let first = self.dirty.range(..=range.start).next_back();
        let rest = self.dirty.range(range.start + 1..range.end);
        let mut covered = range.start;
        for (at, part) in first.into_iter().chain(rest) {
            if *at > covered {
                return false;
            }
            covered = covered.max(at + part.len() as u64);
        }
        covered >= range.end
    }

    fn meets_flying(&self, range: &Range<u64>) -> bool {
        let before = self.flying.range(..range.end).next_back();
        before.is_some_and(|(_, run)| run.end() > range.start)
    }

    fn insert(&mut self, at: u64, data: Data, epoch: u64) {
        self.dirty_bytes += data.get().len();
        self.count(epoch);
        self.dirty.insert(at, Part { data, epoch });
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
