//! What all open files of a mount share: the budgets, the clock of the flusher, the files by id.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use weft_client::File;

use super::DataError;
use super::file::{FileData, OpenData};

/// How much is held back, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct DataConfig {
    /// A write is acknowledged when it is in the cache; otherwise (strict) when it is at the servers, and nothing is read
    /// ahead.
    pub write_behind: bool,
    /// Dirty bytes of one file that start a flush.
    pub file_dirty: usize,
    /// Dirty bytes of the mount; writers wait beyond.
    pub total_dirty: usize,
    /// The age at which dirty bytes are flushed.
    pub flush_after: Duration,
    /// The largest window of read-ahead of one stream.
    pub read_ahead: usize,
    /// How long a call that fails because a server is away is repeated: the failure detection time.
    pub patience: Duration,
}

impl Default for DataConfig {
    fn default() -> Self {
        DataConfig {
            write_behind: true,
            file_dirty: 4 << 20,
            total_dirty: 64 << 20,
            flush_after: Duration::from_secs(1),
            read_ahead: 8 << 20,
            // weft_net::Timing: silence and connect.
            patience: Duration::from_secs(8),
        }
    }
}

/// Full windows of read-ahead that a mount keeps.
pub(super) const AHEAD_WINDOWS: usize = 8;
/// Ticks in the life of a dirty byte.
pub(super) const TICKS: u32 = 4;

/// The data cache of a mount.
pub struct DataCache {
    pub(super) config: DataConfig,
    pub(super) runtime: Handle,
    pub(super) dirty: Budget,
    pub(super) ahead: Arc<Semaphore>,
    files: Mutex<HashMap<u64, Weak<FileData>>>,
    ended: AtomicBool,
}

/// Dirty bytes of the mount.
pub(super) struct Budget {
    used: AtomicUsize,
    total: usize,
    freed: Notify,
}

impl Budget {
    /// Notes that something is charged `now` that was charged `before`.
    pub(super) fn change(&self, before: usize, now: usize) {
        if now >= before {
            self.used.fetch_add(now - before, Ordering::AcqRel);
        } else {
            self.used.fetch_sub(before - now, Ordering::AcqRel);
            self.freed.notify_waiters();
        }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.used.load(Ordering::Acquire) >= self.total
    }
}

impl DataCache {
    /// A cache whose background work runs on `runtime`.
    pub fn new(config: DataConfig, runtime: Handle) -> Arc<DataCache> {
        let windows = AHEAD_WINDOWS * config.read_ahead;
        let cache = Arc::new(DataCache {
            config,
            dirty: Budget {
                used: AtomicUsize::new(0),
                total: config.total_dirty,
                freed: Notify::new(),
            },
            ahead: Arc::new(Semaphore::new(windows.min(Semaphore::MAX_PERMITS))),
            files: Mutex::default(),
            ended: AtomicBool::new(false),
            runtime,
        });
        if config.write_behind {
            cache
                .runtime
                .spawn(tick(Arc::downgrade(&cache), config.flush_after));
        }
        cache
    }

    /// Opens an attached file. No message. All opens of a file share its dirty bytes while any is open.
    ///
    /// # Errors
    /// [`DataError::ShuttingDown`].
    pub fn open(self: &Arc<Self>, file: File) -> Result<OpenData, DataError> {
        if self.ended.load(Ordering::Acquire) {
            return Err(DataError::ShuttingDown);
        }
        let mut files = self.files.lock();
        let data = files
            .get(&file.id())
            .and_then(Weak::upgrade)
            .unwrap_or_else(|| {
                let data = Arc::new(FileData::new(self.clone(), &file));
                files.insert(file.id(), Arc::downgrade(&data));
                data
            });
        Ok(OpenData::new(data, file))
    }

    /// Dirty bytes of the mount, those on their way included.
    pub fn dirty_bytes(&self) -> usize {
        self.dirty.used.load(Ordering::Acquire)
    }

    /// Writes all dirty bytes of the mount to the servers. Failures are told to the opens of the file.
    pub async fn flush_all(&self) {
        join_all(self.files().iter().map(FileData::flush)).await;
    }

    /// Forgets what was read ahead and what is known of sizes: anything may have been changed by others.
    pub fn invalidate_all(&self) {
        for file in self.files() {
            file.invalidate();
        }
    }

    /// Forgets what was read ahead of a file and what is known of its size: others have changed it.
    pub fn invalidate(&self, id: u64) {
        let file = self.files.lock().get(&id).and_then(Weak::upgrade);
        if let Some(file) = file {
            file.invalidate();
        }
    }

    /// Writes all dirty bytes and opens no more files.
    pub async fn shut_down(&self) {
        self.ended.store(true, Ordering::Release);
        self.flush_all().await;
    }

    /// Waits until writers may go on.
    pub(super) async fn room(&self) {
        while self.dirty.is_spent() {
            let mut freed = std::pin::pin!(self.dirty.freed.notified());
            freed.as_mut().enable();
            for file in self.files() {
                file.start_all();
            }
            if self.dirty.is_spent() {
                freed.await;
            }
        }
    }

    pub(super) fn forget(&self, id: u64) {
        let mut files = self.files.lock();
        // Somebody may have opened it anew.
        if files.get(&id).is_some_and(|file| file.strong_count() == 0) {
            files.remove(&id);
        }
    }

    fn files(&self) -> Vec<Arc<FileData>> {
        self.files
            .lock()
            .values()
            .filter_map(Weak::upgrade)
            .collect()
    }
}

async fn tick(cache: Weak<DataCache>, flush_after: Duration) {
    let pause = (flush_after / TICKS).max(Duration::from_millis(1));
    loop {
        tokio::time::sleep(pause).await;
        let Some(cache) = cache.upgrade() else { return };
        for file in cache.files() {
            file.tick();
        }
    }
}
