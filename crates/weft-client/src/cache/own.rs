//! Names that one attachment believes, however others change the file meanwhile: REL-1, `session`,
//! `nfs`, `immutable`.

use std::ops::Range;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_layout::CellIndex;
use weft_sum::ChunkName;

use super::names::{Known, Names, WantedChunks};

/// The names of one attachment.
#[derive(Default)]
pub(crate) struct OwnNames(Mutex<State>);

#[derive(Default)]
struct State {
    names: Names,
    /// When the oldest of them were asked for.
    since: Option<Instant>,
    /// Changes by this attachment so far.
    changes: u64,
}

impl OwnNames {
    /// The wanted names, if all are known and none is older than this.
    pub(crate) fn all_of<'a>(
        &self,
        wanted: impl Iterator<Item = &'a WantedChunks>,
        believed: Option<Duration>,
    ) -> Option<Vec<Names>> {
        let mut state = self.0.lock();
        if let (Some(since), Some(believed)) = (state.since, believed)
            && since.elapsed() >= believed
        {
            state.names = Names::default();
            state.since = None;
        }
        wanted.map(|wanted| state.names.all_of(wanted)).collect()
    }

    /// Before names are asked for.
    pub(crate) fn begin(&self) -> (u64, Instant) {
        (self.0.lock().changes, Instant::now())
    }

    /// Keeps names, unless this attachment has changed the file since they were asked for.
    pub(crate) fn keep(&self, (changes, asked): (u64, Instant), names: Names) {
        let mut state = self.0.lock();
        if state.changes == changes {
            state.names.merge(names);
            let since = state.since.get_or_insert(asked);
            *since = asked.min(*since);
        }
    }

    /// What is kept of a chunk.
    pub(crate) fn known(&self, cell: CellIndex, chunk: u64) -> Option<Known> {
        self.0.lock().names.known(cell, chunk)
    }

    /// Keeps names that a plug-in supplies.
    pub(crate) fn put(&self, named: impl IntoIterator<Item = (CellIndex, u64, Option<ChunkName>)>) {
        let mut all = Names::default();
        for (cell, chunk, name) in named {
            all.set(cell, chunk, name);
        }
        let mut state = self.0.lock();
        state.names.merge(all);
        state.since.get_or_insert_with(Instant::now);
    }

    /// This attachment changes chunks of some cells; called before the change, and after it.
    pub(crate) fn changed(&self, chunks: impl IntoIterator<Item = (CellIndex, Range<u64>)>) {
        let mut state = self.0.lock();
        state.changes += 1;
        for (cell, chunks) in chunks {
            state.names.forget(cell, chunks);
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        let mut state = self.0.lock();
        state.changes += 1;
        state.names = Names::default();
        state.since = None;
    }
}
