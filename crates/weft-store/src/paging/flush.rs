//! Write-behind: dirty pages are written to free blocks in full runs, then enter the map.

use std::ops::{Bound, Range, RangeInclusive};

use crate::counters::Counters;
use crate::engine::{FlushTurn, Inner, detached};
use crate::error::StoreError;
use crate::limits::ROUND_BLOCKS;
use crate::pool::BLOCK;
use crate::record::ForkId;
use crate::state::{FlushRound, FlushScope};

/// The chunks of all forks.
const EVERY: RangeInclusive<(ForkId, u64)> = (ForkId(0), 0)..=(ForkId(u64::MAX), u64::MAX);

impl Inner {
    /// Flushes until at most `keep` bytes are dirty; with 0, every page that was dirty at the call.
    /// A round that has begun ends although the caller is dropped: it has taken the space that was
    /// reserved for its blocks.
    pub(crate) async fn flush(&self, keep: u64) -> Result<(), StoreError> {
        let me = self.to_arc();
        detached(async move {
            let turn = me.turns().flush().await;
            me.restore_reservations().await?;
            me.flush_some(&turn, &EVERY, FlushScope::All, keep).await
        })
        .await
    }

    /// Flushes slots that are dirty as a whole.
    pub(crate) async fn flush_full(&self) -> Result<(), StoreError> {
        let me = self.to_arc();
        detached(async move {
            let turn = me.turns().flush().await;
            me.flush_some(&turn, &EVERY, FlushScope::Full, 0).await
        })
        .await
    }

    /// Flushes the chunks that a range of a fork touches.
    pub(crate) async fn flush_fork(
        &self,
        id: ForkId,
        range: &Range<u64>,
    ) -> Result<(), StoreError> {
        let size = self
            .lock()
            .forks()
            .get(id)
            .map_or(0, |f| u64::from(f.chunk()));
        if size == 0 || range.is_empty() {
            return Ok(());
        }
        let chunks = (id, range.start / size)..=(id, (range.end - 1) / size);
        let me = self.to_arc();
        detached(async move {
            let turn = me.turns().flush().await;
            me.flush_some(&turn, &chunks, FlushScope::All, 0).await
        })
        .await
    }

    async fn flush_some(
        &self,
        _turn: &FlushTurn<'_>,
        chunks: &RangeInclusive<(ForkId, u64)>,
        which: FlushScope,
        keep: u64,
    ) -> Result<(), StoreError> {
        let mut from = Bound::Included(*chunks.start());
        loop {
            let dirty = self.lock().dirty().blocks();
            let most = match dirty.saturating_sub(keep / BLOCK as u64) {
                _ if keep == 0 => ROUND_BLOCKS,
                0 => return Ok(()),
                excess => excess.min(ROUND_BLOCKS),
            };
            let Some(mut round) = self.begin_round(from, chunks, which, most)? else {
                return Ok(());
            };
            let operations = round.take_operations();
            if let Err(failed) = self.write_operations(operations).await {
                self.lock().abandon_flush(round);
                if failed.can_retry {
                    self.restore_reservations().await?;
                    continue;
                }
                return Err(self.fail("flush dirty pages", failed.error.to_string()));
            }
            let next = round.next();
            let sequence = self.lock().end_flush(round);
            self.append(sequence)?;
            self.wake_waiting_calls();
            match next {
                Some(next) => from = Bound::Excluded(next),
                None => return Ok(()),
            }
        }
    }

    /// Takes the dirty blocks of whole chunks until there are `most`.
    fn begin_round(
        &self,
        from: Bound<(ForkId, u64)>,
        chunks: &RangeInclusive<(ForkId, u64)>,
        which: FlushScope,
        most: u64,
    ) -> Result<Option<FlushRound>, StoreError> {
        let mut state = self.lock();
        if let Some(error) = state.failure() {
            return Err(error.clone());
        }
        let round = state.begin_flush(from, chunks, which, most);
        if let Some((id, n, block)) = round.corrupted() {
            // The log has the right bytes as long as none of these blocks is in the map.
            let error = StoreError::memory(state.forks()[id].key(), n, block, true);
            self.wake_waiting_calls();
            return Err(state.fail(self.memory_fault(error)));
        }
        let (blocks, runs) = round.placed();
        Counters::add(&self.counters().placed_runs, runs);
        Counters::add(&self.counters().placed_blocks, blocks);
        Ok((blocks > 0).then_some(round))
    }

    /// A failed disk took free blocks with it that were reserved for dirty pages: other disks grow.
    async fn restore_reservations(&self) -> Result<(), StoreError> {
        let reserved = {
            let state = self.lock();
            (!state.space().keeps_promises()).then(|| state.space().reserved())
        };
        if let Some(reserved) = reserved
            && let Some(turn) = self.turns().try_grow()
        {
            self.grow(&turn, reserved, self.bounds().growth).await?;
        }
        Ok(())
    }
}
