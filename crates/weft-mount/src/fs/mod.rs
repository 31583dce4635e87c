//! The file system: what programs ask for, turned into calls to the volume and to the data cache.
//!
//! Files are known by their id, which is their inode number; a name is resolved in its directory, a
//! path never. Nothing here knows the kernel's interface, so that other doors and tests without a
//! kernel use the same code.
//!
//! Invariants:
//! 1. No function holds a lock over a call to the volume, so that any number of requests are under
//!    way at once.
//! 2. A call that was not carried out because a service is away waits for it as all calls of the
//!    mount do (`outage`).
//! 3. What a file's attributes say covers what this mount has written and not yet sent.
//! 4. What the kernel is told for long is true until it is taken back (`belief`).
//! 5. A file opened after somebody else closed it shows what was written (close-to-open):
//!    [`FileSystem::open`] compares it with what the kernel was told and with the pages that it
//!    has.

mod absent;
mod accesses;
mod ahead;
mod attr;
mod attributes;
mod belief;
mod called;
mod caller;
mod counts;
mod directory;
mod error;
mod files;
mod handles;
mod kept;
mod locks;
mod names;
mod news;
mod nodes;
mod open;
mod pages;
mod places;
mod privileges;
mod space;
mod upper_cache;
mod views;
mod watch;
mod xattr;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use weft_client::{Attributes, Error as VolumeError, Volume};

use crate::data::DataCache;

pub use attr::{Attr, Entry};
pub use attributes::{Changed, Space};
pub use caller::Caller;
pub use counts::COUNTS_XATTR;
pub use directory::{Listed, Page};
pub use error::FsError;
pub use locks::LockWait;
pub use names::Found;
pub use open::{Opened, WriteHow, WriteWay};
pub use upper_cache::{AccessTimes, FileCopies, UpperCache};
pub use xattr::{OPTIONS_XATTR, PROCESS_XATTR, SetMode, VOLUME_XATTR};

use absent::Absent;
use belief::Answer;
use caller::Callers;
use counts::Counts;
use directory::OpenDirectory;
use files::{Files, Handle};
use handles::Table;
use news::News;
use nodes::Nodes;
use views::{ViewHandle, ViewNodes};

/// How a volume is to behave under a path.
#[derive(Default, Clone, Debug)]
pub struct Options {
    /// What [`VOLUME_XATTR`] says: which volume it is, whatever it is called.
    pub volume: String,
    /// What [`OPTIONS_XATTR`] says: those of its options that stay as they are while it is mounted.
    pub fixed: String,
    /// Nothing is cached, here or in the kernel, and a write has reached the servers when it
    /// returns.
    pub strict: bool,
    /// How long the kernel may believe attributes; `None`: as long as they are true.
    pub attributes_valid: Option<Duration>,
    /// How long the kernel may believe names; `None`: as long as they are true.
    pub names_valid: Option<Duration>,
    /// Names survive power loss when an operation returns; else when they are synced, and within a
    /// second.
    pub durable: bool,
}

/// A volume as a file system.
pub struct FileSystem {
    volume: Volume,
    options: Options,
    cache: Arc<DataCache>,
    callers: Callers,
    news: News,
    nodes: Nodes,
    absent: Absent,
    /// Changes of the namespace that this mount has made, and how many of them survive power loss
    /// for certain.
    changes: AtomicU64,
    synced: AtomicU64,
    /// The errno of something that was done ahead of the service and came to nothing; nobody was
    /// told yet.
    came_to_nothing: Mutex<Option<i32>>,
    files: Files,
    handles: Table<Handle>,
    directories: Table<OpenDirectory>,
    views: ViewNodes,
    view_handles: Table<ViewHandle>,
    upper: OnceLock<Arc<dyn UpperCache>>,
    space: attributes::SpaceCache,
    acl: xattr::AclSupport,
    counts: Counts,
}

impl FileSystem {
    /// The volume's file system. Sends nothing.
    pub fn new(volume: Volume, cache: Arc<DataCache>, options: Options) -> FileSystem {
        cache.outages.watch(&volume);
        FileSystem {
            volume,
            cache,
            callers: Callers::default(),
            news: News::default(),
            nodes: Nodes::with_root(),
            absent: Absent::default(),
            changes: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            came_to_nothing: Mutex::default(),
            files: Files::default(),
            handles: Table::default(),
            directories: Table::default(),
            views: ViewNodes::default(),
            view_handles: Table::default(),
            options,
            upper: OnceLock::new(),
            space: attributes::SpaceCache::default(),
            acl: xattr::AclSupport::default(),
            counts: Counts::default(),
        }
    }

    /// Sets the cache that is invalidated; once, before the first request.
    pub fn set_upper_cache(&self, upper: Arc<dyn UpperCache>) {
        assert!(
            self.upper.set(upper).is_ok(),
            "a file system has one upper cache"
        );
    }

    /// How it behaves.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Ends the file system: what was written goes to the servers, and attachments end.
    pub async fn shutdown(&self) {
        for handle in self.handles.drain() {
            self.close(handle).await;
        }
        self.cache.shut_down().await;
        self.volume.tell_ended().await;
        self.volume.catch_up().await;
    }

    /// Hears of what others change, and takes back what was told about it. Ends when it is dropped.
    pub async fn follow_changes(self: Arc<Self>) {
        self.hear_of_refusals();
        watch::follow(self).await;
    }

    /// The volume on behalf of a caller.
    fn on(&self, caller: Caller) -> Volume {
        self.volume.on_behalf_of(self.callers.credentials(caller))
    }

    /// Makes a call, and makes it again while nothing was done because a service is away.
    async fn call<T, F>(&self, call: impl Fn() -> F) -> Result<T, FsError>
    where
        F: Future<Output = Result<T, VolumeError>>,
    {
        let outages = &self.cache.outages;
        let done = outages.wait_out_if(error::is_transient, call).await;
        done.map_err(|gave_up| gave_up.error.into())
    }

    /// Attributes with what this mount has written, and asked of the servers where somebody else
    /// may be writing.
    async fn complete(&self, attributes: Attributes) -> Result<Answer, FsError> {
        let exact = attributes.size_exact;
        let open = self.files.any(attributes.id);
        let attributes = if exact {
            if let Some(handle) = &open {
                handle.data.compare(&attributes);
            }
            attributes
        } else {
            let what = "attributes of an open file";
            // Whoever is told a size may read as far.
            let asking = open.as_ref().map(|handle| handle.data.begin_asking());
            let exact = self
                .call(|| self.volume.exact(what, attributes.clone()))
                .await;
            if let Some(asking) = asking {
                asking.answered(exact.as_ref().ok().map(|attributes| attributes.size));
            }
            exact?
        };
        let mut answer = Answer {
            exact,
            ..Answer::exact(&attributes)
        };
        self.cover(&mut answer.attr);
        Ok(answer)
    }
}
