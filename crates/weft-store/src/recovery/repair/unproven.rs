//! What the truncation of a damaged log leaves unproven (`docs/design/0024-losses.md`).
//!
//! The store is then a prefix of what it acknowledged, and a file differs from its acknowledged
//! state only where dropped frames touched it. Dropped frames that can still be read say what they
//! touched; of the others, later frames say it (`touched.rs`). A frame of which neither is known
//! may have touched any file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weft_kv::OrderedKv;
use weft_layout::FileId;

use crate::error::StoreError;
use crate::index::visit;
use crate::key::{ADDRESSED, ForkKey, Run};
use crate::record::{
    BODY_SOFT, FORKS, ForkEntry, ForkId, ForkRecord, FrameRecord, ItemRecord, META, STORE_KEY,
    StoreRecord, TouchedRecord, new_body,
};

/// What frames and records say of a fork.
#[derive(Clone, Debug)]
struct KnownFork {
    key: ForkKey,
    chunk: u32,
    length: u64,
    /// A checkpoint kept it.
    kept: bool,
    /// A frame after those in the index wrote to it, and none says that a checkpoint kept it.
    open: bool,
}

/// The forks of a store and their names, as replaying the log makes them, without their bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct ForkSketch {
    forks: BTreeMap<ForkId, KnownFork>,
    names: BTreeMap<ForkKey, ForkId>,
    next: u64,
}

impl ForkSketch {
    /// The forks of an index. Unreadable records are skipped.
    pub(super) fn of(index: &dyn OrderedKv) -> Result<Self, StoreError> {
        let mut sketch = Self::default();
        let reader = index.snapshot()?;
        if let Some(value) = reader.get(META, STORE_KEY)? {
            sketch.next = StoreRecord::decode(&value).map_or(0, |record| record.next_fork);
        }
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        visit(&*reader, FORKS, all, |key, value| {
            let place = ForkRecord::decode_key(key);
            let (Ok(place), Ok(record)) = (place, ForkRecord::decode(key, value)) else {
                return Ok(());
            };
            let kept = matches!(place, ForkEntry::Checkpoint(..));
            let (ForkEntry::Live(key) | ForkEntry::Checkpoint(key, _)) = place;
            let current = sketch.names.get(&key).copied();
            sketch.add(record.id, record.chunk, &key, record.length);
            if kept {
                sketch.keep(record.id);
                if let Some(current) = current {
                    sketch.names.insert(key, current);
                }
            }
            Ok(())
        })?;
        Ok(sketch)
    }

    fn add(&mut self, id: ForkId, chunk: u32, key: &ForkKey, length: u64) {
        self.next = self.next.max(id.0 + 1);
        let known = KnownFork {
            key: key.clone(),
            chunk,
            length,
            kept: false,
            open: false,
        };
        // A checkpoint fork and the one that derives from it come in any order.
        let fork = self.forks.entry(id).or_insert(known);
        fork.chunk = chunk;
        self.names.insert(key.clone(), id);
    }

    fn keep(&mut self, id: ForkId) {
        if let Some(fork) = self.forks.get_mut(&id) {
            fork.open = false;
            fork.kept = true;
            if self.names.get(&fork.key) == Some(&id) {
                self.names.remove(&fork.key);
            }
        }
    }

    fn remove(&mut self, id: ForkId) {
        self.keep(id);
        self.forks.remove(&id);
    }

    fn wrote(&mut self, id: ForkId, length: impl FnOnce(u64) -> u64) {
        if let Some(fork) = self.forks.get_mut(&id) {
            fork.length = length(fork.length);
            fork.open = true;
        }
    }

    /// Applies an item to forks and names.
    pub(super) fn replay(&mut self, item: &ItemRecord) {
        if let Some((id, length)) = written(item) {
            return self.wrote(id, |old| length.of(old));
        }
        match item {
            ItemRecord::Fork { id, chunk, key } => self.add(*id, *chunk, key, 0),
            ItemRecord::Derive {
                id,
                chunk,
                length,
                key,
                ..
            } => {
                self.add(*id, *chunk, key, *length);
                self.wrote(*id, |_| *length);
            }
            ItemRecord::Keep { id, .. } => self.keep(*id),
            ItemRecord::Remove { id } | ItemRecord::Merged { from: id, .. } => self.remove(*id),
            ItemRecord::Delete { file } => {
                for id in self.of_file(*file) {
                    self.remove(id);
                }
            }
            // These write, and were handled above.
            ItemRecord::Data { .. }
            | ItemRecord::Pieces { .. }
            | ItemRecord::Map { .. }
            | ItemRecord::Clear { .. }
            | ItemRecord::Truncate { .. }
            | ItemRecord::Cut { .. }
            | ItemRecord::Doubt { .. }
            // These change neither forks nor names.
            | ItemRecord::Empty { .. }
            | ItemRecord::Operation { .. }
            | ItemRecord::Synced { .. }
            | ItemRecord::Touched(_)
            | ItemRecord::DoubtAll { .. }
            | ItemRecord::Trust { .. }
            | ItemRecord::Checkpoint { .. }
            | ItemRecord::Forget { .. }
            | ItemRecord::Adopt { .. }
            | ItemRecord::Own { .. } => {}
        }
    }

    fn of_file(&self, file: FileId) -> Vec<ForkId> {
        let forks = self.forks.iter();
        let forks = forks.filter(|(_, fork)| fork.key.file == file);
        forks.map(|(id, _)| *id).collect()
    }
}

/// The length of a fork after an item.
#[derive(Clone, Copy)]
enum Length {
    AtLeast(u64),
    Exactly(u64),
}

impl Length {
    fn of(self, old: u64) -> u64 {
        match self {
            Self::AtLeast(length) => old.max(length),
            Self::Exactly(length) => length,
        }
    }
}

/// The fork whose bytes or length an item changes for readers.
fn written(item: &ItemRecord) -> Option<(ForkId, Length)> {
    Some(match item {
        ItemRecord::Data { id, offset, data } => (*id, Length::AtLeast(offset + data.len() as u64)),
        ItemRecord::Pieces { id, runs, .. } => {
            let end = runs.iter().map(Run::end).max();
            (*id, Length::AtLeast(end.unwrap_or(0)))
        }
        // A flush only moves bytes, and has no end.
        ItemRecord::Map { id, end, .. } if *end > 0 => (*id, Length::AtLeast(*end)),
        ItemRecord::Clear { id, .. } => (*id, Length::AtLeast(0)),
        ItemRecord::Truncate { id, length } | ItemRecord::Cut { id, length } => {
            (*id, Length::Exactly(*length))
        }
        ItemRecord::Doubt { id, length, .. } => (*id, Length::AtLeast(*length)),
        ItemRecord::Map { .. }
        | ItemRecord::Fork { .. }
        | ItemRecord::Derive { .. }
        | ItemRecord::Keep { .. }
        | ItemRecord::Remove { .. }
        | ItemRecord::Delete { .. }
        | ItemRecord::Merged { .. }
        | ItemRecord::Empty { .. }
        | ItemRecord::Operation { .. }
        | ItemRecord::Synced { .. }
        | ItemRecord::Touched(_)
        | ItemRecord::DoubtAll { .. }
        | ItemRecord::Trust { .. }
        | ItemRecord::Checkpoint { .. }
        | ItemRecord::Forget { .. }
        | ItemRecord::Adopt { .. }
        | ItemRecord::Own { .. } => return None,
    })
}

/// Whether a repair wrote a frame in place of dropped ones: only such a frame says of itself that
/// it is synced.
fn is_of_repair(sequence: u64, items: &[ItemRecord]) -> bool {
    let itself =
        |item: &ItemRecord| matches!(item, ItemRecord::Synced { through } if *through == sequence);
    items.iter().any(itself)
}

/// A fork that is in doubt.
#[derive(Clone, Debug)]
pub(super) struct DoubtedFork {
    id: ForkId,
    chunk: u32,
    pub(super) key: ForkKey,
    /// The bytes before this offset are in doubt.
    pub(super) end: u64,
    length: u64,
}

/// What is in doubt after a truncation of the log.
#[derive(Debug, Default)]
pub(super) struct Unproven {
    /// Frames of which it is unknown what they touched: then everything is in doubt.
    pub(super) any: Option<Range<u64>>,
    pub(super) forks: Vec<DoubtedFork>,
}

impl Unproven {
    /// What a truncation before frame `first` leaves in doubt. `standing` is what remains after
    /// replaying the frames before it; `dropped` are the dropped frames that can be read, by
    /// number; `last` is the last frame that existed, `None` if that is not known.
    pub(super) fn find(
        standing: &ForkSketch,
        dropped: &[(u64, Vec<ItemRecord>)],
        first: u64,
        last: Option<u64>,
    ) -> Unproven {
        let mut touched = TouchedNames::default();
        let mut all = standing.clone();
        for item in dropped.iter().flat_map(|(_, items)| items) {
            if let ItemRecord::Fork { id, chunk, key } | ItemRecord::Derive { id, chunk, key, .. } =
                item
            {
                all.add(*id, *chunk, key, 0);
            }
        }
        let mut known = BTreeSet::new();
        // A repair that was killed had found all doubts before it began to truncate, and what it
        // read may be truncated by now: its frames are the result.
        let (mut earlier, mut complete) = (Unproven::default(), false);
        for (sequence, items) in dropped {
            if is_of_repair(*sequence, items) {
                complete |= *sequence == first;
                earlier.add_earlier(*sequence, items);
            } else if touched.add_frame(items, &mut all) {
                known.insert(*sequence);
            }
        }
        let end = last.map_or(u64::MAX, |last| last + 1);
        let mut gaps = if complete {
            Vec::new()
        } else {
            gaps(first, end, &known)
        };
        let mut records: Vec<(u64, u64, &TouchedRecord)> = Vec::new();
        for (sequence, items) in dropped {
            records.extend(items.iter().filter_map(|item| match item {
                ItemRecord::Touched(record) => Some((record.from, *sequence, record)),
                _ => None,
            }));
        }
        // Records of the fewest frames first: they name the fewest forks.
        records.sort_by_key(|(from, through, _)| through.saturating_sub(*from));
        for (from, through, record) in records {
            if record.any {
                continue;
            }
            let left = without(&gaps, &(from..through + 1));
            if left != gaps {
                gaps = left;
                for (key, length) in &record.forks {
                    touched.add(key, *length);
                }
            }
        }
        let any = gaps.first().cloned().or(earlier.any);
        let mut found = Unproven {
            any,
            forks: earlier.forks,
        };
        found.add(standing, &all, &touched);
        found
    }
}

/// Names of forks that were touched, each with the longest length that a frame gave it.
#[derive(Default)]
struct TouchedNames(BTreeMap<ForkKey, u64>);

impl TouchedNames {
    fn add(&mut self, key: &ForkKey, length: u64) {
        if key.file != ADDRESSED {
            let longest = self.0.entry(key.clone()).or_default();
            *longest = length.max(*longest);
        }
    }

    /// Adds what a frame touched; false if that is unknown.
    fn add_frame(&mut self, items: &[ItemRecord], all: &mut ForkSketch) -> bool {
        let makes_checkpoint = |file| {
            let of = |item: &ItemRecord| matches!(item, ItemRecord::Checkpoint { file: f, .. } if *f == file);
            items.iter().any(of)
        };
        let mut known = true;
        for item in items {
            if let Some((id, length)) = written(item) {
                match all.forks.get(&id).map(|fork| fork.key.clone()) {
                    Some(key) => self.add(&key, length.of(0)),
                    None => known = false,
                }
                continue;
            }
            match item {
                ItemRecord::Derive { key, length, .. } if !makes_checkpoint(key.file) => {
                    self.add(key, *length);
                }
                ItemRecord::Keep { id, .. } => all.keep(*id),
                ItemRecord::Remove { id } => match all.forks.get(id) {
                    Some(fork) if fork.kept => {}
                    Some(fork) => self.add(&fork.key.clone(), 0),
                    None => known = false,
                },
                ItemRecord::Delete { file } => {
                    for id in all.of_file(*file) {
                        self.add(&all.forks[&id].key.clone(), 0);
                    }
                }
                // It touched all of them.
                ItemRecord::DoubtAll { .. } => known = false,
                // These write, and were handled above.
                ItemRecord::Data { .. }
                | ItemRecord::Pieces { .. }
                | ItemRecord::Map { .. }
                | ItemRecord::Clear { .. }
                | ItemRecord::Truncate { .. }
                | ItemRecord::Cut { .. }
                | ItemRecord::Doubt { .. }
                // These change no bytes that readers see.
                | ItemRecord::Fork { .. }
                | ItemRecord::Derive { .. }
                | ItemRecord::Merged { .. }
                | ItemRecord::Empty { .. }
                | ItemRecord::Operation { .. }
                | ItemRecord::Synced { .. }
                | ItemRecord::Touched(_)
                | ItemRecord::Trust { .. }
                | ItemRecord::Checkpoint { .. }
                | ItemRecord::Forget { .. }
                | ItemRecord::Adopt { .. }
                | ItemRecord::Own { .. } => {}
            }
        }
        known
    }
}

/// The ranges between known numbers, from `first` to before `end`.
fn gaps(first: u64, end: u64, known: &BTreeSet<u64>) -> Vec<Range<u64>> {
    let (mut gaps, mut at) = (Vec::new(), first);
    for number in known.range(first..).copied().chain([end]) {
        if at < number {
            gaps.push(at..number);
        }
        at = number.saturating_add(1);
    }
    gaps
}

/// Ranges without the numbers in `removed`.
fn without(ranges: &[Range<u64>], removed: &Range<u64>) -> Vec<Range<u64>> {
    let rest = ranges.iter().flat_map(|range| {
        let before = range.start..range.end.min(removed.start);
        let after = range.start.max(removed.end)..range.end;
        [before, after]
    });
    rest.filter(|range| range.start < range.end).collect()
}

impl Unproven {
    /// Adds what a repair found that was killed.
    fn add_earlier(&mut self, sequence: u64, items: &[ItemRecord]) {
        for item in items {
            match item {
                ItemRecord::DoubtAll { .. } => self.any = Some(sequence..sequence + 1),
                ItemRecord::Doubt {
                    id,
                    chunk,
                    key,
                    end,
                    length,
                } => self.forks.push(DoubtedFork {
                    id: *id,
                    chunk: *chunk,
                    key: key.clone(),
                    end: *end,
                    length: *length,
                }),
                _ => {}
            }
        }
    }

    fn add(&mut self, standing: &ForkSketch, all: &ForkSketch, touched: &TouchedNames) {
        // Fork numbers are never used twice, not even those of forks that no record has any more.
        let mut next = self
            .forks
            .iter()
            .map(|fork| fork.id.0 + 1)
            .max()
            .unwrap_or(0);
        next = next.max(all.next);
        for (key, longest) in &touched.0 {
            let current = standing.names.get(key);
            let known = current.and_then(|id| Some((*id, standing.forks.get(id)?)));
            let (id, chunk, length) = match known {
                Some((id, fork)) => (id, fork.chunk, fork.length.max(*longest)),
                None if *longest == 0 => continue,
                None => {
                    next += 1;
                    let lost = all.forks.values().filter(|fork| fork.key == *key);
                    let chunk = lost.map(|fork| fork.chunk).next_back().unwrap_or(0);
                    (ForkId(next - 1), chunk, *longest)
                }
            };
            self.push(id, chunk, key, length);
        }
        // The index may know from dropped frames that a checkpoint kept a fork, but have only some
        // of the writes to it.
        for (id, fork) in &standing.forks {
            let is_current = standing.names.get(&fork.key) == Some(id);
            let may_be_touched = self.any.is_some() || touched.0.contains_key(&fork.key);
            if fork.open && !is_current && may_be_touched && fork.key.file != ADDRESSED {
                self.push(*id, fork.chunk, &fork.key, fork.length);
            }
        }
    }

    fn push(&mut self, id: ForkId, chunk: u32, key: &ForkKey, length: u64) {
        let end = if self.any.is_some() { u64::MAX } else { length };
        if end > 0 {
            self.forks.push(DoubtedFork {
                id,
                chunk,
                key: key.clone(),
                end,
                length,
            });
        }
    }

    /// Frames that say so, numbered from `first` on; at least one, even if nothing is in doubt.
    /// They also say that everything up to them is on stable storage, so that they cannot be taken
    /// for the torn end of a log.
    pub(super) fn frames(&self, first: u64) -> Vec<u8> {
        let (mut out, mut sequence) = (Vec::new(), first);
        let mut close = |mut body: Vec<u8>| {
            ItemRecord::Synced { through: sequence }.encode(&mut body);
            FrameRecord::append(&mut out, sequence, true, &body);
            sequence += 1;
        };
        let mut body = new_body(0);
        if self.any.is_some() {
            ItemRecord::DoubtAll { below: ADDRESSED }.encode(&mut body);
        }
        for fork in &self.forks {
            if body.len() > BODY_SOFT {
                close(std::mem::replace(&mut body, new_body(0)));
            }
            ItemRecord::Doubt {
                id: fork.id,
                chunk: fork.chunk,
                key: fork.key.clone(),
                end: fork.end,
                length: fork.length,
            }
            .encode(&mut body);
        }
        close(body);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_the_ranges_between_known_numbers() {
        let known: BTreeSet<u64> = [2, 3, 7].into();
        assert_eq!(gaps(2, 8, &known), vec![4..7]);
        assert_eq!(gaps(1, 10, &known), [1..2, 4..7, 8..10]);
        assert_eq!(gaps(8, 8, &known), []);
        assert_eq!(without(&[1..2, 4..7, 8..10], &(1..6)), [6..7, 8..10]);
        let one = std::slice::from_ref(&(4..7));
        assert_eq!(without(one, &(5..6)), [4..5, 6..7]);
    }
}
