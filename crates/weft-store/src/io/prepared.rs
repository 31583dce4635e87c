//! The first step of a write: its large pieces go to free blocks of the disk, to which nothing
//! refers yet. A batch that is to take effect later need not wait for the disk.

use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use weft_sum::Sums;

use super::checksum::{BatchChecksum, Effect};
use super::direct::direct_blocks;
use super::plan::WritePlan;
use crate::engine::{Inner, ended};
use crate::error::StoreError;
use crate::key::{Run, Scattered};
use crate::pool::BLOCK;
use crate::space::Extent;

/// A batch of writes that nobody sees yet. Dropping it frees its blocks.
pub(crate) struct PreparedBatch {
    pub(super) writes: Vec<Scattered>,
    pub(super) plans: Vec<WritePlan>,
    pub(super) checksum: BatchChecksum,
    taken: TakenBlocks,
}

impl PreparedBatch {
    /// Its runs that are not on the disk.
    pub(super) fn small(&self) -> impl Iterator<Item = &Run> {
        self.plans.iter().flat_map(|plan| &plan.small)
    }

    /// It has taken effect: the map has its blocks.
    pub(super) fn installed(&mut self) {
        self.taken.extents.clear();
    }
}

/// A batch whose bytes were checked and have their blocks; the disk may still be writing them.
pub(crate) enum AcceptedBatch {
    Written(PreparedBatch),
    /// Dropped, the task goes on, and then frees the blocks.
    Writing(JoinHandle<Result<PreparedBatch, StoreError>>, DiskWait),
}

/// Waits for the disk to have a batch, or to have failed; without the batch, which may be dropped
/// meanwhile.
#[derive(Clone)]
pub struct DiskWait(watch::Receiver<()>);

impl DiskWait {
    /// Until then.
    pub async fn ended(mut self) {
        // Nothing is sent: the task drops its end.
        while self.0.changed().await.is_ok() {}
    }
}

impl AcceptedBatch {
    /// Waits for the disk.
    pub(crate) async fn written(self) -> Result<PreparedBatch, StoreError> {
        match self {
            AcceptedBatch::Written(batch) => Ok(batch),
            AcceptedBatch::Writing(task, _) => ended(task.await),
        }
    }

    /// What is left to wait for.
    pub(crate) fn disk(&self) -> Option<DiskWait> {
        match self {
            AcceptedBatch::Written(_) => None,
            AcceptedBatch::Writing(_, wait) => Some(wait.clone()),
        }
    }
}

/// Blocks that nothing refers to.
struct TakenBlocks {
    inner: Arc<Inner>,
    extents: Vec<Extent>,
}

impl Drop for TakenBlocks {
    fn drop(&mut self) {
        if self.extents.is_empty() {
            return;
        }
        let mut state = self.inner.lock();
        for extent in self.extents.drain(..) {
            state.space_mut().free(extent);
        }
    }
}

impl Inner {
    /// Prepares a batch in a task of its own; returns before the disk has written it.
    pub(super) async fn begin_prepare(
        self: Arc<Self>,
        writes: Vec<Scattered>,
        plans: Vec<WritePlan>,
        sums: Option<Sums>,
    ) -> Result<AcceptedBatch, StoreError> {
        let (accepted, is_accepted) = oneshot::channel();
        let (writing, wait) = watch::channel(());
        let work = async move {
            let _writing = writing;
            self.prepare(writes, plans, sums, Some(accepted)).await
        };
        let task = tokio::spawn(work);
        match is_accepted.await {
            Ok(()) => Ok(AcceptedBatch::Writing(task, DiskWait(wait))),
            Err(_) => Ok(AcceptedBatch::Written(ended(task.await)?)),
        }
    }

    /// Prepares a batch; tells `accepted` when nothing is left to do but to wait for the disk. Must
    /// be polled to its end: the disk would go on anyway.
    pub(super) async fn prepare(
        &self,
        writes: Vec<Scattered>,
        mut plans: Vec<WritePlan>,
        sums: Option<Sums>,
        mut accepted: Option<oneshot::Sender<()>>,
    ) -> Result<PreparedBatch, StoreError> {
        loop {
            let mut checksum = BatchChecksum::of(sums.clone());
            let mut taken = TakenBlocks {
                inner: self.to_arc(),
                extents: Vec::new(),
            };
            let take = self.take_direct(&writes, &mut plans, &mut taken.extents, &mut checksum);
            take.await?;
            if let Some(accepted) = accepted.take() {
                // The caller may be gone.
                let _ = accepted.send(());
            }
            let direct = plans.iter().flat_map(|plan| &plan.direct);
            let written = self.write_prepared(direct.flat_map(|d| &d.prepared));
            match written.await {
                Ok(()) => {
                    return Ok(PreparedBatch {
                        writes,
                        plans,
                        checksum,
                        taken,
                    });
                }
                Err(failed) if failed.can_retry => {}
                Err(failed) => return Err(failed.error),
            }
        }
    }

    /// Finds free blocks for the direct pieces, which are added to `taken`, and checks the bytes.
    async fn take_direct(
        &self,
        writes: &[Scattered],
        plans: &mut [WritePlan],
        taken: &mut Vec<Extent>,
        checksum: &mut BatchChecksum,
    ) -> Result<(), StoreError> {
        for (w, plan) in writes.iter().zip(&mut *plans) {
            for direct in &mut plan.direct {
                let (offset, length) = (direct.offset, direct.length);
                let blocks = direct_blocks(w.chunk, offset, length);
                let extents = self.take_blocks(&w.key, blocks).await?;
                taken.extend_from_slice(&extents);
                self.lock()
                    .evict(self.bounds().cache.saturating_sub(blocks * BLOCK as u64));
                let data = &w.data[direct.at..direct.at + length as usize];
                let known = |from: usize| checksum.block(direct.at + from);
                direct.prepared = self.prepare_blocks(w.chunk, offset, data, extents, known);
                checksum.add_prepared(w.chunk, offset, direct.at, &direct.prepared);
            }
        }
        if checksum.has_blocks() {
            let checked = checksum.check(writes, Effect::None);
            checked.map_err(|error| self.memory_fault(error))?;
        }
        Ok(())
    }
}
