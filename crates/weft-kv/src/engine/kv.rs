//! `FjallKv`: the embedded engine, fjall behind [`OrderedKv`].
//!
//! All spaces lie in one fjall keyspace under `name ‖ 0 ‖ key`. One keyspace per space was
//! rejected: fjall keeps its journals until every keyspace that wrote to them was flushed, so a
//! space that is seldom written (settings) would keep the journals of all others and slow down
//! opening (fjall issues 261 and 288).
//!
//! fjall's transactions are not used: [`Overlay`] serves both engines, and a fjall batch is all
//! that a commit needs. There is one writer at a time; readers use snapshots and never wait for it.
//!
//! Invariants:
//! 1. A commit has handed its journal entry to the kernel when it returns: it survives kill −9.
//! 2. After a commit or sync that the disk failed, everything is refused until another process
//!    opens the engine: what the disk holds is unknown, and only recovery can find out.
//! 3. After a commit that the system refused (`fault.rs`), nothing is committed until this process
//!    has reopened the engine with all commits that succeeded and no other.
//! 4. An engine whose journal lacks what was on stable storage is not opened (`loss.rs`).
//! 5. Nor is one with a damaged table, unless there is a good copy of it (`restore.rs`).
//!
//! A sync does not delay commits: it bypasses fjall's journal lock (`journal.rs`).

use std::fs::File;
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fjall::{PersistMode, Readable};
use parking_lot::{Mutex, RwLock};

use super::disk_reserve::DiskReserve;
use super::fault::EngineFault;
use super::group::SyncFailure;
use super::instance::{Engine, EngineContext, lock, lost_error};
use super::options::{FjallOptions, OnLoss};
use crate::KvError;
use crate::files::{self, DamagedFile, EngineFile, Extent, OnDamage, loss};
use crate::journal_batch::NUMBER_KEY;
use crate::limits::{
    COMMIT_COPIES, REOPEN_DESCRIPTORS, REOPEN_READERS_TIMEOUT, SYNC_ATTEMPTS, SYNC_RETRY_INTERVAL,
};
use crate::overlay::{Overlay, is_empty_range};
use crate::traits::{Batch, OrderedKv, Reader, Space, Transaction};
use crate::transact::prefix_end;

/// The embedded engine.
pub struct FjallKv {
    path: PathBuf,
    options: FjallOptions,
    /// `None` only while it cannot be reopened.
    engine: RwLock<Option<Arc<Engine>>>,
    context: EngineContext,
}

impl std::fmt::Debug for FjallKv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FjallKv")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl FjallKv {
    /// Opens the engine whose files are in the folder `path`, or creates it there.
    ///
    /// # Errors
    /// [`KvError::Open`] when the folder is in use by another process, of another format, or cannot
    /// be written. [`KvError::Lost`] when its journal lacks what was on stable storage;
    /// [`KvError::Damaged`] when its other files are not what it wrote.
    pub fn open(path: impl AsRef<Path>, options: FjallOptions) -> Result<FjallKv, KvError> {
        let path = path.as_ref().to_path_buf();
        let context = EngineContext {
            reserve: Arc::new(DiskReserve::new(&path, options.reserve)),
            writer: Arc::new(Mutex::new(())),
            fault: Arc::new(EngineFault::default()),
            committed: Arc::new(AtomicU64::new(0)),
        };
        let (engine, number) = Engine::open(&path, options, &context)?;
        context.committed.store(number, Ordering::Release);
        Ok(FjallKv {
            path,
            options: FjallOptions {
                // Only a loss that was there at this opening is accepted.
                loss: OnLoss::Refuse,
                ..options
            },
            engine: RwLock::new(Some(Arc::new(engine))),
            context,
        })
    }

    /// Checks that the journals in a folder have every commit that they must have. Changes nothing.
    ///
    /// # Errors
    /// [`KvError::Lost`] where they lack some; [`KvError::Damaged`] where damaged tables prevent
    /// the check.
    pub fn check(path: impl AsRef<Path>) -> Result<(), KvError> {
        let _lock = lock(path.as_ref())?;
        let found = loss::scan(path.as_ref())?;
        found.loss.map_or(Ok(()), |loss| Err(lost_error(&loss)))
    }

    /// Verifies all tables and lists in the folder of a closed engine, and their copies. Changes
    /// nothing.
    ///
    /// Cost: reads all of them.
    /// # Errors
    /// When the folder cannot be read. Damaged files are results, not errors.
    pub fn verify_folder(path: impl AsRef<Path>) -> Result<Vec<DamagedFile>, KvError> {
        let _lock = lock(path.as_ref())?;
        files::verify_all(path.as_ref())
    }

    /// Restores damaged files from their copies, as an opening does, but verifies all of them.
    /// Damaged copies are made again when the engine is open.
    ///
    /// # Errors
    /// [`KvError::Damaged`] where there is no good copy; nothing is changed then.
    pub fn repair_folder(path: impl AsRef<Path>) -> Result<(), KvError> {
        let path = path.as_ref();
        let _lock = lock(path)?;
        files::restore(path, OnDamage::Refuse, Extent::All)?;
        for file in files::files(path)? {
            if let Some(tree) = file.copied_tree()
                && files::verify(path, &file)?.1.is_some()
            {
                let forgotten = files::forget_copy(path, tree);
                forgotten.map_err(|error| KvError::open(path, &error))?;
            }
        }
        Ok(())
    }

    /// Copies tables that have no copy yet. Without this call that happens some seconds after they
    /// are written.
    ///
    /// # Errors
    /// [`KvError::Engine`].
    pub fn copy_tables(&self) -> Result<(), KvError> {
        let copied = self.reading()?.copier().copy_now();
        copied.map_err(|error| KvError::Engine {
            doing: "copy its tables",
            reason: error.to_string(),
        })
    }

    /// The folder that holds the engine's files.
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[cfg(test)]
    pub(crate) fn compactor(
        &self,
        reserve: Arc<DiskReserve>,
    ) -> crate::engine::compactor::Compactor {
        let engine = self.reading().unwrap();
        let compactor = self
            .context
            .compactor(&self.path, engine.database(), engine.keyspace());
        crate::engine::compactor::Compactor {
            reserve,
            ..compactor
        }
    }

    /// The engine to read from. Reads continue while commits are refused.
    fn reading(&self) -> Result<Arc<Engine>, KvError> {
        self.context.fault.group().check()?;
        if self.context.fault.is_suspended()
            && let Some(_writer) = self.context.writer.try_lock()
        {
            self.reopen()?;
        }
        let engine = self.engine.read().clone();
        engine.ok_or_else(|| self.context.fault.suspended_error())
    }

    /// The engine to commit to. The caller holds the writer lock.
    fn writing(&self) -> Result<Arc<Engine>, KvError> {
        self.context.fault.group().check()?;
        if self.context.fault.is_suspended() {
            self.reopen()?;
            self.context.fault.check()?;
        }
        let engine = self.engine.read().clone();
        engine.ok_or_else(|| self.context.fault.suspended_error())
    }

    /// Reopens the engine after a transient failure, with all commits that succeeded and none that
    /// failed. Where the failure still lasts, the next attempt is later. The caller holds the
    /// writer lock.
    ///
    /// # Errors
    /// [`KvError::Poisoned`] where the failure turns out to be permanent.
    fn reopen(&self) -> Result<(), KvError> {
        let fault = &self.context.fault;
        if !fault.retry_is_due() {
            return Ok(());
        }
        // All descriptors at once, and before anything is closed: reads continue meanwhile.
        let free: Result<Vec<File>, _> = (0..REOPEN_DESCRIPTORS)
            .map(|_| File::open("/dev/null"))
            .collect();
        if let Err(error) = free {
            fault.retry_failed(error.to_string());
            return Ok(());
        }
        drop(free);
        if let Err(error) = self.context.reserve.check_reclaim(0) {
            fault.retry_failed(error.to_string());
            return Ok(());
        }
        // Reads that begin from here on wait for the new engine.
        let mut slot = self.engine.write();
        if let Some(mut engine) = slot.take() {
            let started = Instant::now();
            loop {
                match Arc::try_unwrap(engine) {
                    Ok(engine) => break engine.close(),
                    Err(held) if started.elapsed() > REOPEN_READERS_TIMEOUT => {
                        *slot = Some(held);
                        fault.retry_failed("reads keep the engine open");
                        return Ok(());
                    }
                    Err(held) => engine = held,
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        match self.open_at_commit() {
            Ok(engine) => {
                *slot = Some(Arc::new(engine));
                fault.clear();
                let folder = self.path.display();
                tracing::warn!(%folder, "the key-value engine accepts changes again: nothing that it acknowledged is lost");
                Ok(())
            }
            Err(KvError::Open { reason, .. } | KvError::Engine { reason, .. }) => {
                fault.retry_failed(reason);
                Ok(())
            }
            Err(error) => {
                fault.group().poison(error.cause());
                fault.group().check()
            }
        }
    }

    /// Opens the engine at the last commit that succeeded.
    fn open_at_commit(&self) -> Result<Engine, KvError> {
        let unread = |error: std::io::Error| KvError::open(&self.path, &error);
        let committed = self.context.committed.load(Ordering::Acquire);
        {
            let _lock = lock(&self.path)?;
            // The journal may hold a commit although its caller got an error.
            let beyond = loss::beyond(&self.path, committed).map_err(unread)?;
            loss::truncate(&beyond).map_err(unread)?;
        }
        let (engine, number) = Engine::open(&self.path, self.options, &self.context)?;
        if number != committed {
            return Err(KvError::Poisoned {
                reason: format!("after a failure it has {number} of {committed} commits"),
            });
        }
        // What a failed sync left of the journal may be in memory only: write it again, as tables.
        engine.flush()?;
        Ok(engine)
    }

    /// Commits while the caller holds the writer lock.
    fn commit(&self, engine: &Engine, overlay: Overlay) -> Result<(), KvError> {
        if overlay.is_empty() {
            return Ok(());
        }
        // On a disk that others filled, this releases the reserve before it is needed.
        let _ = self.context.reserve.refresh();
        let keyspace = engine.keyspace();
        let mut batch = engine.database().batch();
        batch = batch.durability(Some(PersistMode::Buffer));
        for (space, key, value) in overlay.into_changes() {
            let key = full_key(space, &key);
            match value {
                Some(value) => batch.insert(keyspace, key, value),
                None => batch.remove(keyspace, key),
            }
        }
        // Under the writer lock, so that numbers ascend in the journal.
        let number = self.context.committed.load(Ordering::Acquire) + 1;
        batch.insert(keyspace, NUMBER_KEY, number.to_le_bytes());
        batch.commit().map_err(|error| {
            self.context.fault.commit_failed(&error);
            match self.context.fault.check() {
                Err(suspended @ KvError::Suspended { .. }) => suspended,
                Ok(()) | Err(_) => failed("commit", &error),
            }
        })?;
        self.context.committed.store(number, Ordering::Release);
        Ok(())
    }
}

impl OrderedKv for FjallKv {
    fn snapshot(&self) -> Result<Box<dyn Reader + '_>, KvError> {
        Ok(Box::new(Snapshot::of(self.reading()?)))
    }

    fn transact(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        let _writer = self.context.writer.lock();
        let engine = self.writing()?;
        let overlay = Overlay::of_transaction(Snapshot::of(Arc::clone(&engine)), work)?;
        self.commit(&engine, overlay)
    }

    fn write(&self, batch: Batch) -> Result<(), KvError> {
        let _writer = self.context.writer.lock();
        let engine = self.writing()?;
        self.commit(&engine, Overlay::from_batch(batch))
    }

    fn check_space(&self) -> Result<(), KvError> {
        self.context.reserve.check_growth()
    }

    fn check_reclaim_space(&self, bytes: u64) -> Result<(), KvError> {
        // Space for growth is space for these commits, too.
        let reserve = &self.context.reserve;
        let bytes = bytes.saturating_mul(COMMIT_COPIES);
        reserve
            .check_growth()
            .or_else(|_| reserve.check_reclaim(bytes))
    }

    fn files(&self) -> Result<Vec<EngineFile>, KvError> {
        files::files(&self.path)
    }

    fn verify(&self, file: &EngineFile) -> Result<(u64, Option<DamagedFile>), KvError> {
        self.reading()?.copier().verify(file)
    }

    fn flush(&self) -> Result<(), KvError> {
        self.reading()?.flush()
    }

    fn committed(&self) -> u64 {
        self.context.committed.load(Ordering::Acquire)
    }

    fn sync(&self) -> Result<(), KvError> {
        let engine = self.reading()?;
        self.context.fault.group().join(|| {
            let number = self.context.committed.load(Ordering::Acquire);
            let mut attempts = SYNC_ATTEMPTS;
            loop {
                attempts -= 1;
                let synced = engine.journals().sync();
                match synced.and_then(|()| mark(&engine, number)) {
                    Err(SyncFailure::Transient(_)) if attempts > 0 => {
                        std::thread::sleep(SYNC_RETRY_INTERVAL);
                    }
                    done => return done,
                }
            }
        })
    }
}

/// Records that everything up to this commit is on stable storage.
fn mark(engine: &Engine, number: u64) -> Result<(), SyncFailure> {
    let marked = engine.watermark().set(number);
    marked.map_err(|error| SyncFailure::of_refusal(&error))
}

struct Snapshot {
    engine: Arc<Engine>,
    snapshot: fjall::Snapshot,
}

impl Snapshot {
    fn of(engine: Arc<Engine>) -> Snapshot {
        Snapshot {
            snapshot: engine.database().snapshot(),
            engine,
        }
    }
}

impl Reader for Snapshot {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        // Most keys are short: build the full key without an allocation.
        let mut short = [0_u8; 96];
        let length = space.0.len() + 1 + key.len();
        let found = if length <= short.len() {
            short[..space.0.len()].copy_from_slice(space.0.as_bytes());
            short[space.0.len() + 1..length].copy_from_slice(key);
            self.snapshot.get(self.engine.keyspace(), &short[..length])
        } else {
            self.snapshot
                .get(self.engine.keyspace(), full_key(space, key))
        };
        let found = found.map_err(|error| failed("read a key", &error))?;
        Ok(found.map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), KvError> {
        if is_empty_range(from, to) {
            return Ok(());
        }
        let prefix = full_key(space, &[]);
        let from = match from {
            Bound::Included(key) => Bound::Included(full_key(space, key)),
            Bound::Excluded(key) => Bound::Excluded(full_key(space, key)),
            Bound::Unbounded => Bound::Included(prefix.clone()),
        };
        let to = match to {
            Bound::Included(key) => Bound::Included(full_key(space, key)),
            Bound::Excluded(key) => Bound::Excluded(full_key(space, key)),
            Bound::Unbounded => prefix_end(&prefix).map_or(Bound::Unbounded, Bound::Excluded),
        };
        let range = self
            .snapshot
            .range::<Vec<u8>, _>(self.engine.keyspace(), (from, to));
        let mut last = None;
        for item in range {
            let (key, value) = item.into_inner().map_err(|error| failed("scan", &error))?;
            if last.as_ref().is_some_and(|last| *last >= key) {
                return Err(KvError::Engine {
                    doing: "scan",
                    reason: "keys are not in order: blocks of a table have changed places"
                        .to_owned(),
                });
            }
            let key = last.insert(key);
            if visit(&key[prefix.len()..], &value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// `name ‖ 0 ‖ key`: no name holds a zero byte, so spaces are disjoint and keep the keys' order.
fn full_key(space: Space, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(space.0.len() + 1 + key.len());
    full.extend_from_slice(space.0.as_bytes());
    full.push(0);
    full.extend_from_slice(key);
    full
}

fn failed(doing: &'static str, error: &fjall::Error) -> KvError {
    KvError::Engine {
        doing,
        reason: error.to_string(),
    }
}
