//! Room: blocks on the disk, memory for dirty pages, bytes in the log.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::alloc::Extent;
use crate::counters::Counters;
use crate::error::StoreError;
use crate::key::ForkKey;
use crate::pool::BLOCK;
use crate::store::{DATA, Inner};
use crate::write::whole;

impl Inner {
    /// Waits until dirty pages and the log are within their bounds.
    pub(crate) async fn admit(&self) -> Result<(), StoreError> {
        let mut stalled = false;
        loop {
            let room = self.signals.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            {
                let state = self.lock();
                state.check_writable()?;
                let dirty = state.dirty_blocks * BLOCK as u64;
                if dirty <= self.bounds.dirty && self.log.bytes() <= self.bounds.log {
                    break;
                }
            }
            if !stalled {
                Counters::add(&self.counters.stalls, 1);
                stalled = true;
            }
            self.signals.work.notify_one();
            room.await;
        }
        if self.log.has_room() {
            return Ok(());
        }
        Err(StoreError::NoSpace {
            needed: BLOCK as u64,
            available: 0,
        })
    }

    /// Takes free blocks for a direct write of a fork.
    pub(crate) async fn take_blocks(
        &self,
        key: &ForkKey,
        blocks: u64,
    ) -> Result<Vec<Extent>, StoreError> {
        loop {
            {
                let mut state = self.lock();
                let id = state.find(key);
                let goal = id.map_or(u64::MAX, |id| state.forks[&id].goal);
                if let Some(extents) = state.disk.take(blocks, goal) {
                    if let (Some(id), Some(last)) = (id, extents.last()) {
                        let fork = state
                            .forks
                            .get_mut(&id)
                            .expect("the fork was found under this lock");
                        fork.goal = last.start + last.blocks;
                    }
                    return Ok(extents);
                }
            }
            self.make_space(blocks).await?;
        }
    }

    /// Makes at least `blocks` available, by growing the disk's file or by freeing what waits.
    pub(crate) async fn make_space(&self, blocks: u64) -> Result<(), StoreError> {
        let me = self.me();
        whole(async move { me.make_space_wholly(blocks).await }).await
    }

    async fn make_space_wholly(&self, blocks: u64) -> Result<(), StoreError> {
        let _growing = self.grow_lock.lock().await;
        if self.lock().disk.available() >= blocks || self.grow(blocks, self.bounds.growth).await? {
            return Ok(());
        }
        let reclaimable = {
            let state = self.lock();
            state.disk.waiting() > 0
                || !state.changes.dead.is_empty()
                || state.mergeable().is_some()
        };
        if reclaimable {
            self.merge_if_open().await?;
            self.apply().await?;
            self.sync_now().await?;
            self.sync_now().await?;
        }
        let available = self.lock().disk.available();
        if available >= blocks || self.grow(blocks, 0).await? {
            return Ok(());
        }
        let bytes = BLOCK as u64;
        Err(StoreError::NoSpace {
            needed: blocks * bytes,
            available: available * bytes,
        })
    }

    /// Grows the disk's file by `step` bytes, or by what is missing; false when that does not fit.
    async fn grow(&self, blocks: u64, step: u64) -> Result<bool, StoreError> {
        let (size, missing) = {
            let disk = &self.lock().disk;
            // What is held back scales with the size; twice its bound covers both sides of it.
            (
                disk.blocks(),
                (blocks + 128).saturating_sub(disk.available()),
            )
        };
        let unit = BLOCK as u64;
        let left = self.bounds.capacity.saturating_sub(size * unit);
        let system = self
            .storage
            .available()
            .map_err(|e| StoreError::io("ask the space of", ".", &e))?;
        let room = left.min(system.saturating_sub(self.bounds.reserve)) / unit;
        let by = (step / unit).max(missing).min(room);
        if by == 0 {
            return Ok(false);
        }
        let file = Arc::clone(&self.data);
        match self.run(move || file.allocate((size + by) * unit)).await? {
            Ok(()) => {
                self.data_written.store(true, Relaxed);
                let mut state = self.lock();
                state.disk.grow(size + by);
                Ok(state.disk.available() >= blocks)
            }
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                ) =>
            {
                Ok(false)
            }
            Err(e) => Err(StoreError::io("grow", DATA, &e)),
        }
    }
}
