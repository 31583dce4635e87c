//! One opening of fjall's engine: what its folder needs before, and what is closed with it.
//!
//! [`FjallKv`](crate::FjallKv) has one of these, and another one after a failure that has passed.

use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use parking_lot::Mutex;

use super::copier::Copier;
use super::fault::Fault;
use super::flush::flush;
use super::journal::Journals;
use super::options::{FjallOptions, OnLoss};
use super::room::Room;
use super::shrink::Shrinker;
use crate::KvError;
use crate::batch::NUMBER_KEY;
use crate::engine::room;
use crate::files::{Found, Loss, Watermark, copies, loss};

/// The one fjall keyspace.
const KEYSPACE: &str = "weft";
/// How often the folder's lock is tried, a tenth of a second apart.
const LOCK_TRIES: u32 = 10;

/// What outlives an opening.
pub(crate) struct Around {
    pub(crate) room: Arc<Room>,
    /// Held for each commit.
    pub(crate) writer: Arc<Mutex<()>>,
    pub(crate) fault: Arc<Fault>,
    /// The number of the last commit.
    pub(crate) committed: Arc<AtomicU64>,
}

impl Around {
    pub(crate) fn shrinker(
        &self,
        folder: &Path,
        database: &Database,
        keyspace: &Keyspace,
    ) -> Shrinker {
        Shrinker {
            database: database.clone(),
            keyspace: keyspace.clone(),
            folder: folder.to_path_buf(),
            room: Arc::clone(&self.room),
            writer: Arc::clone(&self.writer),
            fault: Arc::clone(&self.fault),
            committed: Arc::clone(&self.committed),
        }
    }
}

/// An engine that is open.
pub(crate) struct Engine {
    // First: it ends before the folder's lock is given up.
    copier: Copier,
    database: Database,
    keyspace: Keyspace,
    journals: Journals,
    watermark: Watermark,
}

impl Engine {
    /// Opens the engine in a folder, or creates it there; also the number of its last commit.
    pub(crate) fn open(
        path: &Path,
        options: FjallOptions,
        around: &Around,
    ) -> Result<(Engine, u64), KvError> {
        // Its files hold what other users may not read.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| KvError::open(path, &error))?;
        let accept_loss = options.loss != OnLoss::Refuse;
        let lost = prepare(path, options.loss)?;
        let failed = |error: fjall::Error| open_error(path, &error);
        let database = Database::builder(path).cache_size(options.cache).open();
        let database = database.map_err(failed)?;
        let memtable = room::memtable(path, options.memtable);
        let keyspace = database.keyspace(KEYSPACE, || {
            KeyspaceCreateOptions::default().max_memtable_size(memtable)
        });
        let keyspace = keyspace.map_err(failed)?;
        let number = keyspace.get(NUMBER_KEY).map_err(failed)?;
        let number = number.and_then(|n| Some(u64::from_le_bytes((*n).try_into().ok()?)));
        let number = number.unwrap_or(0);
        let unread = |error: std::io::Error| KvError::open(path, &error);
        let synced = loss::synced(path).map_err(unread)?;
        if number < synced && !accept_loss {
            return Err(lost_error(&Loss {
                path: path.to_path_buf(),
                at: 0,
                first: number + 1,
                last: synced,
            }));
        }
        let watermark = Watermark::open(path).map_err(unread)?;
        if lost {
            // So that a gap in the journals is none any more at the next opening.
            flush(&database, &keyspace).map_err(|reason| KvError::Open {
                path: path.display().to_string(),
                reason,
            })?;
        }
        if number < synced {
            watermark.set(number).map_err(unread)?;
        }
        let shrinker = around.shrinker(path, &database, &keyspace);
        let copier = Copier::start(path, Arc::clone(&around.room), shrinker);
        let engine = Engine {
            journals: Journals::new(path),
            watermark,
            copier: copier.map_err(unread)?,
            database,
            keyspace,
        };
        Ok((engine, number))
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    pub(crate) fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    pub(crate) fn copier(&self) -> &Copier {
        &self.copier
    }

    pub(crate) fn journals(&self) -> &Journals {
        &self.journals
    }

    pub(crate) fn watermark(&self) -> &Watermark {
        &self.watermark
    }

    /// Brings everything into tables; or says why not.
    pub(crate) fn flush(&self) -> Result<(), String> {
        flush(&self.database, &self.keyspace)
    }

    /// Ends it without a last pass over its copies: it is opened again at once.
    pub(crate) fn close(mut self) {
        self.copier.abandon();
    }
}

/// Makes journals such as fjall can read them; true: they lack what was on stable storage, and that
/// is accepted.
fn prepare(path: &Path, on_loss: OnLoss) -> Result<bool, KvError> {
    let _lock = lock(path)?;
    copies::heal(path, on_loss != OnLoss::Refuse, false)?;
    let Found { torn, behind, loss } = loss::find(path)?;
    let mut cuts = torn;
    if let Some(loss) = &loss {
        match on_loss {
            OnLoss::Refuse => return Err(lost_error(loss)),
            OnLoss::Skip => {}
            OnLoss::RollBack => {
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

/// Holds fjall's lock on a folder: the journals of an engine in use are not what they will be.
pub(crate) fn lock(path: &Path) -> Result<Option<File>, KvError> {
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

pub(crate) fn lost_error(loss: &Loss) -> KvError {
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
