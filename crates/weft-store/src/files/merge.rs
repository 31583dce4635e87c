//! Freeing the space of dropped checkpoints: a checkpoint fork that no checkpoint needs and from
//! which one fork derives is merged into that fork, some chunks at a time. Each step is a frame of
//! the log and is in the index before the next step begins, so memory is bounded and a crash loses
//! one step of work.

use std::ops::{Bound, ControlFlow};

use crate::engine::{IndexBudget, Inner, MergeTurn};
use crate::error::StoreError;
use crate::limits::MERGE_STEP_CHUNKS;
use crate::record::{CHUNKS, ChunkRecord, ForkId, ItemRecord, new_body};
use crate::state::StoreState;

impl Inner {
    /// Merges all forks that can be merged.
    pub(crate) async fn merge(&self) -> Result<(), StoreError> {
        while self.merge_one().await? {}
        Ok(())
    }

    /// Merges one fork, if there is one; returns whether there may be more. Calls that wait for
    /// space get their turn in between.
    pub(crate) async fn merge_one(&self) -> Result<bool, StoreError> {
        let turn = self.turns().merge().await;
        let next = {
            let state = self.lock();
            state.check_writable()?;
            state
                .mergeable()
                .map(|pair| (pair, state.forks().is_in_index(pair.0)))
        };
        let Some(((from, to), in_index)) = next else {
            return Ok(false);
        };
        // After this its pages are flushed and its entries in the index, for good: unless a disk
        // failed and took the free blocks with it. Then it is left until there are free blocks.
        if !in_index {
            self.apply_with(IndexBudget::Reserve).await?;
            if self.lock().dirty().has(from) {
                return Ok(false);
            }
        }
        let mut at = 0;
        while let Some(chunks) = self.entries_of(from, at)? {
            at = chunks[chunks.len() - 1] + 1;
            if !self.adopt_all(&turn, from, to, &chunks)? {
                break;
            }
            self.apply_with(IndexBudget::Reserve).await?;
        }
        self.finish_merge(&turn, from, to)?;
        Ok(true)
    }

    /// Merges until `blocks` are free, or will be after a sync.
    pub(crate) async fn merge_for(&self, blocks: u64) -> Result<(), StoreError> {
        let enough = || {
            let state = self.lock();
            state.space().available() + state.space().waiting() >= blocks
        };
        while !enough() && self.merge_one().await? {}
        Ok(())
    }

    /// The next chunks of a fork that are in the index.
    pub(crate) fn entries_of(&self, id: ForkId, from: u64) -> Result<Option<Vec<u64>>, StoreError> {
        let (low, high) = (ChunkRecord::key(id, from), ChunkRecord::key(id, u64::MAX));
        let (mut found, mut failed) = (Vec::new(), None);
        self.index().snapshot()?.scan(
            CHUNKS,
            Bound::Included(&low),
            Bound::Included(&high),
            &mut |key, _| match ChunkRecord::decode_key(key) {
                Ok((_, n)) => {
                    found.push(n);
                    if found.len() < MERGE_STEP_CHUNKS {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                }
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            },
        )?;
        let found = (!found.is_empty()).then_some(found);
        failed.map_or(Ok(found), Err)
    }

    /// Moves chunks to the child; false if it or the parent was removed meanwhile.
    fn adopt_all(
        &self,
        _turn: &MergeTurn<'_>,
        from: ForkId,
        to: ForkId,
        chunks: &[u64],
    ) -> Result<bool, StoreError> {
        loop {
            for n in chunks {
                self.load_entry(from, *n)?;
                self.load_entry(to, *n)?;
            }
            let mut state = self.lock();
            state.check_writable()?;
            if !can_merge(&state, from, to) {
                return Ok(false);
            }
            let loaded = |id: ForkId, n| state.forks()[id].chunks().contains_key(n);
            if !chunks.iter().all(|n| loaded(from, n) && loaded(to, n)) {
                continue;
            }
            let (mut body, sequence) = (new_body(0), state.next_sequence());
            for &chunk in chunks {
                state.adopt(from, to, chunk, sequence);
                ItemRecord::Adopt { from, to, chunk }.encode(&mut body);
            }
            let sequence = state.log(&body);
            drop(state);
            self.append(sequence)?;
            return Ok(true);
        }
    }

    fn finish_merge(
        &self,
        _turn: &MergeTurn<'_>,
        from: ForkId,
        to: ForkId,
    ) -> Result<(), StoreError> {
        let sequence = {
            let mut state = self.lock();
            state.check_writable()?;
            if !can_merge(&state, from, to) {
                return Ok(());
            }
            let mut body = new_body(0);
            ItemRecord::Merged { from, to }.encode(&mut body);
            state.merge(from, to);
            state.log(&body)
        };
        self.append(sequence)
    }

    /// As [`Inner::merge`]; a store that closes meanwhile is no error.
    pub(crate) async fn merge_if_open(&self) -> Result<(), StoreError> {
        if self.lock().mergeable().is_none() {
            return Ok(());
        }
        match self.merge().await {
            Err(StoreError::Closed) => Ok(()),
            other => other,
        }
    }
}

/// Whether a fork can be merged into this one.
fn can_merge(state: &StoreState, from: ForkId, to: ForkId) -> bool {
    let idle = |id| {
        let fork = state.forks().get(id)?;
        Some(fork.checkpoint() == Some(0) && fork.children() == 1 && !state.dirty().has(id))
    };
    let child = state.forks().get(to);
    idle(from) == Some(true) && child.is_some_and(|f| f.parent() == Some(from))
}
