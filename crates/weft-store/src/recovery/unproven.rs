//! What a cut of a damaged log leaves unproven: `docs/design/0024-losses.md`.
//!
//! The store is a prefix then, and a file differs from what was acknowledged of it only where
//! frames that went touched it. Those that can still be read say what they touched; of the others
//! later frames say it (`touched.rs`). What neither says may have been done to any file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weft_kv::OrderedKv;
use weft_layout::FileId;

use crate::error::StoreError;
use crate::index::visit;
use crate::key::{ADDRESSED, ForkKey, Run};
use crate::record::{
    BODY_SOFT, FORKS, ForkId, ForkPlace, ForkRecord, FrameRecord, ItemRecord, META, STORE_KEY,
    StoreRecord, TouchedRecord, new_body,
};

/// A fork, as far as frames and records tell.
#[derive(Clone, Debug)]
struct Known {
    key: ForkKey,
    chunk: u32,
    length: u64,
    kept: bool,
    /// A frame behind what the index has wrote to it, and none says that it was kept.
    open: bool,
}

/// The forks of a store and their names: what replaying makes of them, without their bytes.
#[derive(Debug, Default)]
pub(crate) struct Sketch {
    forks: BTreeMap<ForkId, Known>,
    names: BTreeMap<ForkKey, ForkId>,
    next: u64,
}

impl Sketch {
    /// What an index has. Records that cannot be read say nothing.
    pub(crate) fn of(index: &dyn OrderedKv) -> Result<Self, StoreError> {
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
            let kept = matches!(place, ForkPlace::Kept(..));
            let (ForkPlace::Living(key) | ForkPlace::Kept(key, _)) = place;
            let living = sketch.names.get(&key).copied();
            sketch.add(record.id, record.chunk, &key, record.length);
            if kept {
                sketch.keep(record.id);
                if let Some(living) = living {
                    sketch.names.insert(key, living);
                }
            }
            Ok(())
        })?;
        Ok(sketch)
    }

    fn add(&mut self, id: ForkId, chunk: u32, key: &ForkKey, length: u64) {
        self.next = self.next.max(id.0 + 1);
        let known = Known {
            key: key.clone(),
            chunk,
            length,
            kept: false,
            open: false,
        };
        // A kept one and its heir come in any order.
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

    /// What an item does to forks and names.
    pub(crate) fn replay(&mut self, item: &ItemRecord) {
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
            _ => {}
        }
    }

    fn of_file(&self, file: FileId) -> Vec<ForkId> {
        let forks = self.forks.iter();
        let forks = forks.filter(|(_, fork)| fork.key.file == file);
        forks.map(|(id, _)| *id).collect()
    }
}

/// A length that an item leaves a fork with.
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

/// The fork whose bytes or length an item changes as its readers see it.
fn written(item: &ItemRecord) -> Option<(ForkId, Length)> {
    Some(match item {
        ItemRecord::Data { id, offset, data } => (*id, Length::AtLeast(offset + data.len() as u64)),
        ItemRecord::Pieces { id, runs, .. } => {
            let end = runs.iter().map(Run::end).max();
            (*id, Length::AtLeast(end.unwrap_or(0)))
        }
        // A flush moves bytes, and has no end.
        ItemRecord::Map { id, end, .. } if *end > 0 => (*id, Length::AtLeast(*end)),
        ItemRecord::Clear { id, .. } => (*id, Length::AtLeast(0)),
        ItemRecord::Truncate { id, length } | ItemRecord::Cut { id, length } => {
            (*id, Length::Exactly(*length))
        }
        ItemRecord::Doubt { id, length, .. } => (*id, Length::AtLeast(*length)),
        _ => return None,
    })
}

/// Whether a repair wrote a frame, instead of frames that went: only those say of themselves that
/// they are synced.
fn is_repairs(sequence: u64, items: &[ItemRecord]) -> bool {
    let own =
        |item: &ItemRecord| matches!(item, ItemRecord::Synced { through } if *through == sequence);
    items.iter().any(own)
}

/// A fork that is in doubt.
#[derive(Clone, Debug)]
pub(crate) struct Doubted {
    id: ForkId,
    chunk: u32,
    pub(crate) key: ForkKey,
    /// Bytes before this.
    pub(crate) end: u64,
    length: u64,
}

/// What is in doubt after a cut.
#[derive(Debug, Default)]
pub(crate) struct Unproven {
    /// Frames of which nothing says what they did: everything is.
    pub(crate) any: Option<Range<u64>>,
    pub(crate) forks: Vec<Doubted>,
}

/// Finds out what a cut before frame `first` leaves in doubt. `standing`: what stands, of which the
/// index has not all; `gone`: the frames that go and can be read, by number; `last`: the last frame
/// that there was, `None`: that is not known.
pub(crate) fn judge(
    standing: &Sketch,
    gone: &[(u64, Vec<ItemRecord>)],
    first: u64,
    last: Option<u64>,
) -> Unproven {
    let mut touched = Touched::default();
    let mut all = Sketch {
        forks: standing.forks.clone(),
        names: standing.names.clone(),
        next: standing.next,
    };
    for item in gone.iter().flat_map(|(_, items)| items) {
        if let ItemRecord::Fork { id, chunk, key } | ItemRecord::Derive { id, chunk, key, .. } =
            item
        {
            all.add(*id, *chunk, key, 0);
        }
    }
    let mut known = BTreeSet::new();
    // A repair that died had come to its end before it began to cut, and what it read may be cut by
    // now.
    let (mut earlier, mut judged) = (Unproven::default(), false);
    for (sequence, items) in gone {
        if is_repairs(*sequence, items) {
            judged |= *sequence == first;
            earlier.take(*sequence, items);
        } else if touched.frame(items, &mut all) {
            known.insert(*sequence);
        }
    }
    let end = last.map_or(u64::MAX, |last| last + 1);
    let mut gaps = if judged {
        Vec::new()
    } else {
        gaps(first, end, &known)
    };
    let mut said: Vec<(u64, u64, &TouchedRecord)> = Vec::new();
    for (sequence, items) in gone {
        said.extend(items.iter().filter_map(|item| match item {
            ItemRecord::Touched(record) => Some((record.from, *sequence, record)),
            _ => None,
        }));
    }
    // Those that are about the fewest frames first: they name the fewest forks.
    said.sort_by_key(|(from, through, _)| through.saturating_sub(*from));
    for (from, through, record) in said {
        if record.any {
            continue;
        }
        let left = without(&gaps, &(from..through + 1));
        if left != gaps {
            gaps = left;
            for (key, length) in &record.forks {
                touched.name(key, *length);
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

/// Names whose forks were touched, with the longest length that is told of each.
#[derive(Default)]
struct Touched(BTreeMap<ForkKey, u64>);

impl Touched {
    fn name(&mut self, key: &ForkKey, length: u64) {
        if key.file != ADDRESSED {
            let longest = self.0.entry(key.clone()).or_default();
            *longest = length.max(*longest);
        }
    }

    /// What a frame touched; false where that cannot be told.
    fn frame(&mut self, items: &[ItemRecord], all: &mut Sketch) -> bool {
        let makes_checkpoint = |file| {
            let of = |item: &ItemRecord| matches!(item, ItemRecord::Checkpoint { file: f, .. } if *f == file);
            items.iter().any(of)
        };
        let mut known = true;
        for item in items {
            if let Some((id, length)) = written(item) {
                match all.forks.get(&id).map(|fork| fork.key.clone()) {
                    Some(key) => self.name(&key, length.of(0)),
                    None => known = false,
                }
                continue;
            }
            match item {
                ItemRecord::Derive { key, length, .. } if !makes_checkpoint(key.file) => {
                    self.name(key, *length);
                }
                ItemRecord::Keep { id, .. } => all.keep(*id),
                ItemRecord::Remove { id } => match all.forks.get(id) {
                    Some(fork) if fork.kept => {}
                    Some(fork) => self.name(&fork.key.clone(), 0),
                    None => known = false,
                },
                ItemRecord::Delete { file } => {
                    for id in all.of_file(*file) {
                        self.name(&all.forks[&id].key.clone(), 0);
                    }
                }
                // All of them.
                ItemRecord::DoubtAll { .. } => known = false,
                _ => {}
            }
        }
        known
    }
}

/// What lies between known numbers, from `first` to before `end`.
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

/// Ranges without one.
fn without(ranges: &[Range<u64>], gone: &Range<u64>) -> Vec<Range<u64>> {
    let parts = ranges.iter().flat_map(|range| {
        let before = range.start..range.end.min(gone.start);
        let behind = range.start.max(gone.end)..range.end;
        [before, behind]
    });
    parts.filter(|part| part.start < part.end).collect()
}

impl Unproven {
    /// What a repair that died had found.
    fn take(&mut self, sequence: u64, items: &[ItemRecord]) {
        for item in items {
            match item {
                ItemRecord::DoubtAll { .. } => self.any = Some(sequence..sequence + 1),
                ItemRecord::Doubt {
                    id,
                    chunk,
                    key,
                    end,
                    length,
                } => self.forks.push(Doubted {
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

    fn add(&mut self, standing: &Sketch, all: &Sketch, touched: &Touched) {
        // Numbers of forks are never used twice, not even those of forks that nobody knows any
        // more.
        let mut next = self
            .forks
            .iter()
            .map(|fork| fork.id.0 + 1)
            .max()
            .unwrap_or(0);
        next = next.max(all.next);
        for (key, longest) in &touched.0 {
            let living = standing.names.get(key);
            let known = living.and_then(|id| Some((*id, standing.forks.get(id)?)));
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
        // An index may know from frames that are gone that a fork was kept, and of what was written
        // to it only a part.
        for (id, fork) in &standing.forks {
            let is_heir = standing.names.get(&fork.key) == Some(id);
            let may_be_touched = self.any.is_some() || touched.0.contains_key(&fork.key);
            if fork.open && !is_heir && may_be_touched && fork.key.file != ADDRESSED {
                self.push(*id, fork.chunk, &fork.key, fork.length);
            }
        }
    }

    fn push(&mut self, id: ForkId, chunk: u32, key: &ForkKey, length: u64) {
        let end = if self.any.is_some() { u64::MAX } else { length };
        if end > 0 {
            self.forks.push(Doubted {
                id,
                chunk,
                key: key.clone(),
                end,
                length,
            });
        }
    }

    /// Frames that say so, the first of which is number `first`; one at least, also where nothing
    /// is in doubt. They also say that everything up to them is on stable storage: then nothing
    /// takes them for the torn end of a log.
    pub(crate) fn frames(&self, first: u64) -> Vec<u8> {
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
    fn gaps_are_what_is_between_known_numbers() {
        let known: BTreeSet<u64> = [2, 3, 7].into();
        assert_eq!(gaps(2, 8, &known), vec![4..7]);
        assert_eq!(gaps(1, 10, &known), [1..2, 4..7, 8..10]);
        assert_eq!(gaps(8, 8, &known), []);
        assert_eq!(without(&[1..2, 4..7, 8..10], &(1..6)), [6..7, 8..10]);
        let one = std::slice::from_ref(&(4..7));
        assert_eq!(without(one, &(5..6)), [4..5, 6..7]);
    }
}
