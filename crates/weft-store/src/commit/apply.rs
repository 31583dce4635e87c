//! Bringing the log into the index, and the background task that does it.
//!
//! Steps, in an order that a crash forces: close the segment (everything up to `bound` is in closed
//! segments); flush every dirty page; take a copy of all that changed; sync; put the copy into the
//! index; sync the index; let go of the closed segments. So the index never refers to data that is
//! not on stable storage, and the log is all there is to replay. Replaying frames that the copy
//! already has changes nothing: each says what is, not what is added.
//!
//! Segments that were let go of stay until the index has what they say in tables, of which there
//! are two copies: until then they are the second copy of the index's journal
//! (`docs/design/0020-log-behind-journals.md`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::counters::Counters;
use crate::engine::{Inner, Room, Store, whole};
use crate::error::StoreError;
use crate::forks::Checkpoint;
use crate::index::{Application, Batches, Dead};
use crate::pages::{APPLYING, CHANGED};
use crate::record::{
    CHUNKS, CheckpointRecord, ChunkRecord, FILES, FORKS, FileRecord, ForkRecord, META, STORE_KEY,
};
use crate::state::State;

/// Parts of what is removed from the index in one application.
const PARTS: usize = 16;

impl Inner {
    /// Brings everything logged before the call into the index and removes its segments.
    ///
    /// # Errors
    /// [`StoreError::IndexFull`] where the index may not grow, or the system refuses it something:
    /// everything stays in the log.
    pub(crate) async fn apply(&self) -> Result<(), StoreError> {
        self.apply_in(Room::Shared).await
    }

    /// As [`Inner::apply`], where the index has this room at least.
    pub(crate) async fn apply_in(&self, room: Room) -> Result<(), StoreError> {
        if self.index.check_room().is_err() {
            self.remove_applied().await?;
        }
        let mut owed = self.apply_lock.lock().await;
        self.check_index_room(room)?;
        if let Some(earlier) = owed.take() {
            self.write_index(&mut owed, earlier).await?;
        }
        let logged = self.lock().head().logged();
        let bound = self.log.rotate(&self.state, &self.counters)?;
        self.flush(0).await?;
        // A full disk can leave pages dirty: what they need of the log must stay.
        let application = {
            let mut state = self.lock();
            let oldest = oldest_dirty(&state);
            let bound = bound.min(oldest.saturating_sub(1));
            copy_changes(&mut state, bound, logged, self.disks.all().len() > 1)
        };
        self.sync_now().await?;
        self.write_index(&mut owed, application).await?;
        Counters::add(&self.counters.applies, 1);
        self.signals.room.notify_waiters();
        // The background sees to what is kept; where there is no room for a segment, that is waited
        // for.
        if self.log.is_tight()
            && let Err(error) = self.remove_applied().await
        {
            tracing::warn!(%error, "segments of the log that nobody needs stay");
        }
        self.signals.work.notify_one();
        Ok(())
    }

    /// Brings an application into the index; what that refuses for now is `owed`.
    async fn write_index(
        &self,
        owed: &mut Option<Application>,
        mut application: Application,
    ) -> Result<(), StoreError> {
        let index = Arc::clone(&self.index);
        let written = self.run(move || {
            let written = application.write(&*index);
            (written, application)
        });
        let (written, application) = written.await?;
        if let Err(error) = written {
            // Nothing that was refused is unknown (`docs/design/0029-engine-errors.md`).
            if matches!(error, StoreError::IndexFull { .. }) {
                *owed = Some(application);
                return Err(error);
            }
            return Err(self.fail("write the index", error.to_string()));
        }
        {
            let mut state = self.lock();
            for (id, n) in application.chunks() {
                if let Some(chunk) = state.forks_mut().chunk_mut(*id, *n) {
                    chunk.marks &= !APPLYING;
                }
            }
            state.applied(application.logged());
            state.cache_mut().look_again();
            state.evict(self.bounds.cache);
        }
        self.log.release_through(application.bound());
        self.signals.room.notify_waiters();
        self.remove_from_index(application.into_dead()).await
    }

    /// Removes what dead forks have in the index, and chunks of nobody, as far as there is room for
    /// it; much of it not at once, as others wait for the background.
    async fn remove_from_index(&self, dead: Vec<Dead>) -> Result<(), StoreError> {
        let mut removal = std::mem::take(&mut *self.removal.lock());
        removal.dead.extend(dead);
        let mut parts = 0;
        while !removal.is_done() && parts < PARTS && self.check_removal_room().is_ok() {
            parts += 1;
            let (index, most) = (Arc::clone(&self.index), self.removals());
            let part = self.run(move || {
                let freed = removal.part(&*index, most);
                (freed, removal)
            });
            let (freed, rest) = part.await?;
            removal = rest;
            let freed = match freed {
                Ok(freed) => freed,
                // The next application goes on with it.
                Err(StoreError::IndexFull { .. }) => break,
                Err(error) => return Err(self.fail("write the index", error.to_string())),
            };
            let mut state = self.lock();
            let sequence = state.sequence();
            for extent in freed {
                state.space_mut().free_after(sequence, extent);
            }
        }
        if parts == PARTS && !removal.is_done() {
            self.signals.apply.store(true, Relaxed);
        }
        let dead = std::mem::take(&mut removal.dead);
        self.lock().changes_mut().removed_again(dead);
        *self.removal.lock() = removal;
        Ok(())
    }
}

impl Inner {
    /// Removes segments of which the index has everything in tables, and sees to that where enough
    /// has come together.
    pub(crate) async fn remove_applied(&self) -> Result<(), StoreError> {
        if self.must_settle() {
            return self.give_kept_back().await;
        }
        self.log.remove_settled()
    }

    /// Removes all segments that were applied: where space is short. Where the index may not grow,
    /// it has what they say once only from then on; that is better than having no room for what is
    /// new.
    pub(crate) async fn give_kept_back(&self) -> Result<(), StoreError> {
        if self.log.kept() > 0 {
            if self.index.check_room().is_ok() {
                self.settle_index().await?;
            } else {
                self.log.settled(self.log.last_kept());
            }
        }
        self.log.remove_settled()
    }

    /// Whether what is kept for the case that the index loses its journal is worth a table.
    fn must_settle(&self) -> bool {
        let kept = self.log.kept();
        let unsettled = self.lock().head().unsettled();
        kept > 0
            && (kept > self.bounds.log / 8
                || unsettled > self.bounds.replay / 4
                || self.log.is_tight()
                || self.index.check_room().is_err())
    }

    /// Has the index write what it has of the log to tables: nobody needs the segments then.
    pub(crate) async fn settle_index(&self) -> Result<(), StoreError> {
        // Before the index settles: an application may end meanwhile, of which its tables have a
        // part.
        let (through, indexed) = (self.log.last_kept(), self.lock().head().indexed());
        let index = Arc::clone(&self.index);
        let settled = self.run(move || index.settle()).await?;
        settled.map_err(|error| StoreError::IndexFull {
            // The log keeps what is in no table, and the next round tries again.
            reason: error.to_string(),
        })?;
        self.log.settled(through);
        let mut state = self.lock();
        // Another may have ended meanwhile.
        state.settled(indexed);
        Ok(())
    }
}

fn oldest_dirty(state: &State) -> u64 {
    let chunks = state.dirty().chunks().iter();
    let chunks = chunks.filter_map(|(id, n)| state.forks().chunk(*id, *n));
    chunks
        .flat_map(|c| c.pages.iter().flatten())
        .map(|p| p.oldest)
        .min()
        .unwrap_or(u64::MAX)
}

/// Copies what differs from the index. The copied chunks stay in memory until the index has them.
fn copy_changes(state: &mut State, bound: u64, logged: u64, several: bool) -> Application {
    let mut changes = state.changes_mut().take();
    let mut batches = Batches::default();
    // Last: what an entry was given must be there before the giver's goes.
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
    for dead in &mut changes.dead {
        if !dead.take_record() {
            continue;
        }
        if state.find(dead.key()).is_none() {
            deletions.push((FORKS, ForkRecord::key(dead.key()), None));
        }
        deletions.push((FORKS, ForkRecord::kept_key(dead.key(), dead.id()), None));
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
        let Some(fork) = state.forks_mut().get_mut(id) else {
            continue;
        };
        let hides = fork.inherits(n);
        let Some(chunk) = fork.chunk_mut(n) else {
            continue;
        };
        chunk.marks = (chunk.marks & !CHANGED) | APPLYING;
        let runs = chunk.to_runs();
        // An empty chunk must hide what its parent has.
        let stored = !chunk.through && (!runs.runs.is_empty() || hides);
        fork.chunk_indexed(n);
        let key = ChunkRecord::key(id, n);
        if stored {
            batches.push((CHUNKS, key, Some(ChunkRecord::encode(&runs))));
        } else {
            deletions.push((CHUNKS, key, None));
        }
        chunks.push((id, n));
    }
    for id in changes.forks {
        let Some(fork) = state.forks().get(id) else {
            continue;
        };
        let record = ForkRecord {
            id,
            chunk: fork.chunk(),
            length: fork.length(),
            modified: fork.modified(),
            blocks: fork.blocks(),
            parent: fork.parent(),
            inherit: fork.inherit(),
            checkpoint: fork.kept().unwrap_or(0),
        };
        let key = match fork.kept() {
            None => ForkRecord::key(fork.key()),
            Some(_) => ForkRecord::kept_key(fork.key(), id),
        };
        batches.push((FORKS, key, Some(record.encode())));
    }
    for change in state.doubts().take_changes() {
        batches.push(change);
    }
    for deletion in deletions {
        batches.push(deletion);
    }
    let record = state.record(bound, several);
    batches.push_alone((META, STORE_KEY.to_vec(), Some(record.encode())));
    Application::new(batches, chunks, changes.dead, bound, logged)
}

impl Store {
    /// Flushes, syncs and applies everything, and marks the store as closed in good order: where
    /// that has no room, everything is synced and stays in the log. Later writes are refused.
    pub async fn close(&self) -> Result<(), StoreError> {
        let inner = &self.0;
        {
            let mut state = inner.lock();
            state.check_writable()?;
            state.close();
        }
        inner.signals.room.notify_waiters();
        let this = Arc::clone(inner);
        let applied = match whole(async move { this.apply_in(Room::Last).await }).await {
            // The log has it, and is replayed at the next opening.
            Err(StoreError::IndexFull { .. }) => {
                let _flushed = inner.flush_lock.lock().await;
                self.sync().await.map(|()| false)
            }
            done => done.map(|()| true),
        }?;
        inner.signals.stop.store(true, Relaxed);
        inner.signals.work.notify_one();
        if !applied || inner.lock().dirty().blocks() > 0 {
            return Ok(());
        }
        // The log goes, and with it what the index's journal could be made of again.
        if let Err(error) = inner.settle_index().await {
            tracing::warn!(%error, "the log stays: some of the index is in its journal alone");
            return Ok(());
        }
        let this = Arc::clone(inner);
        inner.run(move || this.mark_clean()).await?
    }

    /// Brings the log into the index now, as the store does by itself when the log grows.
    pub async fn apply(&self) -> Result<(), StoreError> {
        self.apply_in(Room::Shared).await
    }

    pub(crate) async fn apply_in(&self, room: Room) -> Result<(), StoreError> {
        self.0.lock().check_writable()?;
        let inner = Arc::clone(&self.0);
        whole(async move { inner.apply_in(room).await }).await
    }

    /// Brings all space of cuts and dropped checkpoints back now, as the store does by itself in
    /// the background.
    pub async fn reclaim(&self) -> Result<(), StoreError> {
        let inner = Arc::clone(&self.0);
        whole(async move {
            inner.settle_all().await?;
            inner.merge().await?;
            inner.apply().await?;
            inner.give_kept_back().await
        })
        .await
    }

    /// Drops clean pages, so that the next reads come from the disk.
    pub fn drop_cache(&self) {
        self.0.lock().evict_all();
    }
}
