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
        let (size, limit) = (u64::from(fork.chunk), limit.max(1));
        let chunks = fork.length.div_ceil(size);
        let mut runs: Vec<Range<u64>> = Vec::new();
        let (mut checked, mut read) = (from.0 / size, 0);
        // One more than asked for: only then it is known that the last one ends.
        while checked < chunks && runs.len() <= limit && read < RECIPE_READ_ENTRIES {
            // Holes of the recipe are holes of the fork, and large ones cost no more than small
            // ones.
            let place = CellOffset(checked * ENTRY_BYTES);
            let named = self.plain_runs(&key.recipe(), checkpoint, place, 1).await;
            let named = named.map_err(StoreError::of_recipe)?;
            let Some(bytes) = named.runs.first() else {
                let next = named.next.map_or(chunks, |at| at.0 / ENTRY_BYTES);
                checked = next.max(checked + 1);
                continue;
            };
            checked = checked.max(bytes.start / ENTRY_BYTES);
            let end = (checked + RECIPE_READ_ENTRIES).min(bytes.end.div_ceil(ENTRY_BYTES));
            let entries = self
                .entries(key, checkpoint, checked..end.min(chunks))
                .await?;
            read += entries.len() as u64;
            for entry in entries {
                if runs.len() > limit {
                    break;
                }
                let range = (checked * size).max(from.0)..((checked + 1) * size).min(fork.length);
                checked += 1;
                match runs.last_mut() {
                    _ if entry.is_none() || range.is_empty() => {}
                    Some(run) if run.end == range.start => run.end = range.end,
                    _ => runs.push(range),
                }
            }
        }
        if runs.len() > limit
            && let Some(last) = runs.pop()
        {
            checked = last.start / size;
        }
        let next = (checked < chunks).then(|| CellOffset((checked * size).max(from.0)));
        Ok(DataRuns { runs, next })
    }
}
