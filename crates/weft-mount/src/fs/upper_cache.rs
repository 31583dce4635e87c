//! The cache above the file system, which is the kernel's: copies of what the file system has
//! answered. The file system invalidates them through this interface and knows no kernel.

use std::ops::Range;

use tokio::sync::oneshot;

/// Which copies of a file are to be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileCopies {
    /// Its attributes.
    Attributes,
    /// Its attributes and its data.
    AttributesAndData,
}

/// A cache of attributes, names and data above the file system. Only [`UpperCache::drop_pages`]
/// waits.
pub trait UpperCache: Send + Sync {
    /// Drops copies of a file.
    fn invalidate_file(&self, id: u64, copies: FileCopies);
    /// Drops the data of a range of a file, and has done so when it returns. It may wait for pages
    /// that are being read, and for changed pages to be written back.
    fn drop_pages(&self, id: u64, range: Range<u64>);
    /// Drops a name of a directory.
    fn invalidate_name(&self, directory: u64, name: &[u8]);
    /// Drops the names of all directories.
    fn invalidate_all_names(&self);
    /// Fires when every invalidation so far has been carried out.
    fn invalidations_sent(&self) -> oneshot::Receiver<()>;
    /// Whether [`UpperCache::invalidate_all_names`] has an effect.
    fn can_invalidate_all_names(&self) -> bool;
    /// Whether programs can make shared mappings of a file that is written past the cache's pages.
    fn maps_past_pages(&self) -> bool;
    /// How reads change access times; may change at any time.
    fn access_times(&self) -> AccessTimes;
}

/// How reads change access times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessTimes {
    /// Not at all.
    pub never: bool,
    /// Every read does, not only the first after a change and the first in a day.
    pub always: bool,
    /// Listing a directory does, too.
    pub directories: bool,
}
