//! `FjallKv`: the embedded engine, fjall behind [`OrderedKv`].
//!
//! All spaces lie in one fjall keyspace under `name ‖ 0 ‖ key`. One keyspace per space was
//! rejected: fjall keeps its journals until every keyspace that wrote to them was flushed, so a
//! space that is seldom written (settings) would hold back the space of all the others and slow
//! down opening (fjall issues 261 and 288).
//!
//! fjall's own transactions are not used: [`Layered`] is shared with the twin, and its batch is
//! all that a commit needs. One writer at a time; readers use snapshots and never wait for it.
//!
//! Invariants:
//! 1. A commit has handed its journal entry to the kernel when it returns: it survives kill −9.
//! 2. After a commit or sync that the disk failed everything is refused until the engine is opened
//!    again by another process: what the disk holds is unknown, and only recovery can find out.
//! 3. After a commit that the system refused (`fault.rs`) nothing is committed until this one has
//!    opened its engine again, behind all that was committed and nothing else.
//! 4. An engine whose journal lacks what was on stable storage is not opened (`loss.rs`).
//! 5. Nor one with a table that is not what was written, unless there is a good copy of it
//!    (`copies.rs`).
//!
//! A sync does not hold up commits: it goes past fjall's journal lock (`journal.rs`).

use std::fs::File;
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fjall::{PersistMode, Readable};
use parking_lot::{Mutex, RwLock};

use super::fault::{Fault, is_transient};
use super::group::Failed;
use super::opening::{Around, Engine, lock, lost_error};
use super::options::{FjallOptions, OnLoss};
use super::room::Room;
use crate::KvError;
use crate::batch::NUMBER_KEY;
use crate::files::{DamagedFile, EngineFile, copies, loss};
use crate::overlay::{Layered, Overlay, is_empty_range};
use crate::traits::{Batch, OrderedKv, Reader, Space, Transaction};
use crate::transact::prefix_end;

/// Descriptors that must be free before the engine is opened again after a failure.
const DESCRIPTORS: usize = 32;
/// How long that waits for the reads under way.
const READS: Duration = Duration::from_millis(200);
/// How often a sync asks for what the system refuses, and how long after the last time.
const SYNC_TRIES: (u32, Duration) = (20, Duration::from_millis(25));
/// A commit is in the journal, in a table and, for a moment, in the table that this one is merged
/// into.
const TIMES: u64 = 3;

/// The embedded engine.
pub struct FjallKv {
    path: PathBuf,
    options: FjallOptions,
    /// `None` only where it could not be opened again yet.
    engine: RwLock<Option<Arc<Engine>>>,
    around: Around,
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
        let around = Around {
            room: Arc::new(Room::new(&path, options.reserve)),
            writer: Arc::new(Mutex::new(())),
            fault: Arc::new(Fault::default()),
            committed: Arc::new(AtomicU64::new(0)),
        };
        let (engine, number) = Engine::open(&path, options, &around)?;
        around.committed.store(number, Ordering::Release);
        Ok(FjallKv {
            path,
            options: FjallOptions {
                // What is lost from now on is not to be lost.
                loss: OnLoss::Refuse,
                ..options
            },
            engine: RwLock::new(Some(Arc::new(engine))),
            around,
        })
    }

    /// Whether the journals in a folder have what they must; nothing is changed.
    ///
    /// # Errors
    /// [`KvError::Lost`] where they have not; [`KvError::Damaged`] where that cannot be said,
    /// because tables are damaged.
    pub fn check(path: impl AsRef<Path>) -> Result<(), KvError> {
        let _lock = lock(path.as_ref())?;
        let found = loss::find(path.as_ref())?;
        found.loss.map_or(Ok(()), |loss| Err(lost_error(&loss)))
    }

    /// Looks at each table and list of a folder of which no engine is open, and at their copies;
    /// nothing is changed.
    ///
    /// Cost: reads all of them.
    /// # Errors
    /// When they cannot be looked for; what is damaged is told in the answer.
    pub fn verify_folder(path: impl AsRef<Path>) -> Result<Vec<DamagedFile>, KvError> {
        let _lock = lock(path.as_ref())?;
        copies::verify_all(path.as_ref())
    }

    /// Puts copies in the place of files of a folder that are not what was written, as an opening
    /// does, but looks at all of them. Damaged copies are made anew when the engine is open.
    ///
    /// # Errors
    /// [`KvError::Damaged`] where there is no good copy; nothing is changed then.
    pub fn repair_folder(path: impl AsRef<Path>) -> Result<(), KvError> {
        let path = path.as_ref();
        let _lock = lock(path)?;
        copies::heal(path, false, true)?;
        for file in copies::files(path)? {
            if let Some(tree) = file.copied_tree()
                && copies::verify(path, &file)?.1.is_some()
            {
                let forgotten = copies::forget_copy(path, tree);
                forgotten.map_err(|error| KvError::open(path, &error))?;
            }
        }
        Ok(())
    }

    /// Copies the tables that are not copied yet, which otherwise happens some seconds after they
    /// were written.
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
    pub(crate) fn shrinker(&self, room: Arc<Room>) -> crate::engine::shrink::Shrinker {
        let engine = self.reading().unwrap();
        let shrinker = self
            .around
            .shrinker(&self.path, engine.database(), engine.keyspace());
        crate::engine::shrink::Shrinker { room, ..shrinker }
    }

    /// The engine to read from: it goes on while commits are refused.
    fn reading(&self) -> Result<Arc<Engine>, KvError> {
        self.around.fault.group().check()?;
        if self.around.fault.is_passing()
            && let Some(_writer) = self.around.writer.try_lock()
        {
            self.open_again()?;
        }
        let engine = self.engine.read().clone();
        engine.ok_or_else(|| self.around.fault.suspended())
    }

    /// The engine to commit to, for who holds the writer lock.
    fn writing(&self) -> Result<Arc<Engine>, KvError> {
        self.around.fault.group().check()?;
        if self.around.fault.is_passing() {
            self.open_again()?;
            self.around.fault.check()?;
        }
        let engine = self.engine.read().clone();
        engine.ok_or_else(|| self.around.fault.suspended())
    }

    /// Opens the engine again after a failure, if that has passed, with all commits that succeeded
    /// and none that failed. The caller holds the writer lock.
    ///
    /// # Errors
    /// [`KvError::Poisoned`] where the failure turns out to be one that lasts; none where it has
    /// not passed yet.
    fn open_again(&self) -> Result<(), KvError> {
        let fault = &self.around.fault;
        if !fault.is_due() {
            return Ok(());
        }
        // All descriptors at a time, and before anything is closed: reads go on meanwhile.
        let free: Result<Vec<File>, _> =
            (0..DESCRIPTORS).map(|_| File::open("/dev/null")).collect();
        if let Err(error) = free {
            fault.lasts_longer(error.to_string());
            return Ok(());
        }
        drop(free);
        if let Err(error) = self.around.room.check_last(0) {
            fault.lasts_longer(error.to_string());
            return Ok(());
        }
        // Who reads from now on waits for the new one.
        let mut slot = self.engine.write();
        if let Some(mut engine) = slot.take() {
            let started = Instant::now();
            loop {
                match Arc::try_unwrap(engine) {
                    Ok(engine) => break engine.close(),
                    Err(held) if started.elapsed() > READS => {
                        *slot = Some(held);
                        fault.lasts_longer("it is being read from");
                        return Ok(());
                    }
                    Err(held) => engine = held,
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        match self.opened_again() {
            Ok(engine) => {
                *slot = Some(Arc::new(engine));
                fault.passed();
                let folder = self.path.display();
                tracing::warn!(%folder, "the key-value engine goes on: nothing that it acknowledged is lost");
                Ok(())
            }
            Err(KvError::Open { reason, .. } | KvError::Engine { reason, .. }) => {
                fault.lasts_longer(reason);
                Ok(())
            }
            Err(error) => {
                fault.group().poison(error.cause());
                fault.group().check()
            }
        }
    }

    fn opened_again(&self) -> Result<Engine, KvError> {
        let unread = |error: std::io::Error| KvError::open(&self.path, &error);
        let committed = self.around.committed.load(Ordering::Acquire);
        {
            let _lock = lock(&self.path)?;
            // A commit that failed may be in the journal all the same, and its caller was told that
            // it is not.
            let beyond = loss::beyond(&self.path, committed).map_err(unread)?;
            loss::trim(&beyond).map_err(unread)?;
        }
        let (engine, number) = Engine::open(&self.path, self.options, &self.around)?;
        if number != committed {
            return Err(KvError::Poisoned {
                reason: format!("after a failure it holds {number} commits of {committed}"),
            });
        }
        // Written anew: what a failed sync left of the journal may be in memory only.
        engine.flush().map_err(|reason| KvError::Engine {
            doing: "write its tables",
            reason,
        })?;
        Ok(engine)
    }

    /// Commits while the caller holds the writer lock.
    fn commit(&self, engine: &Engine, overlay: Overlay) -> Result<(), KvError> {
        if overlay.is_empty() {
            return Ok(());
        }
        // On a disk that others filled, this gives the reserve back before it is needed.
        let _ = self.around.room.look();
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
        // Under the writer lock, so that numbers go on in the order of the journal.
        let number = self.around.committed.load(Ordering::Acquire) + 1;
        batch.insert(keyspace, NUMBER_KEY, number.to_le_bytes());
        batch.commit().map_err(|error| {
            self.around.fault.commit_failed(&error);
            match self.around.fault.check() {
                Err(suspended @ KvError::Suspended { .. }) => suspended,
                _ => failed("commit", &error),
            }
        })?;
        self.around.committed.store(number, Ordering::Release);
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
        let _writer = self.around.writer.lock();
        let engine = self.writing()?;
        let mut layered = Layered {
            overlay: Overlay::default(),
            base: Snapshot::of(Arc::clone(&engine)),
        };
        work(&mut layered)?;
        self.commit(&engine, layered.overlay)
    }

    fn write(&self, batch: Batch) -> Result<(), KvError> {
        let _writer = self.around.writer.lock();
        let engine = self.writing()?;
        self.commit(&engine, Overlay::from_batch(batch))
    }

    fn check_space(&self) -> Result<(), KvError> {
        self.around.room.check()
    }

    fn check_reclaim_space(&self, bytes: u64) -> Result<(), KvError> {
        // What is there for everybody is there for these, too.
        let everybody = self.around.room.check();
        everybody.or_else(|_| self.around.room.check_last(bytes.saturating_mul(TIMES)))
    }

    fn files(&self) -> Result<Vec<EngineFile>, KvError> {
        copies::files(&self.path)
    }

    fn verify(&self, file: &EngineFile) -> Result<(u64, Option<DamagedFile>), KvError> {
        self.reading()?.copier().verify(file)
    }

    fn flush(&self) -> Result<(), KvError> {
        let engine = self.reading()?;
        engine.flush().map_err(|reason| KvError::Engine {
            doing: "write its tables",
            reason,
        })
    }

    fn committed(&self) -> u64 {
        self.around.committed.load(Ordering::Acquire)
    }

    fn sync(&self) -> Result<(), KvError> {
        let engine = self.reading()?;
        self.around.fault.group().join(|| {
            let number = self.around.committed.load(Ordering::Acquire);
            let (mut tries, pause) = SYNC_TRIES;
            loop {
                tries -= 1;
                let synced = engine.journals().sync();
                match synced.and_then(|()| mark(&engine, number)) {
                    Err(Failed::ForNow(_)) if tries > 0 => std::thread::sleep(pause),
                    done => return done,
                }
            }
        })
    }
}

/// Notes that everything up to this commit is on stable storage.
fn mark(engine: &Engine, number: u64) -> Result<(), Failed> {
    let marked = engine.watermark().set(number);
    marked.map_err(|error| Failed::of(&error, is_transient(&error)))
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
