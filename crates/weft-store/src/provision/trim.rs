//! Returning free blocks to the host (`docs/design/0025-space.md`).
//!
//! Invariants:
//! 1. A block is punched out only while it is free, that is, after the durable `Synced` record that
//!    covers the frame that freed it; no write gets it before it is filled again.
//! 2. Growing, filling and punching exclude each other ([`GrowTurn`]), one piece at a time: a
//!    writer that needs space waits for one piece at most.
//! 3. While other calls run, it pauses twenty times as long as a piece took, so they lose a
//!    twentieth of the time at most.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use crate::disk::Disk;
use crate::engine::{GrowTurn, Inner, Store, detached};
use crate::error::StoreError;
use crate::limits::{
    IDLE_LOG_SHARE, IDLE_TIMEOUT, PUNCH_BLOCKS, PUNCH_PAUSE_FACTOR, SMALL_EXTENTS_SHARE,
    TRIM_INTERVAL,
};
use crate::pool::BLOCK;
use crate::record::Place;
use crate::space::{Extent, PunchReserve, PunchWalk};

/// What a store returned to its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Bytes of free blocks that were punched out.
    pub bytes: u64,
    /// Bytes that its disks occupy on their hosts now.
    pub held: u64,
}

impl Inner {
    /// When a store is opened: free blocks of a sparse disk file may lie in its holes. Some are
    /// filled at once, while the host has space: what is reserved for dirty pages, and what a
    /// truncation may need on a full disk.
    pub(crate) async fn note_sparse_disks(&self) -> Result<(), StoreError> {
        let turn = self.turns().grow().await;
        for disk in self.disks().all() {
            let Ok(file) = disk.file() else { continue };
            let fail = |e: io::Error| StoreError::io("measure", &disk.shown(), &e);
            if file.allocated_bytes().map_err(fail)? < file.length().map_err(fail)? {
                let (open, reserved) = {
                    let mut state = self.lock();
                    state.space_mut().mark_unsure(disk.number());
                    let open = state.space().open().contains(&disk.number());
                    (open, state.space().reserved())
                };
                if open {
                    self.fill(&turn, disk, reserved + self.bounds().spare / 2 + 128)
                        .await?;
                }
            }
        }
        Ok(())
    }

    /// Has the host allocate up to `blocks` free blocks of a disk that may be holes; returns how
    /// many it did.
    pub(crate) async fn fill(
        &self,
        _turn: &GrowTurn<'_>,
        disk: &Disk,
        blocks: u64,
    ) -> Result<u64, StoreError> {
        let mut filled = 0;
        while filled < blocks {
            let extents = self.lock().space().to_fill(disk.number(), blocks - filled);
            let Ok(file) = disk.file().map(std::sync::Arc::clone) else {
                break;
            };
            if extents.is_empty() {
                break;
            }
            let work = move || {
                let mut done = Vec::new();
                for extent in extents {
                    let (at, length) = bytes_of(extent);
                    if let Err(error) = file.fill(at, length) {
                        return (done, Some(error));
                    }
                    done.push(extent);
                }
                (done, None)
            };
            let (done, failed) = self.run(work).await?;
            disk.mark_written();
            let mut state = self.lock();
            for extent in done {
                filled += extent.blocks;
                state.space_mut().filled(extent);
            }
            if let Some(error) = failed {
                tracing::debug!(%error, disk = %disk.shown(), "the host cannot allocate blocks again that it was given back");
                break;
            }
        }
        Ok(filled)
    }

    /// Returns all free blocks of the disks to the host except what `keep` says.
    async fn punch_all(&self, keep: impl Fn(u64) -> PunchReserve) -> Result<u64, StoreError> {
        let mut blocks = 0;
        for disk in self.disks().all() {
            if disk.is_missing() || disk.refuses_punches() {
                continue;
            }
            let mut walk = PunchWalk::new();
            loop {
                let calls = self.calls();
                let begun = Instant::now();
                let Some(punched) = self.punch_piece(disk, &keep, &mut walk).await? else {
                    break;
                };
                blocks += punched;
                // Without other calls there is nothing to leave the disk to.
                let pause = begun.elapsed() * PUNCH_PAUSE_FACTOR;
                if pause > Duration::ZERO && self.calls() != calls {
                    tokio::time::sleep(pause).await;
                } else {
                    tokio::task::yield_now().await;
                }
            }
        }
        Ok(blocks * BLOCK as u64)
    }

    /// Reads and writes since the store was opened.
    fn calls(&self) -> u64 {
        let counters = self.counters();
        counters.reads.load(Relaxed) + counters.writes.load(Relaxed)
    }

    /// Punches out a piece of a disk's free blocks; `None` if there are none left to return.
    async fn punch_piece(
        &self,
        disk: &Disk,
        keep: impl Fn(u64) -> PunchReserve,
        walk: &mut PunchWalk,
    ) -> Result<Option<u64>, StoreError> {
        let Ok(file) = disk.file().map(std::sync::Arc::clone) else {
            return Ok(None);
        };
        let _turn = self.turns().grow().await;
        let held = file.allocated_bytes().unwrap_or(0) / BLOCK as u64;
        let extents = {
            let mut state = self.lock();
            let (size, free) = state.space().of_disk(disk.number());
            let away = state.space().unbacked(disk.number());
            let used = size - free - away;
            let keep = keep(used);
            // Blocks that may be holes already are worth punching only if the host holds more than
            // it should.
            let extra = (keep.large / 2).saturating_add(keep.small);
            let unsure = held > (size - away).saturating_add(extra);
            match state
                .space_mut()
                .take_to_punch(disk.number(), keep, PUNCH_BLOCKS, walk)
            {
                None if unsure && state.space().unsure(disk.number()) > 0 => {
                    state.space_mut().take_unsure(disk.number(), PUNCH_BLOCKS)
                }
                None => return Ok(None),
                Some(extents) => extents,
            }
        };
        let blocks = extents.iter().map(|e| e.blocks).sum();
        let pieces = extents.clone();
        let work = move || {
            for (at, extent) in pieces.iter().enumerate() {
                let (from, length) = bytes_of(*extent);
                file.punch(from, length).map_err(|error| (at, error))?;
            }
            Ok::<_, (usize, io::Error)>(())
        };
        let done = self.run(work).await?;
        disk.mark_written();
        let Err((at, error)) = done else {
            return Ok(Some(blocks));
        };
        disk.mark_refusing_punches();
        tracing::warn!(%error, disk = %disk.shown(), "free blocks do not go back to the host until the store is opened again");
        let mut state = self.lock();
        for extent in &extents[at..] {
            state.space_mut().mark_punch_unsure(*extent);
        }
        Ok(None)
    }

    /// Frees blocks that wait only for syncs.
    async fn release_freed(&self) -> Result<(), StoreError> {
        for _ in 0..2 {
            if self.lock().space().waiting() > 0 {
                self.sync_now().await?;
            }
        }
        Ok(())
    }

    fn kept_when_idle(&self) -> impl Fn(u64) -> PunchReserve + use<> {
        let disks = self
            .disks()
            .all()
            .iter()
            .filter(|d| !d.is_missing())
            .count() as u64;
        let large = self.bounds().spare / disks.max(1);
        move |used| PunchReserve {
            large,
            small: used / SMALL_EXTENTS_SHARE,
        }
    }

    /// For an idle store: returns everything except what the next writes need.
    async fn trim_idle(&self) -> Result<u64, StoreError> {
        self.release_freed().await?;
        if self.log().retained() > self.bounds().log / IDLE_LOG_SHARE
            && self.index().check_space().is_ok()
        {
            self.release_retained_log().await?;
        }
        self.lock().space_mut().close_windows();
        self.punch_all(self.kept_when_idle()).await
    }

    /// For a store that is written to: returns blocks only if far more are free than writes need
    /// soon.
    async fn trim_busy(&self) -> Result<u64, StoreError> {
        let growth = 2 * self.bounds().growth / BLOCK as u64;
        let keep = |used: u64| PunchReserve {
            large: used / 2 + growth,
            small: u64::MAX,
        };
        self.punch_all(keep).await
    }

    /// Bytes that the disks occupy on their hosts.
    fn held(&self) -> u64 {
        let files = self
            .disks()
            .all()
            .iter()
            .filter_map(|disk| disk.file().ok());
        files.filter_map(|file| file.allocated_bytes().ok()).sum()
    }
}

fn bytes_of(extent: Extent) -> (u64, u64) {
    (Place(extent.start).offset(), extent.blocks * BLOCK as u64)
}

impl Store {
    /// Returns all free space to the host now, as an idle store does by itself: that of removed
    /// files, of dropped checkpoints and of the log. Some is kept for the next writes.
    pub async fn trim(&self) -> Result<Trimmed, StoreError> {
        self.0.lock().check_writable()?;
        self.reclaim().await?;
        let inner = self.0.to_arc();
        detached(async move {
            let bytes = inner.trim_idle().await?;
            let held = inner.held();
            Ok(Trimmed { bytes, held })
        })
        .await
    }
}

/// The background task that returns free space to the host, until the store is dropped or closed,
/// or fails.
pub(crate) async fn trim_in_background(store: Weak<Inner>) {
    let (mut last, mut since) = (0, Instant::now());
    loop {
        tokio::time::sleep(TRIM_INTERVAL).await;
        let Some(inner) = store.upgrade() else { return };
        if inner.is_stopping() {
            return;
        }
        let change = {
            let state = inner.lock();
            if state.check_writable().is_err() {
                return;
            }
            state.head().last_change()
        };
        if change != last {
            (last, since) = (change, Instant::now());
        }
        let pass = async {
            if since.elapsed() >= IDLE_TIMEOUT {
                inner.trim_idle().await
            } else {
                inner.trim_busy().await
            }
        };
        // A pass that panics does not end the task.
        match AssertUnwindSafe(pass).catch_unwind().await {
            Err(_) => tracing::error!("returning free space to the host panicked"),
            Ok(Ok(0)) => {}
            Ok(Ok(bytes)) => tracing::debug!(bytes, "returned free space to the host"),
            Ok(Err(error)) => tracing::warn!(%error, "free space does not go back to the host yet"),
        }
    }
}
