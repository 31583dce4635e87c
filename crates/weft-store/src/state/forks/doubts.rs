//! Doubt: which bytes of which forks are not proven.

use std::ops::Range;

use weft_layout::FileId;

use crate::error::StoreError;
use crate::forks::Fork;
use crate::key::{ADDRESSED, ForkKey};
use crate::record::{ForkId, ItemRecord, Ranges, new_body};
use crate::state::StoreState;

impl StoreState {
    /// Bytes of a fork before `end` are in doubt.
    pub(crate) fn doubt_below(&mut self, id: ForkId, end: u64) {
        self.doubts_mut().doubt_below(id, end);
        self.changes.fork(id);
    }

    /// All live forks of files before `below` are in doubt; checkpoints are not. Addressed chunks
    /// prove themselves by their names.
    pub(crate) fn doubt_all(&mut self, below: FileId) {
        let live = self.forks.iter();
        let live = live.filter(|(_, f)| f.checkpoint().is_none() && f.key().file < below);
        let live: Vec<ForkId> = live.map(|(id, _)| id).collect();
        for id in &live {
            self.changes.fork(*id);
        }
        // So that the next application is not empty.
        self.changes.file(ADDRESSED);
        self.doubts_mut().doubt_all(below, live);
    }

    /// A file's bytes count as proven, in its forks and checkpoints.
    pub(crate) fn trust(&mut self, file: FileId) {
        let forks = self.doubted_of(Some(file));
        self.doubts_mut().trust(file, &forks);
        self.changes.file(file);
    }

    /// Everything counts as proven.
    pub(crate) fn trust_all(&mut self) {
        self.changes.file(ADDRESSED);
        self.doubts_mut().trust_all();
    }

    /// The forks with doubt, of one file or of all.
    pub(crate) fn doubted_of(&self, file: Option<FileId>) -> Vec<ForkId> {
        let of = |id: &ForkId| self.forks.get(*id).map(|fork| fork.key().file);
        let all = self.doubts().forks().map(|(id, _)| id);
        all.filter(|id| file.is_none() || of(id) == file).collect()
    }

    /// A fork's doubt, up to its length where that is in doubt as well.
    pub(crate) fn doubted_ranges(&self, id: ForkId) -> Vec<Range<u64>> {
        let length = self.forks.get(id).map_or(0, Fork::length);
        let ranges = self.doubts().ranges(id).map(Ranges::each);
        let ranges = ranges.into_iter().flatten();
        let within = |range: &Range<u64>| match range.end {
            u64::MAX => range.start..length.max(range.start),
            end => range.start..end,
        };
        ranges.map(within).collect()
    }

    /// Fails if bytes to be read are in doubt; `id`: the fork of this name, live or of a
    /// checkpoint, if it exists.
    pub(crate) fn check_proven(
        &self,
        key: &ForkKey,
        (id, checkpoint): (Option<ForkId>, Option<u64>),
        wanted: Range<u64>,
    ) -> Result<(), StoreError> {
        let doubts = self.doubts();
        let range = match id {
            _ if wanted.is_empty() => None,
            Some(id) => doubts.ranges(id).and_then(|r| r.overlap(&wanted)).cloned(),
            None => doubts.hides(key.file, checkpoint).then_some(0..u64::MAX),
        };
        let Some(range) = range else {
            return Ok(());
        };
        let length = id.and_then(|id| self.forks.get(id)).map_or(0, Fork::length);
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

    /// Whether forks of a file, or of a checkpoint, may have been longer, or others may have
    /// existed.
    pub(crate) fn doubts_ends(&self, file: FileId, checkpoint: Option<u64>) -> bool {
        let doubts = self.doubts();
        let endless = |(id, ranges): (ForkId, &Ranges)| {
            let of = self.forks.get(id);
            let fits =
                of.is_some_and(|fork| fork.key().file == file && fork.checkpoint() == checkpoint);
            fits && ranges.is_endless()
        };
        doubts.hides(file, checkpoint) || doubts.forks().any(endless)
    }

    /// Adds an item that makes a fork in doubt at least this long.
    pub(crate) fn encode_length(&self, id: ForkId, length: u64, body: &mut Vec<u8>) {
        let fork = &self.forks[id];
        ItemRecord::Doubt {
            id,
            chunk: fork.chunk_code(),
            key: fork.key().clone(),
            end: 0,
            length,
        }
        .encode(body);
    }

    /// Accepts the bytes of a file, or of all files, as they are; returns the frame's sequence.
    pub(crate) fn accept_doubt(&mut self, file: Option<FileId>) -> u64 {
        let nothing = match file {
            Some(file) => {
                self.doubted_of(Some(file)).is_empty() && !self.doubts().doubts_absent(file)
            }
            None => self.doubted_of(None).is_empty() && self.doubts().absent().is_none(),
        };
        if nothing {
            return self.sequence();
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
