//! Group commit.
//!
//! One sync runs at a time. It waits for the disks and the log in parallel: the log's maps carry
//! checksums, so after a power loss recovery can tell which of the mapped blocks the disk has. Then
//! it queues a `Synced` record, which goes out with the next append. Freed blocks are used again
//! only when that record is durable itself, because until then recovery may read what they held.

use std::io;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::counters::Counters;
use crate::engine::{Inner, Store, SyncTurn, detached};
use crate::error::StoreError;

impl Store {
    /// Waits until everything acknowledged before the call is on stable storage.
    ///
    /// Calls that arrive while a sync runs share the next one.
    /// # Errors
    /// [`StoreError::SyncFailed`], to every waiting caller and every later write: what was
    /// acknowledged since the last good sync may be lost. The store must be reopened.
    pub async fn sync(&self) -> Result<(), StoreError> {
        Counters::add(&self.0.counters().sync_callers, 1);
        let wanted = {
            let state = self.0.lock();
            if let Some(error) = state.failure() {
                return Err(error.clone());
            }
            let last = state.head().last_change();
            if state.head().is_durable(last) {
                return Ok(());
            }
            last
        };
        let turn = self.0.turns().sync().await;
        if self.0.lock().head().is_durable(wanted) {
            return Ok(());
        }
        // Detached: the kernel reports an error of the disk once, and it must not be lost with a
        // caller that is dropped.
        let inner = Arc::clone(&self.0);
        detached(async move { inner.commit_group(&turn).await }).await
    }
}

impl Inner {
    /// Syncs even if nothing changed, to write a `Synced` record.
    pub(crate) async fn sync_now(&self) -> Result<(), StoreError> {
        let turn = self.turns().sync().await;
        self.commit_group(&turn).await
    }

    async fn commit_group(&self, _turn: &SyncTurn) -> Result<(), StoreError> {
        if let Some(error) = self.lock().failure() {
            return Err(error.clone());
        }
        Counters::add(&self.counters().syncs, 1);
        let log = self.unsynced_log()?;
        // After the log's end was read: a write sets this flag before its map is logged.
        let all = self.disks().all().iter();
        let written = all.filter(|d| d.take_written());
        let data = written.filter_map(|d| Some((Some(d), d.file().ok()?)));
        let files = log.files.iter().map(|f| (None, f)).chain(data);
        let mut running: FuturesUnordered<_> = files
            .map(|(disk, file)| file.sync().map(move |done| (disk, done)))
            .collect();
        let mut result = Ok(());
        while let Some((disk, done)) = running.next().await {
            if let (Some(disk), Err(error)) = (disk, &done) {
                let (number, reason) = (disk.number(), format!("sync: {error}"));
                self.disks().fail(self.lock().space_mut(), number, &reason);
                let named = io::Error::new(error.kind(), format!("{}: {error}", disk.shown()));
                result = result.and(Err(named));
                continue;
            }
            result = result.and(done);
        }
        drop(running);
        if log.folder {
            let storage = Arc::clone(self.storage());
            result = result.and(self.run(move || storage.sync_folder()).await?);
        }
        if let Err(error) = result {
            return Err(self.fail("sync", error.to_string()));
        }
        let segment = self.log().synced(log.through);
        let mut state = self.lock();
        state.synced(log.through, segment);
        self.disks().report_full(state.space());
        Ok(())
    }
}
