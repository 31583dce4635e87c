//! The ranges of a fork that hold data, found without reading any of it.

use std::ops::Range;

use weft_layout::{CellOffset, OFFSET_MAX};

use crate::engine::Store;
use crate::error::StoreError;
use crate::key::ForkKey;
use crate::limits::DATA_RUNS_BLOCKS;
use crate::pool::BLOCK;
use crate::record::ForkId;
use crate::state::StoreState;

/// Ranges of a fork that hold data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataRuns {
    /// Byte ranges that are not holes: ascending, disjoint, not empty.
    pub runs: Vec<Range<u64>>,
    /// Where the next call begins: all data before this was returned. `None` at the end.
    pub next: Option<CellOffset>,
}

impl Store {
    /// [`Store::data_runs`] of a plain fork.
    #[expect(
        clippy::unused_async,
        reason = "an evicted fork will have to be loaded"
    )]
    pub(crate) async fn plain_runs(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
        from: CellOffset,
        limit: usize,
    ) -> Result<DataRuns, StoreError> {
        let inner = &self.0;
        let mut most = limit.max(1);
        loop {
            let (id, size) = {
                let mut state = inner.lock();
                state.check_alive(key.file)?;
                state.evict(inner.bounds().cache);
                let found = state.find_in(key, checkpoint)?;
                state.check_proven(key, (found, checkpoint), from.0..OFFSET_MAX)?;
                let Some(id) = found else {
                    return Ok(DataRuns::default());
                };
                (id, state.forks()[id].chunk())
            };
            if size == 0 {
                return Ok(DataRuns::default());
            }
            most = most.min(DATA_RUNS_BLOCKS / (size as usize).div_ceil(BLOCK));
            let (evictions, loaded) = inner.load_view(id, from.0 / u64::from(size), most)?;
            let (found, sequence) = {
                let state = inner.lock();
                if state.cache().evictions() != evictions {
                    // Other calls evict what was just loaded: fewer chunks may stay loaded.
                    most = (most / 2).max(1);
                    continue;
                }
                (
                    data_runs(&state, id, from.0, loaded, most),
                    state.sequence(),
                )
            };
            inner.append_before_reply(sequence)?;
            return Ok(found);
        }
    }
}

/// The runs from `from` on in the first `most` chunks; entries before chunk `loaded` are in memory.
fn data_runs(state: &StoreState, id: ForkId, from: u64, loaded: u64, most: usize) -> DataRuns {
    let fork = &state.forks()[id];
    let (size, block_size) = (u64::from(fork.chunk()), BLOCK as u64);
    let mut runs: Vec<Range<u64>> = Vec::new();
    let mut next = (loaded != u64::MAX).then(|| loaded * size);
    let chunks = state.forks().view_chunks(id, from / size..loaded, most + 1);
    for (checked, n) in chunks.into_iter().enumerate() {
        let Some(chunk) = state.forks().shown_of_loaded(id, n) else {
            continue;
        };
        let first = n * size;
        if checked == most || runs.len() >= most {
            next = Some(first);
            break;
        }
        for block in chunk.data_blocks().map(u64::from) {
            let start = (first + block * block_size).max(from);
            let end = (first + ((block + 1) * block_size).min(size)).min(fork.length());
            match runs.last_mut() {
                _ if start >= end => {}
                Some(run) if run.end == start => run.end = end,
                _ => runs.push(start..end),
            }
        }
    }
    let next = next.filter(|n| *n < fork.length()).map(CellOffset);
    DataRuns { runs, next }
}
