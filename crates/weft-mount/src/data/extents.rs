//! Bytes of one file that are not at its servers yet.
//!
//! Two layers over what the servers have: *flying* ranges, which are on their way in some [`Batch`], and *dirty* ones
//! over them, which wait. Pure: no clock, no lock, no message.
//!
//! Invariants:
//! 1. Dirty parts are disjoint; flying runs are disjoint. Nothing dirty takes off while a flying run overlaps it, so a
//!    later write never ends up under an earlier one.
//! 2. A byte was copied at most once (small writes, joined into growing buffers; a third more while the buffer
//!    grows), a byte of a write of [`SMALL`] or more never, except the rests of overwritten parts, so that little bytes
//!    do not hold large buffers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// A whole aligned block of this size takes off at once, as one request.
pub(super) const BLOCK: u64 = 1 << 20;
/// Writes below this size are copied together.
pub(super) const SMALL: usize = 64 << 10;
/// Memory that a part takes beside its bytes.
const PART_COST: usize = 128;

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

#[derive(Debug)]
struct Part {
    data: Data,
    epoch: u64,
}

#[derive(Debug)]
enum Data {
    Growing(BytesMut),
    Fixed(Bytes),
}

/// Neighbouring bytes.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) parts: Vec<Bytes>,
    epoch: u64,
}

/// Runs that go to the servers together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Ascending, disjoint.
    pub(super) runs: Vec<Run>,
}

impl Data {
    fn get(&self) -> &[u8] {
        match self {
            Data::Growing(bytes) => bytes,
            Data::Fixed(bytes) => bytes,
        }
    }

    fn slice(&self, range: Range<usize>) -> Bytes {
        match self {
            Data::Growing(bytes) => Bytes::copy_from_slice(&bytes[range]),
            Data::Fixed(bytes) => bytes.slice(range),
        }
    }

    fn split_off(&mut self, at: usize) -> Data {
        match self {
            Data::Growing(bytes) => Data::Growing(bytes.split_off(at)),
            Data::Fixed(bytes) => Data::Fixed(bytes.split_off(at)),
        }
    }

    fn freeze(self) -> Bytes {
        match self {
            Data::Growing(bytes) => bytes.freeze(),
            Data::Fixed(bytes) => bytes,
        }
    }

    /// A rest of `whole` bytes; copied if it is little.
    fn rest_of(self, whole: usize) -> Data {
        let rest = self.get();
        if rest.len() < SMALL && rest.len() < whole / 4 {
            return Data::Fixed(Bytes::copy_from_slice(rest));
        }
        self
    }
}

impl Part {
    fn len(&self) -> usize {
        self.data.get().len()
    }
}

impl Run {
    fn end(&self) -> u64 {
        self.offset + self.length
    }
}

impl Batch {
    pub(super) fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.length).sum()
    }

    /// From its first byte to one past its last.
    pub(super) fn range(&self) -> Range<u64> {
        let start = self.runs.first().map_or(0, |run| run.offset);
        start..self.runs.last().map_or(start, Run::end)
    }
}

impl Extents {
    /// Dirty bytes, those flying not counted.
    pub(super) fn dirty_bytes(&self) -> usize {
        self.dirty_bytes
    }

    /// What the mount's budget is charged.
    pub(super) fn charge(&self) -> usize {
        self.dirty_bytes + self.flying_bytes + self.dirty.len() * PART_COST
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
        if data.len() >= SMALL {
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
                self.cut(offset..offset + now.len() as u64);
                if !self.grow(offset, now, epoch) {
                    self.insert(offset, Data::Growing(BytesMut::from(now)), epoch);
                }
            }
            offset += now.len() as u64;
            data = later;
        }
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

    /// Takes the next batch: a whole block if there is one, else runs that have bytes of an epoch before `due`, at most
    /// `runs` of them and a block's worth of bytes (more only in a single part's last run).
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

    /// What lies over the servers' bytes in this range: absolute offsets, ascending, disjoint.
    pub(super) fn overlay(&self, range: Range<u64>) -> Vec<(u64, Bytes)> {
        let mut pieces = Vec::new();
        let clip = |at: u64, length: usize| {
            let from = range.start.saturating_sub(at).min(length as u64) as usize;
            let to = range.end.saturating_sub(at).min(length as u64) as usize;
            from..to
        };
        for (at, part) in starting_before(&self.dirty, &range) {
            let within = clip(*at, part.len());
            if !within.is_empty() {
                pieces.push((at + within.start as u64, part.data.slice(within)));
            }
        }
        let over = pieces.len();
        for (_, run) in starting_before(&self.flying, &range) {
            let mut at = run.offset;
            for part in &run.parts {
                let within = clip(at, part.len());
                if !within.is_empty() {
                    uncovered(
                        &mut pieces,
                        over,
                        at + within.start as u64,
                        &part.slice(within),
                    );
                }
                at += part.len() as u64;
            }
        }
        pieces.sort_unstable_by_key(|(at, _)| *at);
        pieces
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

    /// Takes a covered range out.
    fn extract(&mut self, range: Range<u64>) -> Run {
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
    fn split_at(&mut self, place: u64) {
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
    fn cut(&mut self, range: Range<u64>) {
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
    fn cut_inside(&mut self, at: u64, range: &Range<u64>) {
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
    fn cut_front(&mut self, at: u64, end: u64) {
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

/// What begins before the range's end, from the last that begins at or before its start.
fn starting_before<'a, T>(
    map: &'a BTreeMap<u64, T>,
    range: &Range<u64>,
) -> impl Iterator<Item = (&'a u64, &'a T)> {
    let first = map.range(..=range.start).next_back();
    let from = range.start.saturating_add(1).min(range.end);
    first.into_iter().chain(map.range(from..range.end))
}

/// Adds the bytes at `start..` that the first `over` pieces, ascending, leave uncovered.
fn uncovered(pieces: &mut Vec<(u64, Bytes)>, over: usize, start: u64, bytes: &Bytes) {
    let end = start + bytes.len() as u64;
    let piece_end = |(at, b): &(u64, Bytes)| at + b.len() as u64;
    let mut at = start;
    let mut i = pieces[..over].partition_point(|piece| piece_end(piece) <= start);
    while at < end {
        let (gap_end, next) = match pieces[..over].get(i) {
            Some(piece) if piece.0 < end => (piece.0.max(at), piece_end(piece).max(at)),
            _ => (end, end),
        };
        if gap_end > at {
            let gap = bytes.slice((at - start) as usize..(gap_end - start) as usize);
            pieces.push((at, gap));
        }
        at = next;
        i += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SPACE: u64 = 3 * BLOCK;

    #[derive(Clone, Debug)]
    enum Step {
        Write { offset: u64, length: u64, byte: u8 },
        Truncate(u64),
        Take { all: bool },
        Land(usize),
        Epoch,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Near the borders of blocks and at a few places, so that writes meet.
        let place = prop_oneof![
            (0..SPACE / 4096).prop_map(|p| p * 4096),
            (0..SPACE),
            (1..3u64, 0..64u64).prop_map(|(block, back)| block * BLOCK - back),
        ];
        let length = prop_oneof![
            1..64u64,
            1..9000u64,
            Just(4096),
            60_000..140_000u64,
            Just(BLOCK)
        ];
        let write =
            (place.clone(), length, 1..=255u8).prop_map(|(offset, length, byte)| Step::Write {
                offset,
                length,
                byte,
            });
        let step = prop_oneof![
            8 => write,
            1 => place.prop_map(Step::Truncate),
            2 => any::<bool>().prop_map(|all| Step::Take { all }),
            2 => (0..8usize).prop_map(Step::Land),
            1 => Just(Step::Epoch),
        ];
        prop::collection::vec(step, 1..60)
    }

    /// What the servers have, what flies, what a reader sees: plain bytes.
    struct Model {
        servers: Vec<u8>,
        seen: Vec<u8>,
        extents: Extents,
        flying: Vec<Batch>,
        epoch: u64,
    }

    impl Model {
        fn apply(&mut self, step: &Step) {
            match *step {
                Step::Write {
                    offset,
                    length,
                    byte,
                } => {
                    // Bytes of a write differ, so that a shifted piece shows.
                    let bytes: Vec<u8> = (0..length)
                        .map(|i| byte.wrapping_add((i % 251) as u8))
                        .collect();
                    self.seen[offset as usize..(offset + length) as usize].copy_from_slice(&bytes);
                    self.extents.write(offset, bytes.into(), self.epoch);
                }
                Step::Truncate(size) => {
                    while !self.flying.is_empty() {
                        self.land(0);
                    }
                    self.extents.truncate(size);
                    self.servers[size as usize..].fill(0);
                    self.seen[size as usize..].fill(0);
                }
                Step::Take { all } => {
                    let due = if all { u64::MAX } else { self.epoch };
                    if let Some(batch) = self.extents.take(due, 16) {
                        let aside = |run: &Run, other: &Run| {
                            run.end() <= other.offset || other.end() <= run.offset
                        };
                        for run in &batch.runs {
                            let flying = self.flying.iter().flat_map(|batch| &batch.runs);
                            assert!(
                                flying.into_iter().all(|other| aside(run, other)),
                                "{run:?} is on its way twice"
                            );
                        }
                        self.flying.push(batch);
                    }
                }
                Step::Land(i) if !self.flying.is_empty() => self.land(i % self.flying.len()),
                Step::Land(_) => {}
                Step::Epoch => self.epoch += 1,
            }
        }

        fn land(&mut self, i: usize) {
            let batch = self.flying.swap_remove(i);
            for run in &batch.runs {
                let mut at = run.offset as usize;
                for part in &run.parts {
                    self.servers[at..at + part.len()].copy_from_slice(part);
                    at += part.len();
                }
                assert_eq!(at as u64, run.end());
            }
            self.extents.landed(&batch);
        }

        fn check(&self) {
            let mut found = self.servers.clone();
            let mut end = 0;
            for (at, bytes) in self.extents.overlay(0..found.len() as u64) {
                assert!(at >= end, "pieces overlap at {at}");
                end = at + bytes.len() as u64;
                found[at as usize..end as usize].copy_from_slice(&bytes);
            }
            assert_eq!(end, self.extents.end());
            assert!(found == self.seen, "a reader sees something else");
            let flying: u64 = self.flying.iter().map(Batch::bytes).sum();
            assert_eq!(flying as usize, self.extents.flying_bytes);
            let dirty: usize = self.extents.dirty.values().map(Part::len).sum();
            assert_eq!(dirty, self.extents.dirty_bytes);
            let parts = self.extents.dirty.len() + self.extents.flying.len();
            assert_eq!(self.extents.epochs.values().sum::<usize>(), parts);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_reader_sees_the_latest_bytes_and_the_servers_end_with_them(steps in steps()) {
            let empty = vec![0; (SPACE + BLOCK) as usize];
            let mut model = Model {
                servers: empty.clone(),
                seen: empty,
                extents: Extents::default(),
                flying: Vec::new(),
                epoch: 1,
            };
            for step in &steps {
                model.apply(step);
                model.check();
            }
            let mut rounds = 0;
            while model.extents.charge() > 0 {
                model.apply(&Step::Take { all: true });
                model.apply(&Step::Land(rounds));
                rounds += 1;
                prop_assert!(rounds < 10_000, "it never ends");
            }
            model.check();
            prop_assert!(model.servers == model.seen);
        }

        #[test]
        fn a_part_of_the_overlay_is_that_part_of_it(steps in steps(), start in 0..SPACE, length in 1..BLOCK) {
            let empty = vec![0; (SPACE + BLOCK) as usize];
            let mut model = Model {
                servers: empty.clone(),
                seen: empty,
                extents: Extents::default(),
                flying: Vec::new(),
                epoch: 1,
            };
            steps.iter().for_each(|step| model.apply(step));
            let range = start..start + length;
            let mut found = model.servers[start as usize..range.end as usize].to_vec();
            for (at, bytes) in model.extents.overlay(range.clone()) {
                let at = (at - start) as usize;
                found[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            prop_assert!(found == model.seen[start as usize..range.end as usize]);
        }
    }

    #[test]
    fn small_neighbours_become_one_part_and_a_whole_block_takes_off_at_once() {
        let mut extents = Extents::default();
        for i in 0..BLOCK / 4096 {
            assert!(extents.take(0, 1).is_none());
            extents.write(i * 4096, vec![i as u8; 4096].into(), 1);
        }
        let batch = extents.take(0, 1).expect("the block is whole");
        assert_eq!((batch.runs.len(), batch.range()), (1, 0..BLOCK));
        assert_eq!(batch.runs[0].parts.len(), 1);
    }

    #[test]
    fn a_large_write_is_not_copied() {
        let mut extents = Extents::default();
        let data = Bytes::from(vec![1; BLOCK as usize]);
        extents.write(0, data.clone(), 1);
        let batch = extents.take(0, 1).expect("the block is whole");
        assert_eq!(batch.runs[0].parts[0].as_ptr(), data.as_ptr());
    }

    #[test]
    fn what_was_written_over_a_flying_block_waits_for_it() {
        let mut extents = Extents::default();
        let write =
            |extents: &mut Extents, byte| extents.write(0, vec![byte; BLOCK as usize].into(), 1);
        write(&mut extents, 1);
        let first = extents.take(9, 9).expect("the block is whole");
        write(&mut extents, 2);
        assert!(extents.take(9, 9).is_none());
        extents.landed(&first);
        let second = extents.take(9, 9).expect("nothing is over it any more");
        assert_eq!(second.runs[0].parts[0][0], 2);
    }

    #[test]
    fn a_little_rest_does_not_hold_a_large_buffer() {
        let mut extents = Extents::default();
        let data = Bytes::from(vec![1; 2 * BLOCK as usize]);
        extents.write(0, data.clone(), 1);
        extents.write(10, vec![2; 2 * BLOCK as usize - 20].into(), 1);
        assert!(data.is_unique());
    }
}
