//! Write-behind: dirty pages go to free places in full runs, then into the map.

use std::ops::{Bound, Range, RangeInclusive};

use crate::counters::Counters;
use crate::engine::{Inner, whole};
use crate::error::StoreError;
use crate::pool::BLOCK;
use crate::record::ForkId;
use crate::state::{FlushRound, Which};

/// Blocks of one round: 16 MiB.
const ROUND_BLOCKS: u64 = 4096;

/// The chunks of all forks.
const EVERY: RangeInclusive<(ForkId, u64)> = (ForkId(0), 0)..=(ForkId(u64::MAX), u64::MAX);

impl Inner {
    /// Flushes until at most `keep` bytes are dirty; with 0, every page that was dirty at the call.
    /// A round that has begun ends also where the caller gives up: it has taken what was promised
    /// to its blocks.
    pub(crate) async fn flush(&self, keep: u64) -> Result<(), StoreError> {
        let me = self.me();
        whole(async move {
            let _one = me.flush_lock.lock().await;
            me.mend_promises().await?;
            me.flush_some(&EVERY, Which::All, keep).await
        })
        .await
    }

    /// Flushes slots that are dirty as a whole.
    pub(crate) async fn flush_full(&self) -> Result<(), StoreError> {
        let me = self.me();
        whole(async move {
            let _one = me.flush_lock.lock().await;
            me.flush_some(&EVERY, Which::Full, 0).await
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
        let me = self.me();
        whole(async move {
            let _one = me.flush_lock.lock().await;
            me.flush_some(&chunks, Which::All, 0).await
        })
        .await
    }

    async fn flush_some(
        &self,
        chunks: &RangeInclusive<(ForkId, u64)>,
        which: Which,
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
                if failed.again {
                    self.mend_promises().await?;
                    continue;
                }
                return Err(self.fail("flush dirty pages", failed.error.to_string()));
            }
            let next = round.next();
            let sequence = self.lock().end_flush(round);
            self.append(sequence)?;
            self.signals.room.notify_waiters();
            match next {
                Some(next) => from = Bound::Excluded(next),
                None => return Ok(()),
            }
        }
    }

    /// Takes dirty blocks until there are `most`, whole chunks of them.
    fn begin_round(
        &self,
        from: Bound<(ForkId, u64)>,
        chunks: &RangeInclusive<(ForkId, u64)>,
        which: Which,
        most: u64,
    ) -> Result<Option<FlushRound>, StoreError> {
        let mut state = self.lock();
        if let Some(error) = state.failure() {
            return Err(error.clone());
        }
        let round = state.begin_flush(from, chunks, which, most);
        if let Some((id, n, block)) = round.rotten() {
            // The log has the right bytes as long as nothing of this is mapped.
            let error = StoreError::memory(state.forks()[id].key(), n, block, true);
            self.signals.room.notify_waiters();
            return Err(state.fail_memory(self.memory_fault(error)));
        }
        let (blocks, runs) = round.placed();
        Counters::add(&self.counters.placed_runs, runs);
        Counters::add(&self.counters.placed_blocks, blocks);
        Ok((blocks > 0).then_some(round))
    }

    /// A disk that failed took free blocks with it that dirty pages were promised: others grow.
    async fn mend_promises(&self) -> Result<(), StoreError> {
        let reserved = {
            let state = self.lock();
            (!state.space().keeps_promises()).then(|| state.space().reserved())
        };
        if let Some(reserved) = reserved
            && let Ok(_growing) = self.grow_lock.try_lock()
        {
            self.grow(reserved, self.bounds.growth).await?;
        }
        Ok(())
    }
}
