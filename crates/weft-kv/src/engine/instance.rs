//! One open instance of fjall's engine: what its folder needs before it opens, and what closes with
//! it.
//!
//! [`FjallKv`](crate::FjallKv) has one of these, and a new one after a transient failure.

use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use parking_lot::Mutex;

use super::compactor::Compactor;
use super::copier::Copier;
use super::disk_reserve::{DiskReserve, memtable_bytes};
use super::fault::EngineFault;
use super::flush::flush;
use super::journal::Journals;
use super::options::{FjallOptions, OnLoss};
use crate::KvError;
use crate::files::{Extent, JournalScan, Loss, OnDamage, Watermark, loss, restore};
use crate::journal_batch::NUMBER_KEY;
use crate::limits::{LOCK_ATTEMPTS, LOCK_RETRY_INTERVAL};

/// The one fjall keyspace.
const KEYSPACE: &str = "weft";

/// What outlives an instance.
pub(crate) struct EngineContext {
    pub(crate) reserve: Arc<DiskReserve>,
    /// Held for each commit.
    pub(crate) writer: Arc<Mutex<()>>,
    pub(crate) fault: Arc<EngineFault>,
    /// The number of the last commit.
    pub(crate) committed: Arc<AtomicU64>,
}

impl EngineContext {
    pub(crate) fn compactor(
        &self,
        folder: &Path,
        database: &Database,
        keyspace: &Keyspace,
    ) -> Compactor {
        Compactor {
            database: database.clone(),
            keyspace: keyspace.clone(),
            folder: folder.to_path_buf(),
            reserve: Arc::clone(&self.reserve),
            writer: Arc::clone(&self.writer),
            fault: Arc::clone(&self.fault),
            committed: Arc::clone(&self.committed),
        }
    }
}

/// An open engine.
pub(crate) struct Engine {
    // First: it ends before the folder's lock is released.
    copier: Copier,
    database: Database,
    keyspace: Keyspace,
    journals: Journals,
    watermark: Watermark,
}

impl Engine {
    /// Opens the engine in a folder, or creates it there. Returns it with the number of its last
    /// commit.
    pub(crate) fn open(
        path: &Path,
        options: FjallOptions,
        context: &EngineContext,
    ) -> Result<(Engine, u64), KvError> {
        // Other users must not read its files.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| KvError::open(path, &error))?;
        let accept_loss = options.loss != OnLoss::Refuse;
        let lost = prepare(path, options.loss)?;
        let failed = |error: fjall::Error| open_error(path, &error);
        let database = Database::builder(path).cache_size(options.cache).open();
        let database = database.map_err(failed)?;
        let memtable = memtable_bytes(path, options.memtable);
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
            // Close the gap in the journals before the next opening.
            flush(&database, &keyspace).map_err(|reason| KvError::Open {
                path: path.display().to_string(),
                reason,
            })?;
        }
        if number < synced {
            watermark.set(number).map_err(unread)?;
        }
        let compactor = context.compactor(path, &database, &keyspace);
        let copier = Copier::start(path, Arc::clone(&context.reserve), compactor);
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

    /// Writes everything in memory to tables.
    pub(crate) fn flush(&self) -> Result<(), KvError> {
        flush(&self.database, &self.keyspace).map_err(|reason| KvError::Engine {
            doing: "write its tables",
            reason,
        })
    }

    /// Closes it without a last pass over its copies, to be reopened at once.
    pub(crate) fn close(mut self) {
        self.copier.abandon();
    }
}

/// Restores damaged files and truncates journals where fjall can read them. Returns whether they
/// lack what was on stable storage, where that is accepted.
fn prepare(path: &Path, on_loss: OnLoss) -> Result<bool, KvError> {
    let _lock = lock(path)?;
    let on_damage = match on_loss {
        OnLoss::Refuse => OnDamage::Refuse,
        OnLoss::Skip | OnLoss::RollBack => OnDamage::Accept,
    };
    restore(path, on_damage, Extent::Opening)?;
    let JournalScan { torn, behind, loss } = loss::scan(path)?;
    let mut truncations = torn;
    if let Some(loss) = &loss {
        match on_loss {
            OnLoss::Refuse => return Err(lost_error(loss)),
            OnLoss::Skip => {}
            OnLoss::RollBack => {
                truncations.retain(|(path, _)| behind.iter().all(|(other, _)| other != path));
                truncations.extend(behind);
            }
        }
        loss::back_up(&truncations).map_err(|error| KvError::open(path, &error))?;
    }
    let truncated = loss::truncate(&truncations).and_then(|()| loss::ensure_journal(path));
    truncated.map_err(|error| KvError::open(path, &error))?;
    Ok(loss.is_some())
}

/// Takes fjall's lock on a folder: the journals of an open engine change meanwhile. `None` where
/// there is no engine yet.
pub(crate) fn lock(path: &Path) -> Result<Option<File>, KvError> {
    let Ok(file) = File::open(path.join("lock")) else {
        return Ok(None);
    };
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            // An engine that was just dropped releases it when its threads have ended.
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_RETRY_INTERVAL),
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
            "another process has it open; stop that process first, or use another folder".into()
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
