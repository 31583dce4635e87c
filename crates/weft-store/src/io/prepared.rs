//! The first step of a write: its large pieces go to free blocks of the disk, to which nothing
//! refers yet.

use std::sync::Arc;

use weft_sum::Sums;

use super::checksum::{BatchChecksum, Effect};
use super::direct::direct_blocks;
use super::plan::WritePlan;
use crate::engine::Inner;
use crate::error::StoreError;
use crate::key::{Run, Scattered};
use crate::paging::WriteFailed;
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
    /// Prepares a batch. Must be polled to its end: the disk would go on anyway.
    pub(super) async fn prepare(
        &self,
        writes: Vec<Scattered>,
        mut plans: Vec<WritePlan>,
        sums: Option<Sums>,
    ) -> Result<PreparedBatch, StoreError> {
        loop {
            let mut checksum = BatchChecksum::of(sums.clone());
            let mut taken = TakenBlocks {
                inner: self.to_arc(),
                extents: Vec::new(),
            };
            let written = self.write_direct(&writes, &mut plans, &mut taken.extents, &mut checksum);
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

    /// Writes the direct pieces to free blocks, which are added to `taken`.
    async fn write_direct(
        &self,
        writes: &[Scattered],
        plans: &mut [WritePlan],
        taken: &mut Vec<Extent>,
        checksum: &mut BatchChecksum,
    ) -> Result<(), WriteFailed> {
        let fatal = |error| WriteFailed {
            error,
            can_retry: false,
        };
        for (w, plan) in writes.iter().zip(&mut *plans) {
            for direct in &mut plan.direct {
                let (offset, length) = (direct.offset, direct.length);
                let blocks = direct_blocks(w.chunk, offset, length);
                let extents = self.take_blocks(&w.key, blocks).await.map_err(fatal)?;
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
            checked.map_err(|error| fatal(self.memory_fault(error)))?;
        }
        let direct = plans.iter().flat_map(|plan| &plan.direct);
        self.write_prepared(direct.flat_map(|d| &d.prepared)).await
    }
}
