//! What all open files of a mount share: the budgets, the clock of the flusher, the files by id.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use weft_client::File;

use super::DataError;
use super::file::{FileData, OpenData};
use crate::limits::{CLOSED_CHANGES_MAX, READ_AHEAD_WINDOWS, TICKS_PER_FLUSH};
use crate::outage::Outages;

/// How much is held back, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct DataConfig {
    /// A write is acknowledged when it is in the cache; otherwise (strict) when it is at the
    /// servers, and nothing is read ahead.
    pub write_behind: bool,
    /// Dirty bytes of one file that start a flush.
    pub file_dirty: usize,
    /// Dirty bytes of the mount; writers wait beyond.
    pub total_dirty: usize,
    /// The age at which dirty bytes are flushed.
    pub flush_after: Duration,
    /// The largest window of read-ahead of one stream.
    pub read_ahead: usize,
    /// How long calls wait for a service that is away: the failure detection time.
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

/// A moment in a data cache's life: before a file is attached, so that it is seen whether what the
/// answer says of its bytes is still true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

/// The files of a mount.
#[derive(Default)]
struct Files {
    open: HashMap<u64, Weak<FileData>>,
    /// When this mount last changed files that it has not open any more.
    changed: HashMap<u64, Moment>,
    /// Of changes up to here not all are remembered.
    forgotten: Moment,
}

impl Files {
    fn note_changed(&mut self, id: u64, now: Moment) {
        if self.changed.len() >= CLOSED_CHANGES_MAX {
            self.changed.clear();
            self.forgotten = now;
        }
        self.changed.insert(id, now);
    }

    fn changed_since(&self, id: u64, asked: Moment) -> bool {
        let at = self.changed.get(&id).copied().unwrap_or_default();
        at.max(self.forgotten) > asked
    }
}

/// The data cache of a mount.
pub struct DataCache {
    pub(super) config: DataConfig,
    pub(super) runtime: Handle,
    pub(super) dirty: Budget,
    pub(super) ahead: Arc<Semaphore>,
    files: Mutex<Files>,
    clock: AtomicU64,
    ended: AtomicBool,
    pub(crate) outages: Outages,
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
        let windows = READ_AHEAD_WINDOWS * config.read_ahead;
        let cache = Arc::new(DataCache {
            config,
            dirty: Budget {
                used: AtomicUsize::new(0),
                total: config.total_dirty,
                freed: Notify::new(),
            },
            ahead: Arc::new(Semaphore::new(windows.min(Semaphore::MAX_PERMITS))),
            files: Mutex::default(),
            clock: AtomicU64::new(1),
            ended: AtomicBool::new(false),
            outages: Outages::new(config.patience),
            runtime,
        });
        if config.write_behind {
            cache
                .runtime
                .spawn(tick(Arc::downgrade(&cache), config.flush_after));
        }
        cache
    }

    /// This moment.
    pub fn now(&self) -> Moment {
        Moment(self.clock.load(Ordering::Acquire))
    }

    /// A moment that is later than all before.
    pub(super) fn tick(&self) -> Moment {
        Moment(self.clock.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Opens an attached file that was not open before. No message. All opens of a file share its
    /// dirty bytes while any is open.
    ///
    /// # Errors
    /// [`DataError::ShuttingDown`].
    pub fn open(self: &Arc<Self>, file: File) -> Result<OpenData, DataError> {
        Ok(self.opened(file, None)?.expect("nothing is asked of it"))
    }

    /// As [`DataCache::open`], of a file that was attached after the moment `asked`. Nothing where
    /// this mount has changed the file since: another open, which has ended by now, may have
    /// written what the service did not know yet when it answered. Who is told so attaches again.
    ///
    /// # Errors
    /// [`DataError::ShuttingDown`].
    pub fn open_asked(
        self: &Arc<Self>,
        file: File,
        asked: Moment,
    ) -> Result<Option<OpenData>, DataError> {
        self.opened(file, Some(asked))
    }

    fn opened(
        self: &Arc<Self>,
        file: File,
        asked: Option<Moment>,
    ) -> Result<Option<OpenData>, DataError> {
        if self.ended.load(Ordering::Acquire) {
            return Err(DataError::ShuttingDown);
        }
        let mut files = self.files.lock();
        let id = file.id();
        let before = files.open.get(&id);
        // Its last open has just ended and did not say yet what it changed.
        let ending = before.is_some_and(|data| data.strong_count() == 0);
        let data = if let Some(data) = before.and_then(Weak::upgrade) {
            data
        } else {
            let doubted = asked.is_some_and(|asked| ending || files.changed_since(id, asked));
            if doubted && !file.created() {
                return Ok(None);
            }
            let data = Arc::new(FileData::new(self.clone(), &file));
            files.open.insert(id, Arc::downgrade(&data));
            data
        };
        Ok(Some(OpenData::new(data, file, asked)))
    }

    /// This mount has changed the bytes of a file by other ways than an open's.
    pub fn note_changed(&self, id: u64) {
        let now = self.tick();
        self.files.lock().note_changed(id, now);
    }

    /// Dirty bytes of the mount, those on their way included.
    pub fn dirty_bytes(&self) -> usize {
        self.dirty.used.load(Ordering::Acquire)
    }

    /// Writes all dirty bytes of the mount to the servers. Failures are told to the opens of the
    /// file.
    pub async fn flush_all(&self) {
        join_all(self.files().iter().map(FileData::flush)).await;
    }

    /// Forgets what was read ahead and what is known of sizes: anything may have been changed by
    /// others.
    pub fn invalidate_all(&self) {
        for file in self.files() {
            file.invalidate();
        }
    }

    /// Forgets what was read ahead of a file and what is known of its size: others have changed it.
    pub fn invalidate(&self, id: u64) {
        let file = self.files.lock().open.get(&id).and_then(Weak::upgrade);
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

    /// The last open of a file has ended; `changed`: by some of them its bytes were changed.
    pub(super) fn forget(&self, id: u64, changed: bool) {
        let now = self.tick();
        let mut files = self.files.lock();
        if changed {
            files.note_changed(id, now);
        }
        // Somebody may have opened it anew.
        let open = files.open.get(&id);
        if open.is_some_and(|file| file.strong_count() == 0) {
            files.open.remove(&id);
        }
    }

    fn files(&self) -> Vec<Arc<FileData>> {
        self.files
            .lock()
            .open
            .values()
            .filter_map(Weak::upgrade)
            .collect()
    }
}

async fn tick(cache: Weak<DataCache>, flush_after: Duration) {
    let pause = (flush_after / TICKS_PER_FLUSH).max(Duration::from_millis(1));
    loop {
        tokio::time::sleep(pause).await;
        let Some(cache) = cache.upgrade() else { return };
        for file in cache.files() {
            // A panic about one file leaves the others' bytes their ticks.
            if catch_unwind(AssertUnwindSafe(|| file.tick())).is_err() {
                tracing::error!("looking after the bytes of a file panicked");
            }
        }
    }
}
