//! What all calls of a store and its background tasks share.

use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::futures::Notified;
use weft_kv::OrderedKv;

use super::bounds::Bounds;
use super::chunk_holds::ChunkHolds;
use super::prefetches::Prefetches;
use super::state_guard::StateGuard;
use super::turns::Turns;
use crate::cache::ReadsInFlight;
use crate::counters::Counters;
use crate::disk::DiskSet;
use crate::error::StoreError;
use crate::index::Removal;
use crate::log::{Incarnations, Log, Unsynced};
use crate::pool::Pool;
use crate::signals::Signals;
use crate::state::StoreState;
use crate::storage::Storage;

/// An open store.
pub(crate) struct Inner {
    this: Weak<Inner>,
    storage: Arc<dyn Storage>,
    index: Arc<dyn OrderedKv>,
    disks: DiskSet,
    pool: Pool,
    bounds: Bounds,
    state: Mutex<StoreState>,
    log: Log,
    incarnations: Arc<Incarnations>,
    counters: Counters,
    turns: Turns,
    signals: Arc<Signals>,
    flights: ReadsInFlight,
    prefetches: Prefetches,
    chunk_holds: Arc<ChunkHolds>,
    damage_at_open: Vec<String>,
    /// What the next application removes from the index: for one, chunks whose forks were gone when
    /// the store was opened. They stay until the log is applied, because replaying it may have
    /// given what they say to other forks.
    removal: Mutex<Removal>,
}

/// What recovery hands to the store that it opens.
pub(crate) struct Recovered {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) index: Arc<dyn OrderedKv>,
    pub(crate) disks: DiskSet,
    pub(crate) pool: Pool,
    pub(crate) bounds: Bounds,
    pub(crate) state: StoreState,
    pub(crate) log: Log,
    pub(crate) incarnations: Arc<Incarnations>,
    pub(crate) signals: Arc<Signals>,
    /// What was damaged beside chunks, and was repaired by opening the store.
    pub(crate) damage_at_open: Vec<String>,
    /// What the first application removes from the index.
    pub(crate) removal: Removal,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop_background();
    }
}

impl Inner {
    /// An open store from what recovery found.
    pub(crate) fn new(recovered: Recovered) -> Arc<Self> {
        Arc::new_cyclic(|this: &Weak<Inner>| Inner {
            this: this.clone(),
            storage: recovered.storage,
            index: recovered.index,
            disks: recovered.disks,
            pool: recovered.pool,
            bounds: recovered.bounds,
            state: Mutex::new(recovered.state),
            log: recovered.log,
            incarnations: recovered.incarnations,
            counters: Counters::default(),
            turns: Turns::default(),
            signals: recovered.signals,
            flights: ReadsInFlight::default(),
            prefetches: Prefetches::default(),
            chunk_holds: Arc::default(),
            damage_at_open: recovered.damage_at_open,
            removal: Mutex::new(recovered.removal),
        })
    }

    /// Locks the state.
    pub(crate) fn lock(&self) -> StateGuard<'_> {
        StateGuard::lock(&self.state, self.signals.freed())
    }

    /// A counted reference to the store, for work that outlives its caller.
    pub(crate) fn to_arc(&self) -> Arc<Self> {
        self.this.upgrade().expect("a borrowed store has an owner")
    }

    /// The store's folder.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    pub(crate) fn index(&self) -> &Arc<dyn OrderedKv> {
        &self.index
    }

    pub(crate) fn disks(&self) -> &DiskSet {
        &self.disks
    }

    /// The memory of its pages.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The locks that keep background operations apart.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Reads of the disks in flight.
    pub(crate) fn flights(&self) -> &ReadsInFlight {
        &self.flights
    }

    /// Prefetches in flight.
    pub(crate) fn prefetches(&self) -> &Prefetches {
        &self.prefetches
    }

    /// The chunks that calls in progress hold.
    pub(crate) fn chunk_holds(&self) -> &Arc<ChunkHolds> {
        &self.chunk_holds
    }

    pub(super) fn incarnations(&self) -> &Incarnations {
        &self.incarnations
    }

    /// What was damaged beside chunks, and was repaired by opening the store.
    pub(crate) fn damage_at_open(&self) -> &[String] {
        &self.damage_at_open
    }

    /// What is still to be removed from the index.
    pub(crate) fn removal(&self) -> MutexGuard<'_, Removal> {
        self.removal.lock()
    }

    /// Runs blocking work on a worker of the storage and returns its result.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let (send, receive) = tokio::sync::oneshot::channel();
        let done = self.storage.run(Box::new(move || {
            // The receiver is gone if its caller was cancelled: nothing waits for the result then.
            let _ = send.send(work());
        }));
        done.await;
        receive.await.map_err(|_| StoreError::Io {
            doing: "run work beside",
            path: ".".into(),
            errno: None,
            kind: std::io::ErrorKind::Interrupted,
            reason: "the worker stopped".into(),
        })
    }

    /// Closes the store to writes.
    pub(crate) fn fail(&self, doing: &'static str, reason: String) -> StoreError {
        let failed = StoreError::SyncFailed { doing, reason };
        tracing::error!(%failed, "the store failed");
        let failed = self.lock().fail(failed);
        // Only now: a waiting call checks whether the store failed.
        self.wake_waiting_calls();
        failed
    }
}

/// The log.
impl Inner {
    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// Waits until frame `sequence` is in the kernel.
    pub(crate) fn append(&self, sequence: u64) -> Result<(), StoreError> {
        self.log.append(&self.state, &self.counters, sequence)
    }

    /// As [`Inner::append`], before a caller sees what the frame says: else a kill could take it
    /// back. Reading goes on after the store failed, because what a caller sees then is at worst
    /// newer than what stays.
    pub(crate) fn append_before_reply(&self, sequence: u64) -> Result<(), StoreError> {
        match self.append(sequence) {
            Err(StoreError::SyncFailed { .. }) => Ok(()),
            other => other,
        }
    }

    /// Closes the log's segment; returns the last frame in it.
    pub(crate) fn rotate_log(&self) -> Result<u64, StoreError> {
        self.log.rotate(&self.state, &self.counters)
    }

    /// Appends all frames; returns what of the log the next sync must cover.
    pub(crate) fn unsynced_log(&self) -> Result<Unsynced, StoreError> {
        self.log.unsynced(&self.state, &self.counters)
    }
}

/// The background task, and the calls that wait for it.
impl Inner {
    /// Wakes the background task: there may be work for it.
    pub(crate) fn wake_background(&self) {
        self.signals.wake();
    }

    /// Wakes the calls that wait for admission: something was freed, or the store failed.
    pub(crate) fn wake_waiting_calls(&self) {
        self.signals.notify_freed();
    }

    /// Resolves with the next [`Inner::wake_waiting_calls`].
    pub(super) fn next_wake(&self) -> Notified<'_> {
        self.signals.freed().notified()
    }

    /// Ends the background tasks.
    pub(crate) fn stop_background(&self) {
        self.signals.stop();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.signals.is_stopped()
    }

    /// Has the background task apply the log in its next pass.
    pub(crate) fn request_application(&self) {
        self.signals.request_apply();
    }

    /// Whether an application was requested since the last call.
    pub(crate) fn take_application_request(&self) -> bool {
        self.signals.take_apply_request()
    }

    /// Counts a pass of the background task and wakes the calls that wait for it.
    pub(crate) fn end_pass(&self) {
        self.signals.end_pass();
    }

    /// Passes of the background task that have ended.
    pub(super) fn passes(&self) -> u64 {
        self.signals.passes()
    }
}
