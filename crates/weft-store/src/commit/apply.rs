//! Bringing the log into the index, and the background task that does it.
//!
//! Steps, in an order that a crash forces: close the segment (everything up to `bound` is in closed
//! segments); flush every dirty page; copy all changes; sync; write the copy to the index; sync the
//! index; release the closed segments. So the index never refers to data that is not on stable
//! storage, and the log alone must be replayed. Replaying frames that the copy already has changes
//! nothing: a frame states a result, not a difference.
//!
//! A released segment is retained until the index has its contents in tables, of which there are
//! two copies. Until then it is the second copy of the index's journal
//! (`docs/design/0020-log-behind-journals.md`).

use std::sync::Arc;

use crate::counters::Counters;
use crate::engine::{IndexBudget, Inner, Store, detached};
use crate::error::StoreError;
use crate::forks::Checkpoint;
use crate::index::{Application, IndexBatches, RemovedFork};
use crate::limits::REMOVAL_STEPS;
use crate::record::{
    CHUNKS, CheckpointRecord, ChunkRecord, FILES, FORKS, FileRecord, ForkRecord, META, STORE_KEY,
};
use crate::state::{IndexEntry, StoreState};

impl Inner {
    /// Brings everything logged before the call into the index and removes its segments.
    ///
    /// # Errors
    /// [`StoreError::IndexFull`] if the index may not grow, or the system refuses it something:
    /// everything stays in the log.
    pub(crate) async fn apply(&self) -> Result<(), StoreError> {
        self.apply_with(IndexBudget::Shared).await
    }

    /// As [`Inner::apply`], within this budget of the index.
    pub(crate) async fn apply_with(&self, budget: IndexBudget) -> Result<(), StoreError> {
        if self.index().check_space().is_err() {
            self.release_applied_log().await?;
        }
        let mut pending = self.turns().apply().await;
        self.check_index_space(budget)?;
        if let Some(earlier) = pending.take() {
            self.write_index(&mut pending, earlier).await?;
        }
        let logged = self.lock().head().logged();
        let bound = self.rotate_log()?;
        self.flush(0).await?;
        // A full disk can leave pages dirty: the log must keep what they need.
        let application = {
            let mut state = self.lock();
            let oldest = state.oldest_dirty();
            let bound = bound.min(oldest.saturating_sub(1));
            copy_changes(&mut state, bound, logged, self.disks().all().len() > 1)
        };
        self.sync_now().await?;
        self.write_index(&mut pending, application).await?;
        Counters::add(&self.counters().applies, 1);
        self.wake_waiting_calls();
        // The background task releases retained segments, unless the log has no space for the next
        // segment now.
        if self.log().is_tight()
            && let Err(error) = self.release_applied_log().await
        {
            tracing::warn!(%error, "cannot remove obsolete log segments");
        }
        self.wake_background();
        Ok(())
    }

    /// Writes an application to the index; one that the index refuses for now is left `pending`.
    async fn write_index(
        &self,
        pending: &mut Option<Application>,
        mut application: Application,
    ) -> Result<(), StoreError> {
        let index = Arc::clone(self.index());
        let written = self.run(move || {
            let written = application.write(&*index);
            (written, application)
        });
        let (written, application) = written.await?;
        if let Err(error) = written {
            // A refusal leaves nothing in doubt (`docs/design/0029-engine-errors.md`).
            if matches!(error, StoreError::IndexFull { .. }) {
                *pending = Some(application);
                return Err(error);
            }
            return Err(self.fail("write the index", error.to_string()));
        }
        {
            let mut state = self.lock();
            for (id, n) in application.chunks() {
                state.end_application(*id, *n);
            }
            state.applied(application.logged());
            state.cache_mut().scan_again();
            state.evict(self.bounds().cache);
        }
        self.log().release_through(application.bound());
        self.wake_waiting_calls();
        self.remove_from_index(application.into_removed()).await
    }

    /// Removes from the index the chunks of removed forks and chunks that belong to no fork, as far
    /// as there is space for it. Of many chunks a later pass removes the rest, because other work
    /// waits for the background task.
    async fn remove_from_index(&self, forks: Vec<RemovedFork>) -> Result<(), StoreError> {
        let mut removal = std::mem::take(&mut *self.removal());
        removal.removed.extend(forks);
        let mut steps = 0;
        while !removal.is_done() && steps < REMOVAL_STEPS && self.check_removal_space().is_ok() {
            steps += 1;
            let (index, most) = (Arc::clone(self.index()), self.entries_per_removal());
            let step = self.run(move || {
                let freed = removal.remove_some(&*index, most);
                (freed, removal)
            });
            let (freed, rest) = step.await?;
            removal = rest;
            let freed = match freed {
                Ok(freed) => freed,
                // The next application continues.
                Err(StoreError::IndexFull { .. }) => break,
                Err(error) => return Err(self.fail("write the index", error.to_string())),
            };
            let mut state = self.lock();
            let sequence = state.sequence();
            for extent in freed {
                state.space_mut().free_after(sequence, extent);
            }
        }
        if steps == REMOVAL_STEPS && !removal.is_done() {
            self.request_application();
        }
        let left = std::mem::take(&mut removal.removed);
        self.lock().changes_mut().requeue_removed(left);
        *self.removal() = removal;
        Ok(())
    }
}

impl Inner {
    /// Removes segments whose contents the index has in tables; has the index write those tables
    /// once enough segments are retained.
    pub(crate) async fn release_applied_log(&self) -> Result<(), StoreError> {
        if self.should_flush_index() {
            return self.release_retained_log().await;
        }
        self.log().remove_settled()
    }

    /// Removes all segments that were applied, because space is short. If the index may not grow,
    /// it then has only one copy of what they say: better than no space for new data.
    pub(crate) async fn release_retained_log(&self) -> Result<(), StoreError> {
        if self.log().retained() > 0 {
            if self.index().check_space().is_ok() {
                self.flush_index().await?;
            } else {
                self.log().settled(self.log().last_retained());
            }
        }
        self.log().remove_settled()
    }

    /// Whether the log retains enough segments to make the index write a table.
    fn should_flush_index(&self) -> bool {
        let retained = self.log().retained();
        let unsettled = self.lock().head().unsettled();
        retained > 0
            && (retained > self.bounds().log / 8
                || unsettled > self.bounds().replay / 4
                || self.log().is_tight()
                || self.index().check_space().is_err())
    }

    /// Has the index write what it applied to tables, so that the retained segments can go.
    pub(crate) async fn flush_index(&self) -> Result<(), StoreError> {
        // Read before the index flushes: an application that ends meanwhile may be in its tables
        // only partly.
        let (through, indexed) = (self.log().last_retained(), self.lock().head().indexed());
        let index = Arc::clone(self.index());
        let flushed = self.run(move || index.flush()).await?;
        flushed.map_err(|error| StoreError::IndexFull {
            // The log keeps what is in no table, and the next pass tries again.
            reason: error.to_string(),
        })?;
        self.log().settled(through);
        let mut state = self.lock();
        state.settled(indexed);
        Ok(())
    }
}

fn copy_changes(state: &mut StoreState, bound: u64, logged: u64, several: bool) -> Application {
    let mut changes = state.changes_mut().take();
    let mut batches = IndexBatches::default();
    // Last: an adopted entry must be in the index before the entry it came from is removed.
    let mut deletions = Vec::new();
    for file in changes.files {
        if let Some(f) = state.forks().file(file) {
            let record = FileRecord {
                deleted: f.deleted(),
                op: f.op(),
            };
            batches.push((FILES, FileRecord::key(file), Some(record.encode())));
        }
    }
    for dead in &mut changes.removed {
        if !dead.take_record() {
            continue;
        }
        if state.find(dead.key()).is_none() {
            deletions.push((FORKS, ForkRecord::key(dead.key()), None));
        }
        deletions.push((
            FORKS,
            ForkRecord::checkpoint_fork_key(dead.key(), dead.id()),
            None,
        ));
    }
    for (file, number) in changes.checkpoints {
        let key = CheckpointRecord::key(file, number);
        let made = state
            .forks()
            .file(file)
            .and_then(|f| f.checkpoints().get(&number));
        match made.map(Checkpoint::made) {
            Some(made) => batches.push((FILES, key, Some(CheckpointRecord { made }.encode()))),
            None => deletions.push((FILES, key, None)),
        }
    }
    let mut chunks = Vec::with_capacity(changes.chunks.len());
    for (id, n) in changes.chunks {
        let Some(entry) = state.copy_to_index(id, n) else {
            continue;
        };
        let key = ChunkRecord::key(id, n);
        match entry {
            IndexEntry::Stored(runs) => {
                batches.push((CHUNKS, key, Some(ChunkRecord::encode(&runs))));
            }
            IndexEntry::Absent => deletions.push((CHUNKS, key, None)),
        }
        chunks.push((id, n));
    }
    for id in changes.forks {
        let Some(fork) = state.forks().get(id) else {
            continue;
        };
        let record = ForkRecord {
            id,
            chunk: fork.chunk_code(),
            length: fork.length(),
            modified: fork.modified(),
            blocks: fork.blocks(),
            parent: fork.parent(),
            inherit: fork.inherit(),
            checkpoint: fork.checkpoint().unwrap_or(0),
        };
        let key = match fork.checkpoint() {
            None => ForkRecord::key(fork.key()),
            Some(_) => ForkRecord::checkpoint_fork_key(fork.key(), id),
        };
        batches.push((FORKS, key, Some(record.encode())));
    }
    for change in state.doubts_mut().take_changes() {
        batches.push(change);
    }
    for deletion in deletions {
        batches.push(deletion);
    }
    let record = state.record(bound, several);
    batches.push_alone((META, STORE_KEY.to_vec(), Some(record.encode())));
    Application::new(batches, chunks, changes.removed, bound, logged)
}

impl Store {
    /// Flushes, syncs and applies everything, and marks the store as cleanly closed. If there is no
    /// space for that, everything is synced and stays in the log. Later writes are refused.
    pub async fn close(&self) -> Result<(), StoreError> {
        let inner = &self.0;
        {
            let mut state = inner.lock();
            state.check_writable()?;
            state.close();
        }
        inner.wake_waiting_calls();
        let this = Arc::clone(inner);
        let applied =
            match detached(async move { this.apply_with(IndexBudget::Reserve).await }).await {
                // The log has everything and is replayed at the next opening.
                Err(StoreError::IndexFull { .. }) => {
                    let _flush = inner.turns().flush().await;
                    self.sync().await.map(|()| false)
                }
                done => done.map(|()| true),
            }?;
        inner.stop_background();
        if !applied || inner.lock().dirty().blocks() > 0 {
            return Ok(());
        }
        // The log is removed, and with it the second copy of the index's journal.
        if let Err(error) = inner.flush_index().await {
            tracing::warn!(%error, "the log stays: some of the index is only in its journal");
            return Ok(());
        }
        let this = Arc::clone(inner);
        inner.run(move || this.mark_clean()).await?
    }

    /// Applies the log to the index now, as the store does by itself when the log grows.
    pub async fn apply(&self) -> Result<(), StoreError> {
        self.apply_with(IndexBudget::Shared).await
    }

    pub(crate) async fn apply_with(&self, budget: IndexBudget) -> Result<(), StoreError> {
        self.0.lock().check_writable()?;
        let inner = Arc::clone(&self.0);
        detached(async move { inner.apply_with(budget).await }).await
    }

    /// Frees all space of truncated forks and dropped checkpoints now, as the store does by itself
    /// in the background.
    pub async fn reclaim(&self) -> Result<(), StoreError> {
        let inner = Arc::clone(&self.0);
        detached(async move {
            inner.finish_truncations().await?;
            inner.merge().await?;
            inner.apply().await?;
            inner.release_retained_log().await
        })
        .await
    }

    /// Drops clean pages, so that the next reads come from the disk.
    pub fn drop_cache(&self) {
        self.0.lock().evict_all();
    }
}
