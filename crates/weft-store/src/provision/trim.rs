//! Giving free blocks back to the host (`docs/design/0025-space.md`).
//!
//! Invariants:
//! 1. A block is punched out only while it is free, so after the durable `Synced` record that
//!    covers what freed it; no write gets it before it was filled.
//! 2. Growing, filling and punching exclude each other (`grow_lock`), one piece at a time: a writer
//!    that needs room waits for one piece at most.
//! 3. Beside calls of others it rests twenty times as long as a piece took, so they lose a
//!    twentieth at most.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use crate::disk::Disk;
use crate::engine::{Inner, Store, whole};
use crate::error::StoreError;
use crate::pool::BLOCK;
use crate::record::Place;
use crate::space::{Extent, Keep, PunchWalk};

/// How often the background looks whether there is something to give back.
const LOOK: Duration = Duration::from_secs(5);
/// A store to which nothing was written for so long is at rest.
const REST: Duration = Duration::from_secs(10);
/// Of the blocks in use, the part that may be free in pieces of less than 1 MiB beside them.
const SMALL_PART: u64 = 32;
/// Blocks that are punched out at a time: 64 MiB, which takes ext4 some 10 ms, in which direct
/// writes wait.
const PIECE: u64 = 16_384;
/// How many times as long as a piece took it rests beside calls of others.
const RESTS: u32 = 20;
/// Of the log's bound, what may be kept of it at rest.
const LOG_PART: u64 = 16;

/// What a store gave back to its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Bytes of free blocks that were punched out.
    pub bytes: u64,
    /// Bytes that its disks take of their hosts now.
    pub held: u64,
}

impl Inner {
    /// At an opening: a disk with holes has free blocks that may lie in them. Some are given a
    /// place at once, whatever room the host has: what pages were promised, and what a cut may need
    /// on a full disk.
    pub(crate) async fn doubt_places(&self) -> Result<(), StoreError> {
        for disk in self.disks.all() {
            let Ok(file) = disk.file() else { continue };
            let fail = |e: io::Error| StoreError::io("measure", &disk.shown(), &e);
            if file.held().map_err(fail)? < file.length().map_err(fail)? {
                let (open, reserved) = {
                    let mut state = self.lock();
                    state.space_mut().doubt(disk.number);
                    let open = state.space().open().contains(&disk.number);
                    (open, state.space().reserved())
                };
                if open {
                    self.fill(disk, reserved + self.bounds.spare / 2 + 128)
                        .await?;
                }
            }
        }
        Ok(())
    }

    /// Gives up to `blocks` free blocks of a disk a place; how many. The caller grows alone.
    pub(crate) async fn fill(&self, disk: &Disk, blocks: u64) -> Result<u64, StoreError> {
        let mut filled = 0;
        while filled < blocks {
            let extents = self.lock().space().to_fill(disk.number, blocks - filled);
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
            disk.written.store(true, Relaxed);
            let mut state = self.lock();
            for extent in done {
                filled += extent.blocks;
                state.space_mut().filled(extent);
            }
            if let Some(error) = failed {
                tracing::debug!(%error, disk = %disk.shown(), "the host gives no place to blocks that it was given back");
                break;
            }
        }
        Ok(filled)
    }

    /// Gives back all free blocks of the disks but for what is kept.
    async fn punch_all(&self, keep: impl Fn(u64) -> Keep) -> Result<u64, StoreError> {
        let mut blocks = 0;
        for disk in self.disks.all() {
            if disk.is_missing() || disk.keeps_all.load(Relaxed) {
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
                // Where nobody else calls there is nobody to leave the disk to.
                let rest = begun.elapsed() * RESTS;
                if rest > Duration::ZERO && self.calls() != calls {
                    tokio::time::sleep(rest).await;
                } else {
                    tokio::task::yield_now().await;
                }
            }
        }
        Ok(blocks * BLOCK as u64)
    }

    fn calls(&self) -> u64 {
        let counters = &self.counters;
        counters.reads.load(Relaxed) + counters.writes.load(Relaxed)
    }

    /// Punches out a piece of a disk's free blocks; `None`: there is nothing left to give.
    async fn punch_piece(
        &self,
        disk: &Disk,
        keep: impl Fn(u64) -> Keep,
        walk: &mut PunchWalk,
    ) -> Result<Option<u64>, StoreError> {
        let Ok(file) = disk.file().map(std::sync::Arc::clone) else {
            return Ok(None);
        };
        let _growing = self.grow_lock.lock().await;
        let held = file.held().unwrap_or(0) / BLOCK as u64;
        let extents = {
            let mut state = self.lock();
            let (size, free) = state.space().of_disk(disk.number);
            let away = state.space().away(disk.number);
            let used = size - free - away;
            let keep = keep(used);
            // Blocks that may or may not have a place are worth asking only if the host holds more
            // than it should.
            let extra = (keep.large / 2).saturating_add(keep.small);
            let unsure = held > (size - away).saturating_add(extra);
            match state
                .space_mut()
                .take_to_punch(disk.number, keep, PIECE, walk)
            {
                None if unsure && state.space().unsure(disk.number) > 0 => {
                    state.space_mut().take_unsure(disk.number, PIECE)
                }
                None => return Ok(None),
                Some(extents) => extents,
            }
        };
        let blocks = extents.iter().map(|e| e.blocks).sum();
        let parts = extents.clone();
        let work = move || {
            for (at, extent) in parts.iter().enumerate() {
                let (from, length) = bytes_of(*extent);
                file.punch(from, length).map_err(|error| (at, error))?;
            }
            Ok::<_, (usize, io::Error)>(())
        };
        let done = self.run(work).await?;
        disk.written.store(true, Relaxed);
        let Err((at, error)) = done else {
            return Ok(Some(blocks));
        };
        disk.keeps_all.store(true, Relaxed);
        tracing::warn!(%error, disk = %disk.shown(), "the host takes no free blocks back until the store is opened again");
        let mut state = self.lock();
        for extent in &extents[at..] {
            state.space_mut().doubt_punched(*extent);
        }
        Ok(None)
    }

    /// Frees what waits for syncs alone.
    async fn release_freed(&self) -> Result<(), StoreError> {
        for _ in 0..2 {
            if self.lock().space().waiting() > 0 {
                self.sync_now().await?;
            }
        }
        Ok(())
    }

    fn kept_at_rest(&self) -> impl Fn(u64) -> Keep + use<> {
        let disks = self.disks.all().iter().filter(|d| !d.is_missing()).count() as u64;
        let large = self.bounds.spare / disks.max(1);
        move |used| Keep {
            large,
            small: used / SMALL_PART,
        }
    }

    /// At rest: everything goes but for what the next writes need.
    async fn trim_at_rest(&self) -> Result<u64, StoreError> {
        self.release_freed().await?;
        if self.log.kept() > self.bounds.log / LOG_PART && self.index.check_room().is_ok() {
            self.give_kept_back().await?;
        }
        self.lock().space_mut().close_windows();
        self.punch_all(self.kept_at_rest()).await
    }

    /// Beside writers: only where far more is free than they will need soon.
    async fn trim_beside_writers(&self) -> Result<u64, StoreError> {
        let growth = 2 * self.bounds.growth / BLOCK as u64;
        let keep = |used: u64| Keep {
            large: used / 2 + growth,
            small: u64::MAX,
        };
        self.punch_all(keep).await
    }

    fn held(&self) -> u64 {
        let files = self.disks.all().iter().filter_map(|disk| disk.file().ok());
        files.filter_map(|file| file.held().ok()).sum()
    }
}

fn bytes_of(extent: Extent) -> (u64, u64) {
    (Place(extent.start).offset(), extent.blocks * BLOCK as u64)
}

impl Store {
    /// Gives all free space back to the host now, as the store does by itself when nothing was
    /// written for a while: that of removed files and dropped checkpoints, and the log's. Some is
    /// kept for the next writes.
    pub async fn trim(&self) -> Result<Trimmed, StoreError> {
        self.0.lock().check_writable()?;
        self.reclaim().await?;
        let inner = self.0.me();
        whole(async move {
            let bytes = inner.trim_at_rest().await?;
            let held = inner.held();
            Ok(Trimmed { bytes, held })
        })
        .await
    }
}

/// Gives free space back until the store is dropped or closed, or fails.
pub(crate) async fn give_back(store: Weak<Inner>) {
    let (mut last, mut since) = (0, Instant::now());
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(inner) = store.upgrade() else { return };
        if inner.signals.stop.load(Relaxed) {
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
            if since.elapsed() >= REST {
                inner.trim_at_rest().await
            } else {
                inner.trim_beside_writers().await
            }
        };
        // A pass that panics is not the last.
        match AssertUnwindSafe(pass).catch_unwind().await {
            Err(_) => tracing::error!("giving free space back panicked"),
            Ok(Ok(0)) => {}
            Ok(Ok(bytes)) => tracing::debug!(bytes, "free space went back to the host"),
            Ok(Err(error)) => tracing::warn!(%error, "free space does not go back to the host yet"),
        }
    }
}
