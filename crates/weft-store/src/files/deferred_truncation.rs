//! Deferred truncation: chunks beyond a fork's new length that still have entries.
//!
//! A truncation of many chunks is one item of the log and takes effect at one moment: it sets the
//! length, empties the chunk that the length divides, and ends what the fork inherits there. The
//! other chunks are emptied in the background, some at a time, each step as an item of its own.
//! Invariants:
//! 1. The deferred chunks are invisible: they lie beyond the length, and forks that derive from
//!    this one do not inherit them.
//! 2. A fork does not grow while its truncation is deferred: an operation that makes it longer
//!    finishes the truncation first.
//! 3. Only the entries beyond the length record durably that a truncation is deferred. Recovery
//!    finds them when it counts blocks.

use crate::engine::{IndexBudget, Inner, detached};
use crate::error::StoreError;
use crate::limits::TRUNCATION_STEP_BLOCKS;
use crate::pool::BLOCK;
use crate::record::ForkId;

impl Inner {
    /// Chunks of this size that one step empties.
    pub(crate) fn chunks_per_step(&self, size: u32) -> usize {
        let blocks = size.div_ceil(BLOCK as u32).max(1);
        (TRUNCATION_STEP_BLOCKS / blocks).clamp(1, self.bounds().truncate_chunks) as usize
    }

    /// Finishes the deferred truncation of a fork.
    pub(crate) async fn finish_truncation(&self, id: ForkId) -> Result<(), StoreError> {
        while self.step_truncation(id)? {
            if self.log_is_long(&self.lock()) {
                // Detached, because the caller may be dropped: changes that were taken for the
                // index must get there.
                let me = self.to_arc();
                detached(async move { me.apply_with(IndexBudget::Reserve).await }).await?;
            } else {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Finishes all deferred truncations.
    pub(crate) async fn finish_truncations(&self) -> Result<(), StoreError> {
        loop {
            let Some(id) = self.lock().forks().first_deferred_truncation() else {
                return Ok(());
            };
            self.finish_truncation(id).await?;
        }
    }

    /// Empties the next chunks of a deferred truncation; returns whether there are more.
    pub(crate) fn step_truncation(&self, id: ForkId) -> Result<bool, StoreError> {
        let mut most = usize::MAX;
        // Not in the loop: it could evict what was just loaded, for ever.
        self.lock().evict(self.bounds().cache);
        loop {
            let (from, size) = {
                let mut state = self.lock();
                state.check_writable()?;
                let fork = state.forks().get(id);
                let Some(next) = fork.and_then(|f| Some((f.deferred_truncation()?, f.chunk())))
                else {
                    state.end_deferred_truncation(id);
                    return Ok(false);
                };
                next
            };
            most = most.min(self.chunks_per_step(size));
            let (evictions, reached) = self.load_entries(id, from, most)?;
            let mut state = self.lock();
            state.check_writable()?;
            if state.cache().evictions() != evictions {
                // Other calls evict what was just loaded: fewer chunks may stay loaded.
                most = (most / 2).max(1);
                continue;
            }
            if state
                .forks()
                .get(id)
                .is_none_or(|f| f.deferred_truncation() != Some(from))
            {
                continue;
            }
            let chunks = state.forks()[id].chunks().range(from..reached);
            let end = chunks.map(|(n, _)| *n).nth(most).unwrap_or(reached);
            let sequence = state.continue_truncation(id, from..end);
            let more = state.forks().has_deferred_truncation(id);
            drop(state);
            self.append(sequence)?;
            return Ok(more);
        }
    }
}
