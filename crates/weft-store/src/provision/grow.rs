//! Free blocks: taken for direct writes, and made by growing the disks' files or by freeing.

use std::io;
use std::sync::Arc;

use crate::counters::Counters;
use crate::disk::Disk;
use crate::engine::{GrowTurn, Inner, detached};
use crate::error::StoreError;
use crate::key::ForkKey;
use crate::limits::WINDOW_MAX;
use crate::pool::BLOCK;
use crate::space::Extent;
use crate::state::count_runs;

impl Inner {
    /// Takes free blocks for a direct write of a fork.
    pub(crate) async fn take_blocks(
        &self,
        key: &ForkKey,
        blocks: u64,
    ) -> Result<Vec<Extent>, StoreError> {
        self.grow_early(blocks).await?;
        loop {
            {
                let mut state = self.lock();
                let id = state.find(key);
                let hint = state.hint(id);
                if let Some(extents) = state.space_mut().take(blocks, hint) {
                    let runs = count_runs(&extents, hint.goal);
                    Counters::add(&self.counters().placed_runs, runs);
                    Counters::add(&self.counters().placed_blocks, blocks);
                    if let (Some(id), Some(last)) = (id, extents.last()) {
                        state.placed_at(id, *last);
                    }
                    return Ok(extents);
                }
            }
            self.make_space(blocks).await?;
        }
    }

    /// Grows the disks before free blocks run out, so that forks keep their windows as long as
    /// disks can grow.
    async fn grow_early(&self, blocks: u64) -> Result<(), StoreError> {
        if !self.lock().space().is_tight(blocks) {
            return Ok(());
        }
        let me = self.to_arc();
        detached(async move {
            let turn = me.turns().grow().await;
            if me.lock().space().is_tight(blocks) {
                me.grow(&turn, blocks, me.bounds().growth).await?;
            }
            Ok(())
        })
        .await
    }

    /// Makes at least `blocks` available, by growing the disks' files or by freeing blocks.
    pub(crate) async fn make_space(&self, blocks: u64) -> Result<(), StoreError> {
        let me = self.to_arc();
        detached(async move { me.make_space_in_turn(blocks).await }).await
    }

    /// As [`Inner::make_space`], for the blocks at the ends of a truncated or cleared range: they
    /// may take the reserve.
    pub(crate) async fn make_space_from_reserve(&self, blocks: u64) -> Result<(), StoreError> {
        if self.lock().space().can_promise(blocks) {
            return Ok(());
        }
        match self.make_space(blocks).await {
            Err(StoreError::NoSpace { .. }) if self.lock().space().can_promise(blocks) => Ok(()),
            done => done,
        }
    }

    async fn make_space_in_turn(&self, blocks: u64) -> Result<(), StoreError> {
        let turn = self.turns().grow().await;
        if self.lock().space().available() >= blocks
            || self.grow(&turn, blocks, self.bounds().growth).await?
        {
            return Ok(());
        }
        let reclaimable = {
            let state = self.lock();
            // A dirty block frees its old place once it is written to another.
            let rewritten = state.dirty().blocks() > 0 && state.space().keeps_promises();
            rewritten
                || state.space().waiting() > 0
                || state.forks().first_deferred_truncation().is_some()
                || state.changes().has_removed()
                || state.mergeable().is_some()
        };
        if reclaimable {
            if let Err(error) = self.finish_truncations().await {
                tracing::warn!(%error, "truncated forks keep their space");
            }
            if let Err(error) = self.merge_for(blocks).await {
                tracing::warn!(%error, "cannot free the space of dropped checkpoints");
            }
            self.apply().await?;
            self.sync_now().await?;
            self.sync_now().await?;
        }
        if self.lock().space().available() >= blocks || self.grow(&turn, blocks, 0).await? {
            return Ok(());
        }
        // Not for each call that is refused: it writes a small table.
        if self.log().retained() > self.bounds().log / 64
            && let Err(error) = self.release_retained_log().await
        {
            tracing::warn!(%error, "cannot remove obsolete log segments");
        }
        let available = self.lock().space().available();
        if available >= blocks || self.grow(&turn, blocks, 0).await? {
            return Ok(());
        }
        self.disks().report_full(self.lock().space());
        let bytes = BLOCK as u64;
        Err(StoreError::NoSpace {
            needed: blocks * bytes,
            available: available * bytes,
        })
    }

    /// Grows the disks' files by `step` bytes together, or by what is missing; each grows in
    /// proportion to its free space. False if that does not fit.
    pub(crate) async fn grow(
        &self,
        turn: &GrowTurn<'_>,
        blocks: u64,
        step: u64,
    ) -> Result<bool, StoreError> {
        let unit = BLOCK as u64;
        let (sizes, missing) = {
            let state = self.lock();
            let disk = state.space();
            let open = disk.open().into_iter();
            let sizes: Vec<_> = open
                .map(|n| (n, disk.of_disk(n).0, disk.unbacked(n)))
                .collect();
            // The reserve scales with the size; twice its bound covers it before and after the
            // growth.
            (sizes, (blocks + 128).saturating_sub(disk.available()))
        };
        let mut candidates = Vec::new();
        for (number, size, away) in sizes {
            let Some(disk) = self.disks().get(number) else {
                continue;
            };
            match disk.growth(size * unit, away * unit) {
                Ok(free) => candidates.push((disk, size, free / unit)),
                Err(e) => self.report_failure(disk, &format!("ask its space: {e}")),
            }
        }
        let total: u64 = candidates.iter().map(|c| c.2).sum();
        let by = (step / unit).max(missing).min(total);
        // Of several disks each grows by a window at least: else one with little free space would
        // grow in tiny steps for ever.
        let least = if candidates.len() > 1 { WINDOW_MAX } else { 1 };
        let mut grown = false;
        for (disk, size, free) in candidates {
            let share = u128::from(by) * u128::from(free) / u128::from(total.max(1));
            let share = (share as u64 + least).min(free);
            if share == 0 {
                self.lock().space_mut().grow(disk.number(), size, 0);
            }
            grown |= share > 0 && self.grow_disk(turn, disk, size, share, free).await?;
        }
        Ok(grown && self.lock().space().available() >= blocks)
    }

    /// Takes note that a disk failed.
    fn report_failure(&self, disk: &Disk, reason: &str) {
        self.disks()
            .fail(self.lock().space_mut(), disk.number(), reason);
    }

    /// Grows a disk's file from `size` by `by` blocks; its host has `free` blocks.
    async fn grow_disk(
        &self,
        turn: &GrowTurn<'_>,
        disk: &Disk,
        size: u64,
        by: u64,
        free: u64,
    ) -> Result<bool, StoreError> {
        let Ok(file) = disk.file().map(Arc::clone) else {
            return Ok(false);
        };
        let filled = self.fill(turn, disk, by).await?;
        let (by, free) = (by - filled, free - filled);
        if by == 0 {
            return Ok(true);
        }
        if self.lock().space().unbacked(disk.number()) > 0 {
            // The host is full.
            return Ok(filled > 0);
        }
        let bytes = (size + by) * BLOCK as u64;
        match self.run(move || file.allocate(bytes)).await? {
            Ok(()) => {
                disk.mark_written();
                self.lock()
                    .space_mut()
                    .grow(disk.number(), size + by, free - by);
                Ok(true)
            }
            Err(e) => {
                let full = io::ErrorKind::StorageFull;
                if e.kind() == full || e.kind() == io::ErrorKind::QuotaExceeded {
                    self.lock().space_mut().grow(disk.number(), size, 0);
                    return Ok(false);
                }
                let last = self.lock().space().open() == [disk.number()];
                self.report_failure(disk, &format!("grow: {e}"));
                if last {
                    return Err(StoreError::io("grow", &disk.shown(), &e));
                }
                Ok(false)
            }
        }
    }
}
