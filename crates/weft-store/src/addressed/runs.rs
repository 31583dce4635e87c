//! The ranges of an addressed fork that hold data: its chunks, joined.

use std::ops::Range;

use weft_layout::CellOffset;

use super::resize::AddressedFork;
use crate::engine::Store;
use crate::error::StoreError;
use crate::io::DataRuns;
use crate::key::ForkKey;
use crate::limits::RECIPE_READ_ENTRIES;
use crate::record::ENTRY_BYTES;

impl Store {
    /// [`Store::data_runs`] of an addressed fork.
    ///
    /// Cost: reads the entries of at most some thousand chunks.
    pub(crate) async fn addressed_runs(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
        fork: AddressedFork,
        from: CellOffset,
        limit: usize,
    ) -> Result<DataRuns, StoreError> {
        let (size, chunks) = (
            u64::from(fork.chunk),
            fork.length.div_ceil(u64::from(fork.chunk)),
        );
        let first = from.0 / size;
        // Holes of the recipe are holes of the fork, and large ones cost no more than small ones.
        let recipe = key.recipe();
        let place = CellOffset(first * ENTRY_BYTES);
        let named = self.plain_runs(&recipe, checkpoint, place, 1).await;
        let named = named.map_err(StoreError::of_recipe)?;
        let Some(bytes) = named.runs.first() else {
            let next = named
                .next
                .map(|at| at.0 / ENTRY_BYTES)
                .filter(|n| *n < chunks);
            let next = next.map(|n| CellOffset(n * size));
            return Ok(DataRuns {
                runs: Vec::new(),
                next,
            });
        };
        let start = (bytes.start / ENTRY_BYTES).max(first);
        let end = (start + RECIPE_READ_ENTRIES).min(chunks);
        let entries = self.entries(key, checkpoint, start..end).await?;
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut checked = start;
        for (n, entry) in (start..).zip(entries) {
            if runs.len() > limit.max(1) {
                runs.pop();
                break;
            }
            checked = n + 1;
            if entry.is_none() {
                continue;
            }
            let range = (n * size).max(from.0)..((n + 1) * size).min(fork.length);
            match runs.last_mut() {
                _ if range.is_empty() => {}
                Some(run) if run.end == range.start => run.end = range.end,
                _ => runs.push(range),
            }
        }
        let next = (checked < chunks).then(|| CellOffset(checked * size));
        Ok(DataRuns { runs, next })
    }
}
