//! Bytes of which nobody can prove that they are as they were last acknowledged:
//! `docs/design/0024-losses.md`.
//!
//! A repair that cuts a damaged log puts forks in *doubt*: those that frames which went may have
//! touched. The bytes stay where they are, hidden: a read of any is an error, until they are
//! written, cut off, rolled back or accepted. (A clearing says nothing: there may be fewer bytes
//! than are hidden.) So nothing below the read knows of doubt, and accepting shows what was there
//! when the log was cut.
//!
//! Doubt is a set of ranges of bytes for each fork. Every item of the log that says what bytes are
//! takes from it when it takes effect and again when it is replayed, so the log needs no items for
//! that. Invariants:
//! 1. What is in doubt of a fork is at most what was in doubt when the log was cut: it only shrinks
//!    until the next repair.
//! 2. A fork that a checkpoint keeps gets into doubt only as part of a fork that was in doubt when
//!    the checkpoint was made.
//! 3. What derives from a fork is in doubt as that is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weft_layout::FileId;

use crate::key::Run;
use crate::record::{AbsentRecord, DoubtRecord, ForkId, META, Ranges, TrustRecord};

/// What is in doubt of a store.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    forks: BTreeMap<ForkId, Ranges>,
    /// A fork of a file before this one that is not there may have been there, except of files that
    /// are trusted.
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

    /// Puts the bytes of a fork before `end` in doubt.
    pub(crate) fn doubt_below(&mut self, id: ForkId, end: u64) {
        let mut ranges = self.forks.get(&id).cloned().unwrap_or_default();
        ranges.add_below(end);
        self.set(id, ranges);
    }

    /// What is in doubt of a fork.
    pub(crate) fn ranges(&self, id: ForkId) -> Option<&Ranges> {
        self.forks.get(&id)
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
    pub(crate) fn hides(&self, file: FileId, checkpoint: Option<u64>) -> bool {
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
        // Those that there are now are as they were made.
        self.sure(|_| true);
        self.absent = self.absent.max(Some(below));
        self.changed_all = true;
    }
}
