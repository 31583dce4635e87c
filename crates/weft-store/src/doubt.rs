//! Bytes of which nobody can prove that they are as they were last acknowledged: `docs/design/0024-losses.md`.
//!
//! A repair that cuts a damaged log puts forks in *doubt*: those that frames which went may have touched. The bytes stay where they
//! are, hidden: a read of any is an error, until they are written, cut off, rolled back or accepted. (A clearing says nothing: there may be
//! fewer bytes than are hidden.) So nothing below the
//! read knows of doubt, and accepting shows what was there when the log was cut.
//!
//! Doubt is a set of ranges of bytes for each fork. Every item of the log that says what bytes are takes from it when it takes
//! effect and again when it is replayed, so the log needs no items for that. Invariants:
//! 1. What is in doubt of a fork is at most what was in doubt when the log was cut: it only shrinks until the next repair.
//! 2. A fork that a checkpoint keeps gets into doubt only as part of a fork that was in doubt when the checkpoint was made.
//! 3. What derives from a fork is in doubt as that is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weft_layout::FileId;

use crate::addressed::ADDRESSED;
use crate::error::StoreError;
use crate::key::{ForkKey, Run};
use crate::record::{AbsentRecord, DoubtRecord, ForkId, ItemRecord, META, TrustRecord, new_body};
use crate::state::State;

/// Ranges that a fork's doubt may have. What would make more of them stays in doubt.
const RANGES_MAX: usize = 4096;

/// Bytes of a fork: ascending, disjoint, not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// Everything, whatever a fork's length.
    fn all() -> Self {
        Self(std::iter::once(0..u64::MAX).collect())
    }

    /// Ranges as they were stored; `None` where they are not in order.
    pub(crate) fn new(ranges: Vec<Range<u64>>) -> Option<Self> {
        let legal = ranges.iter().all(|range| range.start < range.end);
        let ordered = ranges.windows(2).all(|pair| pair[0].end < pair[1].start);
        (legal && ordered && ranges.len() <= RANGES_MAX).then_some(Self(ranges))
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the bytes before `end`.
    fn add_below(&mut self, end: u64) {
        if end == 0 {
            return;
        }
        let mut merged = 0..end;
        self.0.retain(|range| {
            let apart = range.start > merged.end;
            if !apart {
                merged.end = merged.end.max(range.end);
            }
            apart
        });
        self.0.insert(0, merged);
    }

    /// Takes bytes away; whether there were any.
    fn subtract(&mut self, gone: &Range<u64>) -> bool {
        let from = self.0.partition_point(|range| range.end <= gone.start);
        let to = self.0.partition_point(|range| range.start < gone.end);
        if from >= to || gone.is_empty() {
            return false;
        }
        let before = self.0[from].start..gone.start;
        let behind = gone.end..self.0[to - 1].end;
        let left: Vec<_> = [before, behind]
            .into_iter()
            .filter(|range| range.start < range.end)
            .collect();
        if self.0.len() - (to - from) + left.len() > RANGES_MAX {
            return false;
        }
        self.0.splice(from..to, left);
        true
    }

    /// The first range that has any of these bytes.
    fn overlap(&self, wanted: &Range<u64>) -> Option<&Range<u64>> {
        let at = self.0.partition_point(|range| range.end <= wanted.start);
        self.0.get(at).filter(|range| range.start < wanted.end)
    }
}

/// What is in doubt of a store.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    forks: BTreeMap<ForkId, Ranges>,
    /// A fork of a file before this one that is not there may have been there, except of files that are trusted.
    absent: Option<FileId>,
    trusted: BTreeSet<FileId>,
    /// Checkpoints that were made while that was so.
    unsure: BTreeSet<(FileId, u64)>,
    /// What of this differs from the index.
    changed: BTreeSet<ForkId>,
    changed_files: BTreeSet<FileId>,
    changed_unsure: BTreeSet<(FileId, u64)>,
    changed_all: bool,
}

/// A change of the index.
type Change = (weft_kv::Space, Vec<u8>, Option<Vec<u8>>);

impl Doubts {
    /// Takes in what the index has of a fork.
    pub(crate) fn load(&mut self, id: ForkId, ranges: Ranges) {
        self.forks.insert(id, ranges);
    }

    /// The index says that forks of files before this one which are not there are in doubt.
    pub(crate) fn load_absent(&mut self, below: FileId) {
        self.absent = Some(below);
    }

    /// The index says that a file is trusted all the same.
    pub(crate) fn load_trusted(&mut self, file: FileId) {
        self.trusted.insert(file);
    }

    /// The index says that a checkpoint was made while forks were in doubt that are not there.
    pub(crate) fn load_unsure(&mut self, file: FileId, number: u64) {
        self.unsure.insert((file, number));
    }

    /// What differs from the index, as changes of it; it does not any more.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        let forks = std::mem::take(&mut self.changed);
        let forks = forks.into_iter().map(|id| {
            let ranges = self.forks.get(&id);
            (META, DoubtRecord::key(id), ranges.map(DoubtRecord::encode))
        });
        let files = std::mem::take(&mut self.changed_files);
        let files = files.into_iter().map(|file| {
            let trusted = self.trusted.contains(&file);
            let value = trusted.then(TrustRecord::encode);
            (META, TrustRecord::key(file), value)
        });
        let all = std::mem::take(&mut self.changed_all).then(|| {
            let value = self.absent.map(AbsentRecord::encode);
            (META, AbsentRecord::KEY.to_vec(), value)
        });
        let unsure = std::mem::take(&mut self.changed_unsure);
        let unsure = unsure.into_iter().map(|(file, number)| {
            let value = self.unsure.contains(&(file, number));
            let value = value.then(TrustRecord::encode);
            (META, TrustRecord::unsure_key(file, number), value)
        });
        forks.chain(files).chain(unsure).chain(all).collect()
    }

    fn set(&mut self, id: ForkId, ranges: Ranges) {
        self.changed.insert(id);
        if ranges.is_empty() {
            self.forks.remove(&id);
        } else {
            self.forks.insert(id, ranges);
        }
    }

    /// A fork is gone.
    pub(crate) fn forget(&mut self, id: ForkId) {
        if self.forks.remove(&id).is_some() {
            self.changed.insert(id);
        }
    }

    /// A fork derives from another, with all its doubt.
    pub(crate) fn derive(&mut self, id: ForkId, parent: ForkId) {
        match self.forks.get(&parent).cloned() {
            Some(ranges) => self.set(id, ranges),
            None => self.forget(id),
        }
    }

    /// A fork was made that was not there.
    pub(crate) fn made(&mut self, id: ForkId, file: FileId) {
        if self.doubts_absent(file) {
            self.set(id, Ranges::all());
        }
    }

    /// A checkpoint was made of a file: what it does not have is in doubt as it is in the file.
    pub(crate) fn kept(&mut self, file: FileId, number: u64) {
        if self.doubts_absent(file) {
            self.unsure.insert((file, number));
            self.changed_unsure.insert((file, number));
        }
    }

    /// A checkpoint is gone, or a whole file's are.
    fn sure(&mut self, of: impl Fn(&(FileId, u64)) -> bool) {
        let gone: Vec<_> = self.unsure.iter().copied().filter(of).collect();
        for checkpoint in gone {
            self.unsure.remove(&checkpoint);
            self.changed_unsure.insert(checkpoint);
        }
    }

    /// Whether forks of a file that are not there may have been.
    pub(crate) fn doubts_absent(&self, file: FileId) -> bool {
        self.absent.is_some_and(|below| file < below) && !self.trusted.contains(&file)
    }

    /// Whether a fork that is not there, in a file or a checkpoint of it, may have been.
    fn hides(&self, file: FileId, checkpoint: Option<u64>) -> bool {
        match checkpoint {
            Some(number) => self.unsure.contains(&(file, number)),
            None => self.doubts_absent(file),
        }
    }

    /// These bytes of a fork are what was just said.
    pub(crate) fn prove(&mut self, id: ForkId, bytes: &Range<u64>) {
        let Some(ranges) = self.forks.get_mut(&id) else {
            return;
        };
        if ranges.subtract(bytes) {
            self.changed.insert(id);
            if ranges.is_empty() {
                self.forks.remove(&id);
            }
        }
    }

    /// As [`Doubts::prove`], of pieces.
    pub(crate) fn prove_runs(&mut self, id: ForkId, runs: &[Run]) {
        for run in runs {
            for n in 0..run.count {
                // Often none is left after the first few.
                if !self.forks.contains_key(&id) {
                    return;
                }
                let piece = run.after(n).offset.0;
                self.prove(id, &(piece..piece + run.length));
            }
        }
    }

    /// Whether anything of a fork is in doubt.
    pub(crate) fn has(&self, id: ForkId) -> bool {
        self.forks.contains_key(&id)
    }

    /// Whether anything is in doubt.
    pub(crate) fn any(&self) -> bool {
        self.absent.is_some() || !self.forks.is_empty() || !self.unsure.is_empty()
    }

    /// Forks that are not there may have been, of files before this one.
    pub(crate) fn absent(&self) -> Option<FileId> {
        self.absent
    }

    /// Checkpoints that were made while that was so.
    pub(crate) fn unsure(&self) -> impl Iterator<Item = (FileId, u64)> {
        self.unsure.iter().copied()
    }

    /// The forks of which something is in doubt.
    pub(crate) fn forks(&self) -> impl Iterator<Item = (ForkId, &Ranges)> {
        self.forks.iter().map(|(id, ranges)| (*id, ranges))
    }

    fn trust(&mut self, file: FileId, forks: &[ForkId]) {
        for id in forks {
            self.forget(*id);
        }
        self.sure(|(of, _)| *of == file);
        if self.doubts_absent(file) {
            self.trusted.insert(file);
            self.changed_files.insert(file);
        }
    }

    fn trust_all(&mut self) {
        self.changed
            .extend(std::mem::take(&mut self.forks).into_keys());
        self.changed_files.append(&mut self.trusted);
        self.sure(|_| true);
        self.changed_all |= self.absent.take().is_some();
    }

    fn doubt_all(&mut self, below: FileId, living: Vec<ForkId>) {
        for id in living {
            self.set(id, Ranges::all());
        }
        self.changed_files.append(&mut self.trusted);
        // Those that there are now are as they were made.
        self.sure(|_| true);
        self.absent = self.absent.max(Some(below));
        self.changed_all = true;
    }
}

impl State {
    /// Bytes of a fork before `end` are in doubt.
    pub(crate) fn doubt_below(&mut self, id: ForkId, end: u64) {
        let doubts = self.doubts();
        let mut ranges = doubts.forks.get(&id).cloned().unwrap_or_default();
        ranges.add_below(end);
        doubts.set(id, ranges);
        self.changes.forks.insert(id);
    }

    /// Everything that can change of files before `below` is in doubt: all that is no checkpoint's. What is named by what it
    /// holds proves itself.
    pub(crate) fn doubt_all(&mut self, below: FileId) {
        let living = self.forks.iter();
        let living = living.filter(|(_, f)| f.kept.is_none() && f.key.file < below);
        let living: Vec<ForkId> = living.map(|(id, _)| *id).collect();
        self.changes.forks.extend(&living);
        // So that there is something to apply in any case.
        self.changes.files.insert(ADDRESSED);
        self.doubts().doubt_all(below, living);
    }

    /// A file's bytes count as proven, in its cells and checkpoints.
    pub(crate) fn trust(&mut self, file: FileId) {
        let forks = self.doubted_of(Some(file));
        self.doubts().trust(file, &forks);
        self.changes.files.insert(file);
    }

    /// Everything counts as proven.
    pub(crate) fn trust_all(&mut self) {
        self.changes.files.insert(ADDRESSED);
        self.doubts().trust_all();
    }

    /// Forks of which something is in doubt; of one file, or of all.
    pub(crate) fn doubted_of(&self, file: Option<FileId>) -> Vec<ForkId> {
        let of = |id: &ForkId| self.forks.get(id).map(|fork| fork.key.file);
        let all = self.doubted().forks().map(|(id, _)| id);
        all.filter(|id| file.is_none() || of(id) == file).collect()
    }

    /// What is in doubt of a fork, up to its length where that is in doubt as well.
    pub(crate) fn doubted_ranges(&self, id: ForkId) -> Vec<Range<u64>> {
        let length = self.forks.get(&id).map_or(0, |fork| fork.length);
        let ranges = self.doubted().forks.get(&id).map(Ranges::each);
        let ranges = ranges.into_iter().flatten();
        let within = |range: &Range<u64>| match range.end {
            u64::MAX => range.start..length.max(range.start),
            end => range.start..end,
        };
        ranges.map(within).collect()
    }

    /// Refuses to read bytes that are in doubt; `id`: the fork of this name, if there is one, living or of a checkpoint.
    pub(crate) fn check_proven(
        &self,
        key: &ForkKey,
        (id, checkpoint): (Option<ForkId>, Option<u64>),
        wanted: Range<u64>,
    ) -> Result<(), StoreError> {
        let doubts = self.doubted();
        let range = match id {
            _ if wanted.is_empty() => None,
            Some(id) => doubts
                .forks
                .get(&id)
                .and_then(|r| r.overlap(&wanted))
                .cloned(),
            None => doubts.hides(key.file, checkpoint).then_some(0..u64::MAX),
        };
        let Some(range) = range else {
            return Ok(());
        };
        let length = id
            .and_then(|id| self.forks.get(&id))
            .map_or(0, |f| f.length);
        let end = match range.end {
            u64::MAX => length.max(wanted.end),
            end => end,
        };
        Err(StoreError::Unproven {
            file: key.file,
            cell: key.cell,
            fork: key.fork.clone(),
            range: range.start..end,
        })
    }

    /// Whether forks of a file, or of a checkpoint, may be longer than they are, or others may be there.
    pub(crate) fn doubts_ends(&self, file: FileId, checkpoint: Option<u64>) -> bool {
        let doubts = self.doubted();
        let endless = |(id, ranges): (&ForkId, &Ranges)| {
            let of = self.forks.get(id);
            let fits = of.is_some_and(|fork| fork.key.file == file && fork.kept == checkpoint);
            fits && ranges.0.last().is_some_and(|last| last.end == u64::MAX)
        };
        doubts.hides(file, checkpoint) || doubts.forks.iter().any(endless)
    }

    /// Queues what makes a fork that is in doubt at least this long: more is not said of it.
    pub(crate) fn encode_length(&self, id: ForkId, length: u64, body: &mut Vec<u8>) {
        let fork = &self.forks[&id];
        ItemRecord::Doubt {
            id,
            chunk: fork.chunk,
            key: fork.key.clone(),
            end: 0,
            length,
        }
        .encode(body);
    }

    /// Accepts a file's bytes as they are, or everyone's; the frame's sequence.
    pub(crate) fn accept_doubt(&mut self, file: Option<FileId>) -> u64 {
        let nothing = match file {
            Some(file) => {
                self.doubted_of(Some(file)).is_empty() && !self.doubted().doubts_absent(file)
            }
            None => self.doubted_of(None).is_empty() && self.doubted().absent().is_none(),
        };
        if nothing {
            return self.sequence;
        }
        let mut body = new_body(0);
        ItemRecord::Trust { file }.encode(&mut body);
        match file {
            Some(file) => self.trust(file),
            None => self.trust_all(),
        }
        self.log(&body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_leaves_the_doubt_and_nothing_else_does() {
        let mut model = [true; 40];
        let mut ranges = Ranges::default();
        ranges.add_below(40);
        let mut state = 7_u64;
        for _ in 0..30 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (from, length) = ((state >> 40) % 40, (state >> 50) % 6);
            ranges.subtract(&(from..from + length));
            let end = (from + length).min(40) as usize;
            model[from as usize..end].fill(false);
            for (at, doubted) in (0_u64..).zip(model) {
                assert_eq!(
                    ranges.overlap(&(at..at + 1)).is_some(),
                    doubted,
                    "byte {at}"
                );
            }
            assert_eq!(Ranges::new(ranges.0.clone()), Some(ranges.clone()));
        }
        ranges.add_below(20);
        assert!((0..20).all(|at| ranges.overlap(&(at..at + 1)).is_some()));
    }

    #[test]
    fn too_many_ranges_stay_in_doubt() {
        let mut ranges = Ranges::all();
        for n in 0..2 * RANGES_MAX as u64 {
            ranges.subtract(&(n * 2..n * 2 + 1));
        }
        assert_eq!(ranges.0.len(), RANGES_MAX);
        assert!(ranges.subtract(&(0..u64::MAX)));
        assert!(ranges.is_empty());
    }
}
