//! What of an attachment is noted in its history, where one is recorded.

use weft_referee::{Piece, Promise, What};

use crate::{Error, File};

/// A change under way: dropped before it has ended, it may have happened.
#[must_use = "dropped at once, it counts as not ended"]
pub(crate) struct Noting<'a> {
    file: &'a File,
    begin: i64,
    what: Option<What>,
}

impl Noting<'_> {
    /// It has ended, or it failed, so that it may have happened.
    pub(crate) fn end(mut self, happened: bool) {
        if let Some(what) = self.what.take() {
            let end = happened.then(|| self.file.now());
            self.file.note(self.begin, end, what);
        }
    }
}

impl Drop for Noting<'_> {
    fn drop(&mut self) {
        if let Some(what) = self.what.take() {
            self.file.note(self.begin, None, what);
        }
    }
}

impl File {
    pub(crate) fn is_recorded(&self) -> bool {
        self.0.recorded.is_some()
    }

    pub(crate) fn now(&self) -> i64 {
        self.0.volume.shared.env.clock.now()
    }

    pub(crate) fn note(&self, begin: i64, end: Option<i64>, what: What) {
        if let Some(recorded) = &self.0.recorded {
            recorded.note(begin, end, what);
        }
    }

    /// Begins a change whose end is noted, where a history is recorded.
    pub(crate) fn begin_change(&self, what: impl FnOnce() -> What) -> Noting<'_> {
        Noting {
            file: self,
            begin: self.now(),
            what: self.is_recorded().then(what),
        }
    }

    fn promise(&self) -> Promise {
        let policy = self.policy();
        let name = policy.map_or("", |policy| policy.name());
        Promise::of(name, self.values())
    }

    /// The attachment begins; it was asked for then.
    pub(super) fn note_open(&self, asked: i64) {
        if self.is_recorded() {
            let what = What::Open {
                file: self.id(),
                path: self.path().to_owned(),
                created: self.created(),
                promise: self.promise(),
            };
            self.note(asked, Some(self.now()), what);
        }
    }

    /// The attachment has ended. If what it had delayed has failed, nobody was promised it.
    pub(super) fn note_close(&self, asked: i64, kept: &Result<(), Error>) {
        let end = kept.is_ok().then(|| self.now());
        self.note(asked, end, What::Close);
    }

    pub(super) fn note_policy(&self) {
        if self.is_recorded() {
            let promise = self.promise();
            let now = self.now();
            self.note(now, Some(now), What::Policy { promise });
        }
    }

    /// What a truncation to this size makes zeros, and what lies beyond it.
    pub(super) fn truncated(&self, size: u64) -> What {
        let grid = self.layout().grid();
        let cells = (0..grid.cells()).map(|cell| Piece {
            cell,
            offset: grid.cell_length(size, weft_layout::CellIndex(cell)),
            length: u64::MAX,
        });
        What::Clear {
            pieces: cells.collect(),
        }
    }
}
