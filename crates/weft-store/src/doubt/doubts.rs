//! Bytes that are not proven to be as they were last acknowledged: `docs/design/0024-losses.md`.
//!
//! A repair that truncates a damaged log puts forks in *doubt*: those that lost frames may have
//! touched. Their bytes stay in place but hidden: reading them is an error until they are written,
//! truncated, rolled back or accepted. (A clear proves nothing: the fork may have fewer bytes than
//! are hidden.) So only reads know of doubt, and accepting shows the bytes as of the repair.
//!
//! Doubt is a set of byte ranges for each fork. Every log item that determines bytes removes them
//! from the set when it takes effect, and again when it is replayed, so the log needs no items for
//! that. Invariants:
//! 1. A fork's doubt only shrinks between repairs.
//! 2. A checkpoint fork is in doubt only if its fork was when the checkpoint was made.
//! 3. A fork that derives from another starts with its doubt.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weft_layout::FileId;

use crate::key::Run;
use crate::record::{DoubtRecord, ForkId, META, MissingForksRecord, Ranges, VerifiedFileRecord};

/// All doubt of a store.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    forks: BTreeMap<ForkId, Ranges>,
    /// Forks of files before this one that do not exist may have existed, except in trusted files.
    absent: Option<FileId>,
    trusted: BTreeSet<FileId>,
    /// Checkpoints made while that was so.
    unsure: BTreeSet<(FileId, u64)>,
    /// Forks whose doubt differs from the index; the fields below are the same for the others.
    changed: BTreeSet<ForkId>,
    changed_files: BTreeSet<FileId>,
    changed_unsure: BTreeSet<(FileId, u64)>,
    changed_all: bool,
}

/// A change of the index.
type Change = (weft_kv::Space, Vec<u8>, Option<Vec<u8>>);

impl Doubts {
    /// Loads a fork's doubt from the index.
    pub(crate) fn load(&mut self, id: ForkId, ranges: Ranges) {
        self.forks.insert(id, ranges);
    }

    /// Loads from the index that absent forks of files before this one are in doubt.
    pub(crate) fn load_absent(&mut self, below: FileId) {
        self.absent = Some(below);
    }

    /// Loads from the index that a file is trusted.
    pub(crate) fn load_trusted(&mut self, file: FileId) {
        self.trusted.insert(file);
    }

    /// Loads from the index that a checkpoint was made while absent forks were in doubt.
    pub(crate) fn load_unsure(&mut self, file: FileId, number: u64) {
        self.unsure.insert((file, number));
    }

    /// Takes the differences from the index, as changes of it.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        let forks = std::mem::take(&mut self.changed);
        let forks = forks.into_iter().map(|id| {
            let ranges = self.forks.get(&id);
            (META, DoubtRecord::key(id), ranges.map(DoubtRecord::encode))
        });
        let files = std::mem::take(&mut self.changed_files);
        let files = files.into_iter().map(|file| {
            let trusted = self.trusted.contains(&file);
            let value = trusted.then(VerifiedFileRecord::encode);
            (META, VerifiedFileRecord::key(file), value)
        });
        let all = std::mem::take(&mut self.changed_all).then(|| {
            let value = self.absent.map(MissingForksRecord::encode);
            (META, MissingForksRecord::KEY.to_vec(), value)
        });
        let unsure = std::mem::take(&mut self.changed_unsure);
        let unsure = unsure.into_iter().map(|(file, number)| {
            let value = self.unsure.contains(&(file, number));
            let value = value.then(VerifiedFileRecord::encode);
            (META, VerifiedFileRecord::unsure_key(file, number), value)
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

    /// Puts the bytes of a fork before `end` in doubt.
    pub(crate) fn doubt_below(&mut self, id: ForkId, end: u64) {
        let mut ranges = self.forks.get(&id).cloned().unwrap_or_default();
        ranges.add_below(end);
        self.set(id, ranges);
    }

    /// A fork's doubt.
    pub(crate) fn ranges(&self, id: ForkId) -> Option<&Ranges> {
        self.forks.get(&id)
    }

    /// A fork is removed, or trusted.
    pub(crate) fn forget(&mut self, id: ForkId) {
        if self.forks.remove(&id).is_some() {
            self.changed.insert(id);
        }
    }

    /// A fork derives from another and gets its doubt.
    pub(crate) fn derive(&mut self, id: ForkId, parent: ForkId) {
        match self.forks.get(&parent).cloned() {
            Some(ranges) => self.set(id, ranges),
            None => self.forget(id),
        }
    }

    /// A fork was created that did not exist.
    pub(crate) fn made(&mut self, id: ForkId, file: FileId) {
        if self.doubts_absent(file) {
            self.set(id, Ranges::all());
        }
    }

    /// A checkpoint of a file was made: forks that it lacks are in doubt as in the file.
    pub(crate) fn kept(&mut self, file: FileId, number: u64) {
        if self.doubts_absent(file) {
            self.unsure.insert((file, number));
            self.changed_unsure.insert((file, number));
        }
    }

    /// Checkpoints are removed or trusted.
    fn sure(&mut self, of: impl Fn(&(FileId, u64)) -> bool) {
        let gone: Vec<_> = self.unsure.iter().copied().filter(of).collect();
        for checkpoint in gone {
            self.unsure.remove(&checkpoint);
            self.changed_unsure.insert(checkpoint);
        }
    }

    /// Whether absent forks of a file may have existed.
    pub(crate) fn doubts_absent(&self, file: FileId) -> bool {
        self.absent.is_some_and(|below| file < below) && !self.trusted.contains(&file)
    }

    /// Whether an absent fork of a file, or of a checkpoint of it, may have existed.
    pub(crate) fn hides(&self, file: FileId, checkpoint: Option<u64>) -> bool {
        match checkpoint {
            Some(number) => self.unsure.contains(&(file, number)),
            None => self.doubts_absent(file),
        }
    }

    /// These bytes of a fork are proven: an item of the log determines them.
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

    /// As [`Doubts::prove`], for pieces.
    pub(crate) fn prove_runs(&mut self, id: ForkId, runs: &[Run]) {
        for run in runs {
            for n in 0..run.count {
                // Often no doubt is left after the first few.
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

    /// Absent forks of files before this one may have existed.
    pub(crate) fn absent(&self) -> Option<FileId> {
        self.absent
    }

    /// Checkpoints made while that was so.
    pub(crate) fn unsure(&self) -> impl Iterator<Item = (FileId, u64)> {
        self.unsure.iter().copied()
    }

    /// The forks with doubt.
    pub(crate) fn forks(&self) -> impl Iterator<Item = (ForkId, &Ranges)> {
        self.forks.iter().map(|(id, ranges)| (*id, ranges))
    }

    pub(crate) fn trust(&mut self, file: FileId, forks: &[ForkId]) {
        for id in forks {
            self.forget(*id);
        }
        self.sure(|(of, _)| *of == file);
        if self.doubts_absent(file) {
            self.trusted.insert(file);
            self.changed_files.insert(file);
        }
    }

    pub(crate) fn trust_all(&mut self) {
        self.changed
            .extend(std::mem::take(&mut self.forks).into_keys());
        self.changed_files.append(&mut self.trusted);
        self.sure(|_| true);
        self.changed_all |= self.absent.take().is_some();
    }

    pub(crate) fn doubt_all(&mut self, below: FileId, live: Vec<ForkId>) {
        for id in live {
            self.set(id, Ranges::all());
        }
        self.changed_files.append(&mut self.trusted);
        // Checkpoints that exist now are complete.
        self.sure(|_| true);
        self.absent = self.absent.max(Some(below));
        self.changed_all = true;
    }
}
