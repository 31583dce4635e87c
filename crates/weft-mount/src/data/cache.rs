//! The data cache of a mount: opens files, flushes and invalidates all of them, and lets dirty
//! bytes age.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use weft_client::File;

use super::clock::Moment;
use super::config::DataConfig;
use super::error::DataError;
use super::file::{FileData, FileResources};
use super::open::OpenData;
use super::registry::Freshness;
use crate::limits::TICKS_PER_FLUSH;
use crate::outage::Outages;

/// The data cache of a mount.
pub struct DataCache {
    resources: Arc<FileResources>,
    ended: AtomicBool,
}

impl DataCache {
    /// A cache whose background work runs on `runtime`.
    pub fn new(config: DataConfig, runtime: Handle) -> Arc<DataCache> {
        let resources = Arc::new(FileResources::new(config, runtime));
        if config.write_behind {
            let aging = age_dirty_bytes(Arc::downgrade(&resources), config.flush_after);
            resources.runtime().spawn(aging);
        }
        Arc::new(DataCache {
            resources,
            ended: AtomicBool::new(false),
        })
    }

    /// This moment.
    pub fn now(&self) -> Moment {
        self.resources.clock().now()
    }

    pub(crate) fn outages(&self) -> &Outages {
        self.resources.outages()
    }

    /// Opens an attached file. No message. All opens of a file share its dirty bytes while any is
    /// open.
    ///
    /// # Errors
    /// [`DataError::ShuttingDown`].
    pub fn open(self: &Arc<Self>, file: File) -> Result<OpenData, DataError> {
        let opened = self.opened(file, None, &Freshness::Current)?;
        Ok(opened.expect("an answer without a moment is current"))
    }

    /// As [`DataCache::open`], of a file that was attached after the moment `asked`. `None` if this
    /// mount has changed the file since: another open, which has ended by now, may have written
    /// bytes that the service did not have when it answered. Then the caller attaches again.
    ///
    /// # Errors
    /// [`DataError::ShuttingDown`].
    pub fn open_asked(
        self: &Arc<Self>,
        file: File,
        asked: Moment,
    ) -> Result<Option<OpenData>, DataError> {
        let freshness = if file.created() {
            Freshness::Current
        } else {
            Freshness::AskedAt(asked)
        };
        self.opened(file, Some(asked), &freshness)
    }

    fn opened(
        &self,
        file: File,
        asked: Option<Moment>,
        freshness: &Freshness,
    ) -> Result<Option<OpenData>, DataError> {
        if self.ended.load(Ordering::Acquire) {
            return Err(DataError::ShuttingDown);
        }
        let attached = file.clone();
        Ok(self.resources.registry().open(
            file.id(),
            freshness,
            || FileData::new(self.resources.clone(), &attached),
            |data| OpenData::new(data, file, asked),
        ))
    }

    /// This mount has changed the bytes of a file by other means than an open.
    pub fn note_changed(&self, id: u64) {
        let now = self.resources.clock().tick();
        self.resources.registry().note_changed(id, now);
    }

    /// Dirty bytes of the mount, those in flight included.
    pub fn dirty_bytes(&self) -> usize {
        self.resources.dirty().used()
    }

    /// Writes all dirty bytes of the mount to the servers. Failures are reported to the opens of
    /// the file.
    pub async fn flush_all(&self) {
        join_all(self.resources.registry().all().iter().map(FileData::flush)).await;
    }

    /// As [`DataCache::flush_all`], of the files with these ids.
    pub async fn flush_files(&self, ids: &[u64]) {
        let registry = self.resources.registry();
        let files: Vec<_> = ids.iter().filter_map(|id| registry.get(*id)).collect();
        join_all(files.iter().map(FileData::flush)).await;
    }

    /// Drops bytes read ahead and known sizes of all files: other clients may have changed any.
    pub fn invalidate_all(&self) {
        for file in self.resources.registry().all() {
            file.invalidate();
        }
    }

    /// Drops bytes read ahead and the known size of a file that another client has changed.
    pub fn invalidate(&self, id: u64) {
        if let Some(file) = self.resources.registry().get(id) {
            file.invalidate();
        }
    }

    /// Writes all dirty bytes and opens no more files.
    pub async fn shut_down(&self) {
        self.ended.store(true, Ordering::Release);
        self.flush_all().await;
    }
}

async fn age_dirty_bytes(resources: Weak<FileResources>, flush_after: Duration) {
    let interval = (flush_after / TICKS_PER_FLUSH).max(Duration::from_millis(1));
    loop {
        tokio::time::sleep(interval).await;
        let Some(resources) = resources.upgrade() else {
            return;
        };
        for file in resources.registry().all() {
            // A panic about one file does not keep other files' bytes from being flushed.
            if catch_unwind(AssertUnwindSafe(|| file.tick())).is_err() {
                tracing::error!("flushing the old bytes of a file panicked");
            }
        }
    }
}
