//! The file system: requests of programs, turned into calls to the volume and to the data cache.
//!
//! Files are known by their id, which is their inode number; a name is resolved in its directory, a
//! path never. Nothing here knows the kernel's interface: other interfaces, and tests without a
//! kernel, use the same code.
//!
//! Each folder owns a part of the state behind private fields; the operations are methods of
//! [`FileSystem`] in the folder of their subject. From below:
//!
//! - `error`, `options`, `caller`, `clock`, `handle_table`, `request_counts`, `upper_cache`,
//!   `view_ids`: used by everything above.
//! - `metadata/`: cached names and attributes, and invalidation.
//! - `files/`: open files: open, read, write, sync, close. `locks`: file locks.
//! - `attributes/`: attributes, extended attributes, free space.
//! - `names/`: look up, make, rename, remove; directories that the service has delegated.
//! - `listing/`: open directories. `views/`: views and checkpoints as hidden files.
//! - `notifications`: changes by other clients.
//!
//! Invariants:
//! 1. No function holds a lock over a call to the volume, so that any number of requests can be in
//!    flight. One exception: a close waits for the calls on its own handle.
//! 2. A call that did nothing because a service is unreachable waits as all calls of the mount do
//!    (`crate::outage`).
//! 3. A file's attributes cover what this mount has written and not yet sent.
//! 4. What the kernel may cache for long is true until it is invalidated (`metadata/`).
//! 5. A file opened after another client closed it shows what was written (close-to-open):
//!    [`FileSystem::open`] compares it with the kernel's attributes and pages.

mod attributes;
mod caller;
mod clock;
mod error;
mod files;
mod handle_table;
mod listing;
mod locks;
mod metadata;
mod names;
mod notifications;
mod options;
mod request_counts;
mod upper_cache;
mod view_ids;
mod views;

use std::sync::Arc;

use weft_client::{Error as VolumeError, Volume};

use crate::data::DataCache;

pub use attributes::{Changed, OPTIONS_XATTR, PROCESS_XATTR, SetMode, Space, VOLUME_XATTR};
pub use caller::Caller;
pub use error::FsError;
pub use files::{Opened, WriteHow, WriteWay};
pub use listing::{Listed, Page};
pub use locks::LockWait;
pub use metadata::{Attr, Entry};
pub use names::Found;
pub use options::Options;
pub use request_counts::COUNTS_XATTR;
pub use upper_cache::{AccessTimes, FileCopies, UpperCache};

use attributes::{AclSupport, SpaceCache};
use caller::Callers;
use error::is_transient;
use files::{Handle, KeptFiles, OpenFiles};
use handle_table::HandleTable;
use listing::{ClosedCookies, KeptListings, OpenDirectory};
use metadata::MetadataCache;
use names::NamespaceSync;
use request_counts::RequestCounts;
use views::{OpenViewHandle, ViewNodes};

/// A volume as a file system.
pub struct FileSystem {
    volume: Volume,
    options: Options,
    data: Arc<DataCache>,
    callers: Callers,
    metadata: MetadataCache,
    namespace: NamespaceSync,
    files: OpenFiles,
    kept: KeptFiles,
    handles: HandleTable<Handle>,
    directories: HandleTable<OpenDirectory>,
    listings: KeptListings,
    closed_cookies: ClosedCookies,
    views: ViewNodes,
    view_handles: HandleTable<OpenViewHandle>,
    space: SpaceCache,
    acl: AclSupport,
    counts: RequestCounts,
}

impl FileSystem {
    /// The volume's file system. Sends nothing.
    pub fn new(volume: Volume, data: Arc<DataCache>, options: Options) -> FileSystem {
        data.outages().watch(&volume);
        FileSystem {
            volume,
            callers: Callers::default(),
            metadata: MetadataCache::new(data.clone(), &options),
            data,
            namespace: NamespaceSync::default(),
            files: OpenFiles::default(),
            kept: KeptFiles::default(),
            handles: HandleTable::default(),
            directories: HandleTable::default(),
            listings: KeptListings::default(),
            closed_cookies: ClosedCookies::default(),
            views: ViewNodes::default(),
            view_handles: HandleTable::default(),
            options,
            space: SpaceCache::default(),
            acl: AclSupport::default(),
            counts: RequestCounts::default(),
        }
    }

    /// Sets the cache that is invalidated; once, before the first request.
    pub fn set_upper_cache(&self, upper: Arc<dyn UpperCache>) {
        self.metadata.set_upper(upper);
    }

    /// The options that it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Counts a request of the kernel.
    pub(crate) fn count_request(&self, number: u32) {
        self.counts.count(number);
    }

    /// Ends the file system: sends what was written, and ends attachments.
    pub async fn shutdown(&self) {
        for handle in self.handles.drain() {
            self.close(handle).await;
        }
        self.forget_all_kept().await;
        self.data.shut_down().await;
        self.volume.report_detaches().await;
        self.volume.catch_up().await;
    }

    /// The volume on behalf of a caller.
    fn on(&self, caller: Caller) -> Volume {
        self.volume.on_behalf_of(self.callers.credentials(caller))
    }

    /// Makes a call, and repeats it while nothing was done because a service is unreachable.
    async fn call<T, F>(&self, call: impl Fn() -> F) -> Result<T, FsError>
    where
        F: Future<Output = Result<T, VolumeError>>,
    {
        let outages = self.data.outages();
        let done = outages.retry_if(is_transient, call).await;
        done.map_err(|failure| failure.error.into())
    }
}
