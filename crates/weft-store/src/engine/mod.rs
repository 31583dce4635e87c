//! The store as callers see it.

mod admission;
mod bounds;
mod detached;
mod index_room;
mod locked;
mod positions;

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use weft_kv::OrderedKv;
use weft_layout::FileId;

use crate::cache::Flights;
use crate::counters::{CounterSnapshot, Counters};
use crate::disk::{DiskSet, DiskStatus};
use crate::error::StoreError;
use crate::index::{Application, Removal};
use crate::key::{ForkKey, ForkStatus, Usage};
use crate::limits::LANES;
use crate::log::{Incarnations, Log};
use crate::pool::{BLOCK, Pool};
use crate::signals::Signals;
use crate::state::State;
use crate::storage::Storage;

pub(crate) use bounds::Bounds;
pub(crate) use detached::whole;
pub(crate) use index_room::Room;
pub(crate) use locked::Locked;

pub(crate) struct Inner {
    pub(crate) me: Weak<Inner>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) index: Arc<dyn OrderedKv>,
    pub(crate) disks: DiskSet,
    pub(crate) pool: Pool,
    pub(crate) bounds: Bounds,
    pub(crate) state: Mutex<State>,
    pub(crate) log: Log,
    pub(crate) incarnations: Arc<Incarnations>,
    pub(crate) counters: Counters,
    pub(crate) sync_lock: Arc<tokio::sync::Mutex<()>>,
    pub(crate) flush_lock: tokio::sync::Mutex<()>,
    /// Held by an application; what an earlier one could not bring into the index.
    pub(crate) apply_lock: tokio::sync::Mutex<Option<Application>>,
    pub(crate) grow_lock: tokio::sync::Mutex<()>,
    pub(crate) merge_lock: tokio::sync::Mutex<()>,
    /// Held by the large call that waits for room.
    pub(crate) large_turn: tokio::sync::Mutex<()>,
    /// Keep calls about one addressed chunk apart.
    pub(crate) lanes: [tokio::sync::Mutex<()>; LANES],
    pub(crate) signals: Arc<Signals>,
    /// Reads of the disks under way.
    pub(crate) flights: Flights,
    /// Slots that are fetched ahead at this moment.
    pub(crate) fetching: AtomicUsize,
    /// What was wrong beside chunks when the store was opened, and was set right then.
    pub(crate) marks: Vec<String>,
    /// What the next application removes from the index: chunks whose forks were gone when the
    /// store was opened, for one. They stay until the log is applied: replaying it may have given
    /// what they say to other forks.
    pub(crate) removal: Mutex<Removal>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.signals.stop.store(true, Relaxed);
        self.signals.work.notify_one();
    }
}

/// The disk of an I/O server. Clones share the store.
///
/// # Cancellation
/// Every method may be dropped: what has begun either takes effect wholly or not at all.
#[derive(Clone)]
pub struct Store(pub(crate) Arc<Inner>);

impl Inner {
    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked::wait(&self.state, &self.signals.room)
    }

    pub(crate) fn me(&self) -> Arc<Self> {
        self.me
            .upgrade()
            .expect("whoever borrows the store holds it")
    }

    /// Waits until frame `sequence` is in the kernel.
    pub(crate) fn append(&self, sequence: u64) -> Result<(), StoreError> {
        self.log.append(&self.state, &self.counters, sequence)
    }

    /// Runs blocking work beside the callers and returns what it made.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let (send, receive) = tokio::sync::oneshot::channel();
        let done = self.storage.run(Box::new(move || {
            // The receiver is gone when its caller was cancelled: then nobody wants the answer.
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
        // Only now: who waits looks whether it failed.
        self.signals.room.notify_waiters();
        failed
    }
}

impl Store {
    #[expect(
        clippy::unused_async,
        reason = "an evicted fork will have to be loaded"
    )]
    /// What is known of a fork; `None` when there is none of this name.
    pub async fn status(&self, key: &ForkKey) -> Result<Option<ForkStatus>, StoreError> {
        let (status, sequence) = {
            let state = self.0.lock();
            state.check_alive(key.file)?;
            (state.find(key).map(|id| state.status(id)), state.sequence())
        };
        self.0.seen(sequence)?;
        Ok(status)
    }

    #[expect(
        clippy::unused_async,
        reason = "an evicted file will have to be loaded"
    )]
    /// All forks of a file's cells on this server, by cell and name.
    pub async fn forks(&self, file: FileId) -> Result<Vec<(ForkKey, ForkStatus)>, StoreError> {
        let (forks, sequence) = {
            let state = self.0.lock();
            state.check_alive(file)?;
            let forks = state.forks().file(file).map(|f| f.forks().values());
            let forks = forks.into_iter().flatten();
            let list: Vec<_> = forks
                .map(|id| (state.forks()[*id].key().clone(), state.status(*id)))
                .collect();
            (list, state.sequence())
        };
        self.0.seen(sequence)?;
        Ok(forks)
    }

    /// Whether the store has any fork of a file.
    pub fn holds(&self, file: FileId) -> bool {
        let state = self.0.lock();
        state
            .forks()
            .file(file)
            .is_some_and(|f| !f.forks().is_empty())
    }

    /// Space held and left.
    pub fn usage(&self) -> Usage {
        let inner = &self.0;
        let (used, free, waiting, sizes) = {
            let state = inner.lock();
            let disk = state.space();
            let open = disk.open().into_iter();
            let sizes: Vec<_> = open.map(|n| (n, disk.of_disk(n).0, disk.away(n))).collect();
            (disk.used(), disk.available(), disk.waiting(), sizes)
        };
        let growth = sizes.into_iter().filter_map(|(number, blocks, away)| {
            let disk = inner.disks.get(number)?;
            let unit = BLOCK as u64;
            disk.growth(blocks * unit, away * unit).ok()
        });
        let growth: u64 = growth.sum();
        let (used, available) = (
            used * BLOCK as u64,
            (free + waiting) * BLOCK as u64 + growth,
        );
        Usage {
            capacity: used + available,
            used,
            available,
        }
    }

    /// The disks, by number.
    pub fn disks(&self) -> Vec<DiskStatus> {
        let inner = &self.0;
        inner.disks.status(inner.lock().space())
    }

    /// The memory of its pages. What is received there ([`Pool::land`]) and written in large pieces
    /// that begin in it where they begin in a page is not copied.
    pub fn memory(&self) -> &Pool {
        &self.0.pool
    }

    /// What the store has done since it was opened.
    pub fn counters(&self) -> CounterSnapshot {
        CounterSnapshot {
            prefetched_unused: self.0.lock().cache().fetched_in_vain(),
            ..self.0.counters.snapshot()
        }
    }

    /// Memory that buffers have taken from the system.
    pub fn buffer_bytes(&self) -> u64 {
        self.0.pool.bytes()
    }
}

impl Inner {
    /// What a caller is shown must be in the kernel: else a kill could take it back. Reading goes
    /// on after the store failed, because what is shown then is at worst newer than what stays.
    pub(crate) fn seen(&self, sequence: u64) -> Result<(), StoreError> {
        match self.append(sequence) {
            Err(StoreError::SyncFailed { .. }) => Ok(()),
            other => other,
        }
    }
}
