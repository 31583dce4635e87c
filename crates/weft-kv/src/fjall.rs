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
//! 2. After a failed commit or sync everything is refused until the engine is opened again: what
//!    the disk holds is unknown, and only recovery can find out.
//!
//! 3. An engine whose journal lacks what was on stable storage is not opened (`loss.rs`).
//! 4. Nor one with a table that is not what was written, unless there is a good copy of it (`copies.rs`).
//!
//! A sync does not hold up commits: it goes past fjall's journal lock (`journal.rs`).

use std::fs::{File, TryLockError};
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};
use lsm_tree::AbstractTree;
use parking_lot::Mutex;

use crate::KvError;
use crate::batch::NUMBER_KEY;
use crate::copier::Copier;
use crate::copies::{self, BadFile, EngineFile};
use crate::group::Group;
use crate::journal::Journals;
use crate::loss::{self, Found, Loss, Watermark};
use crate::overlay::{Layered, Overlay, is_empty_range};
use crate::room::{self, Room};
use crate::shrink::Shrinker;
use crate::traits::{Batch, OrderedKv, Reader, Space, Transaction};
use crate::transact::prefix_end;

/// The one fjall keyspace.
const KEYSPACE: &str = "weft";
/// A commit is in the journal, in a table and, for a moment, in the table that this one is merged into.
const TIMES: u64 = 3;
/// How long tables may take to be written.
const SETTLED: Duration = Duration::from_mins(2);
/// How often it is looked whether they are.
const SETTLING: Duration = Duration::from_millis(2);
/// How often the folder's lock is tried, a tenth of a second apart.
const LOCK_TRIES: u32 = 10;

/// How to open a [`FjallKv`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FjallOptions {
    /// Bytes of the block cache.
    pub cache: u64,
    /// Bytes of writes held in memory before they go to a table; the journal is kept until then.
    /// What counts is the value when the engine was created; on a small file system it is less.
    pub memtable: u64,
    /// Bytes of the disk kept for what makes the engine smaller when others have filled it; 0: none.
    pub reserve: u64,
    /// What becomes of an engine whose journals lack commits that were on stable storage.
    pub loss: OnLoss,
}

/// What becomes of an engine whose journals lack commits that were on stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// It is not opened, and nothing is changed.
    #[default]
    Refuse,
    /// It goes on without what cannot be read, and keeps what later journals hold.
    Skip,
    /// It goes back to what it was before the first commit that is missing: for whoever can say again what came after.
    GoBack,
}

impl Default for FjallOptions {
    fn default() -> Self {
        FjallOptions {
            cache: 64 << 20,
            memtable: 64 << 20,
            reserve: 0,
            loss: OnLoss::Refuse,
        }
    }
}

/// The embedded engine.
pub struct FjallKv {
    // First: it ends before the folder's lock is given up.
    copier: Copier,
    path: PathBuf,
    database: Database,
    keyspace: Keyspace,
    writer: Arc<Mutex<()>>,
    group: Arc<Group>,
    journals: Journals,
    watermark: Watermark,
    room: Arc<Room>,
    /// The number of the last commit.
    committed: Arc<AtomicU64>,
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
    /// [`KvError::Open`] when the folder is in use by another process, of another format, or cannot be written.
    /// [`KvError::Lost`] when its journal lacks what was on stable storage; [`KvError::Damaged`] when its other files are
    /// not what it wrote.
    pub fn open(path: impl AsRef<Path>, options: FjallOptions) -> Result<FjallKv, KvError> {
        let path = path.as_ref().to_path_buf();
        let accept_loss = options.loss != OnLoss::Refuse;
        let lost = prepare(&path, options.loss)?;
        let failed = |error: fjall::Error| open_error(&path, &error);
        let database = Database::builder(&path).cache_size(options.cache).open();
        let database = database.map_err(failed)?;
        let memtable = room::memtable(&path, options.memtable);
        let keyspace = database.keyspace(KEYSPACE, || {
            KeyspaceCreateOptions::default().max_memtable_size(memtable)
        });
        let keyspace = keyspace.map_err(failed)?;
        let number = keyspace.get(NUMBER_KEY).map_err(failed)?;
        let number = number.and_then(|n| Some(u64::from_le_bytes((*n).try_into().ok()?)));
        let number = number.unwrap_or(0);
        let unread = |error: std::io::Error| KvError::open(&path, &error);
        let synced = loss::synced(&path).map_err(unread)?;
        if number < synced && !accept_loss {
            return Err(lost_error(&Loss {
                path: path.clone(),
                at: 0,
                first: number + 1,
                last: synced,
            }));
        }
        let watermark = Watermark::open(&path).map_err(unread)?;
        if lost {
            // So that a gap in the journals is none any more at the next opening.
            let reason = |reason| KvError::Open {
                path: path.display().to_string(),
                reason,
            };
            settle(&database, &keyspace).map_err(reason)?;
        }
        if number < synced {
            watermark.set(number).map_err(unread)?;
        }
        let room = Arc::new(Room::new(&path, options.reserve));
        let committed = Arc::new(AtomicU64::new(number));
        let writer = Arc::new(Mutex::new(()));
        let group = Arc::new(Group::default());
        let shrinker = Shrinker {
            group: Arc::clone(&group),
            writer: Arc::clone(&writer),
            database: database.clone(),
            keyspace: keyspace.clone(),
            folder: path.clone(),
            room: Arc::clone(&room),
            committed: Arc::clone(&committed),
        };
        Ok(FjallKv {
            journals: Journals::new(&path),
            watermark,
            committed,
            copier: Copier::start(&path, Arc::clone(&room), shrinker).map_err(unread)?,
            room,
            path,
            database,
            keyspace,
            writer,
            group,
        })
    }

    /// Whether the journals in a folder have what they must; nothing is changed.
    ///
    /// # Errors
    /// [`KvError::Lost`] where they have not; [`KvError::Damaged`] where that cannot be said, because tables are damaged.
    pub fn check(path: impl AsRef<Path>) -> Result<(), KvError> {
        let _lock = lock(path.as_ref())?;
        let found = loss::find(path.as_ref())?;
        found.loss.map_or(Ok(()), |loss| Err(lost_error(&loss)))
    }

    /// Looks at each table and list of a folder of which no engine is open, and at their copies; nothing is changed.
    ///
    /// Cost: reads all of them.
    /// # Errors
    /// When they cannot be looked for; what is damaged is told in the answer.
    pub fn verify_folder(path: impl AsRef<Path>) -> Result<Vec<BadFile>, KvError> {
        let _lock = lock(path.as_ref())?;
        copies::verify_all(path.as_ref())
    }

    /// Puts copies in the place of files of a folder that are not what was written, as an opening does, but looks at all of them.
    /// Damaged copies are made anew when the engine is open.
    ///
    /// # Errors
    /// [`KvError::Damaged`] where there is no good copy; nothing is changed then.
    pub fn mend_folder(path: impl AsRef<Path>) -> Result<(), KvError> {
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

    /// Copies the tables that are not copied yet, which otherwise happens some seconds after they were written.
    ///
    /// # Errors
    /// [`KvError::Engine`].
    pub fn copy_tables(&self) -> Result<(), KvError> {
        let copied = self.copier.copy_now();
        copied.map_err(|error| KvError::Engine {
            doing: "copy its tables",
            reason: error.to_string(),
        })
    }

    /// The folder that holds the engine's files.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the engine's files.
    pub fn disk_bytes(&self) -> Result<u64, KvError> {
        let bytes = self.database.disk_space();
        bytes.map_err(|error| engine("count its files", &error))
    }

    #[cfg(test)]
    pub(crate) fn shrinker(&self, room: Arc<Room>) -> Shrinker {
        Shrinker {
            database: self.database.clone(),
            keyspace: self.keyspace.clone(),
            folder: self.path.clone(),
            room,
            writer: Arc::clone(&self.writer),
            group: Arc::clone(&self.group),
            committed: Arc::clone(&self.committed),
        }
    }

    fn reader(&self) -> Snapshot<'_> {
        Snapshot {
            keyspace: &self.keyspace,
            snapshot: self.database.snapshot(),
        }
    }

    /// Commits while the caller holds the writer lock.
    fn commit(&self, overlay: Overlay) -> Result<(), KvError> {
        if overlay.is_empty() {
            return Ok(());
        }
        // On a disk that others filled, this gives the reserve back before it is needed.
        let _ = self.room.look();
        let mut batch = self.database.batch().durability(Some(PersistMode::Buffer));
        for (space, key, value) in overlay.into_changes() {
            let key = full_key(space, &key);
            match value {
                Some(value) => batch.insert(&self.keyspace, key, value),
                None => batch.remove(&self.keyspace, key),
            }
        }
        // Under the writer lock, so that numbers go on in the order of the journal.
        let number = self.committed.load(Ordering::Acquire) + 1;
        batch.insert(&self.keyspace, NUMBER_KEY, number.to_le_bytes());
        batch.commit().map_err(|error| {
            self.group.poison(format!("a commit failed: {error}"));
            engine("commit", &error)
        })?;
        self.committed.store(number, Ordering::Release);
        Ok(())
    }
}

impl OrderedKv for FjallKv {
    fn snapshot(&self) -> Result<Box<dyn Reader + '_>, KvError> {
        self.group.check()?;
        Ok(Box::new(self.reader()))
    }

    fn transact(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        let _writer = self.writer.lock();
        self.group.check()?;
        let mut layered = Layered {
            overlay: Overlay::default(),
            base: self.reader(),
        };
        work(&mut layered)?;
        self.commit(layered.overlay)
    }

    fn write(&self, batch: Batch) -> Result<(), KvError> {
        let _writer = self.writer.lock();
        self.group.check()?;
        self.commit(Overlay::from_batch(batch))
    }

    fn check_room(&self) -> Result<(), KvError> {
        self.room.check()
    }

    fn check_last_room(&self, bytes: u64) -> Result<(), KvError> {
        // What is there for everybody is there for these, too.
        let everybody = self.room.check();
        everybody.or_else(|_| self.room.check_last(bytes.saturating_mul(TIMES)))
    }

    fn files(&self) -> Result<Vec<EngineFile>, KvError> {
        copies::files(&self.path)
    }

    fn verify(&self, file: &EngineFile) -> Result<(u64, Option<BadFile>), KvError> {
        self.copier.verify(file)
    }

    fn settle(&self) -> Result<(), KvError> {
        self.group.check()?;
        settle(&self.database, &self.keyspace).map_err(|reason| KvError::Engine {
            doing: "write its tables",
            reason,
        })
    }

    fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    fn sync(&self) -> Result<(), KvError> {
        self.group.join(|| {
            let number = self.committed.load(Ordering::Acquire);
            let synced = self
                .journals
                .sync()
                .and_then(|()| self.watermark.set(number));
            synced.map_err(|error| error.to_string())
        })
    }
}

struct Snapshot<'a> {
    keyspace: &'a Keyspace,
    snapshot: fjall::Snapshot,
}

impl Reader for Snapshot<'_> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        // Most keys are short: build the full key without an allocation.
        let mut short = [0_u8; 96];
        let length = space.0.len() + 1 + key.len();
        let found = if length <= short.len() {
            short[..space.0.len()].copy_from_slice(space.0.as_bytes());
            short[space.0.len() + 1..length].copy_from_slice(key);
            self.snapshot.get(self.keyspace, &short[..length])
        } else {
            self.snapshot.get(self.keyspace, full_key(space, key))
        };
        let found = found.map_err(|error| engine("read a key", &error))?;
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
        let mut last = None;
        for item in self.snapshot.range::<Vec<u8>, _>(self.keyspace, (from, to)) {
            let (key, value) = item.into_inner().map_err(|error| engine("scan", &error))?;
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

fn engine(doing: &'static str, error: &fjall::Error) -> KvError {
    KvError::Engine {
        doing,
        reason: error.to_string(),
    }
}

/// Makes journals such as fjall can read them; true: they lack what was on stable storage, and that is accepted.
fn prepare(path: &Path, on_loss: OnLoss) -> Result<bool, KvError> {
    let _lock = lock(path)?;
    copies::heal(path, on_loss != OnLoss::Refuse, false)?;
    let Found { torn, behind, loss } = loss::find(path)?;
    let mut cuts = torn;
    if let Some(loss) = &loss {
        match on_loss {
            OnLoss::Refuse => return Err(lost_error(loss)),
            OnLoss::Skip => {}
            OnLoss::GoBack => {
                cuts.retain(|(path, _)| behind.iter().all(|(other, _)| other != path));
                cuts.extend(behind);
            }
        }
        loss::keep(&cuts).map_err(|error| KvError::open(path, &error))?;
    }
    let trimmed = loss::trim(&cuts).and_then(|()| loss::have_one(path));
    trimmed.map_err(|error| KvError::open(path, &error))?;
    Ok(loss.is_some())
}

/// Brings everything into tables; or says why not.
pub(crate) fn settle(database: &Database, keyspace: &Keyspace) -> Result<(), String> {
    // Where a table could not be written, nobody writes one any more; this is what tells.
    let check = || database.persist(PersistMode::Buffer);
    let rotated = check().and_then(|()| keyspace.rotate_memtable());
    rotated.map_err(|error| error.to_string())?;
    let started = Instant::now();
    while keyspace.tree.sealed_memtable_count() > 0 {
        check().map_err(|error| error.to_string())?;
        if started.elapsed() > SETTLED {
            return Err("its tables cannot be written".to_owned());
        }
        std::thread::sleep(SETTLING);
    }
    Ok(())
}

/// Holds fjall's lock on a folder: the journals of an engine in use are not what they will be.
fn lock(path: &Path) -> Result<Option<File>, KvError> {
    let Ok(file) = File::open(path.join("lock")) else {
        return Ok(None);
    };
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            // An engine that was just dropped lets go of it when its threads have ended.
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(100)),
            Err(TryLockError::Error(error)) => return Err(KvError::open(path, &error)),
        }
    }
    Err(open_error(path, &fjall::Error::Locked))
}

fn lost_error(loss: &Loss) -> KvError {
    KvError::Lost {
        path: loss.path.display().to_string(),
        at: loss.at,
        first: loss.first,
        last: loss.last,
    }
}

fn open_error(path: &Path, error: &fjall::Error) -> KvError {
    let reason = match error {
        fjall::Error::Locked => {
            "another process has it open; stop that one first, or use another folder".into()
        }
        fjall::Error::InvalidVersion(Some(_)) => {
            "it was written by another version of the engine".into()
        }
        fjall::Error::Storage(error) => return KvError::of_tables(&path.join("keyspaces"), error),
        fjall::Error::Io(error) => return KvError::of_file(path, error),
        fjall::Error::InvalidVersion(None) => {
            return KvError::damaged(path, "the file version is not one of the engine's".into());
        }
        fjall::Error::JournalRecovery(_)
        | fjall::Error::Decompress(_)
        | fjall::Error::InvalidTrailer
        | fjall::Error::InvalidTag(_)
        | fjall::Error::Unrecoverable => return KvError::damaged(path, format!("{error:?}")),
        other => other.to_string(),
    };
    KvError::Open {
        path: path.display().to_string(),
        reason,
    }
}
