//! How a store is opened.

use std::sync::Arc;

use weft_kv::OrderedKv;

use crate::storage::Storage;

/// What a store is opened with.
#[derive(Clone)]
pub struct StoreConfig {
    /// The disk: data and log.
    pub storage: Arc<dyn Storage>,
    /// The index; must hold the spaces of [`crate::INDEX_SPACES`].
    pub index: Arc<dyn OrderedKv>,
    /// Names this boot of the machine (`/proc/sys/kernel/random/boot_id`): a store that finds the
    /// same name after a crash knows that the kernel still held what it had been given.
    pub boot_id: String,
    /// Bound of the page cache, dirty pages included.
    pub cache_bytes: u64,
    /// Bound of dirty pages: writes wait for the flusher beyond it.
    pub dirty_bytes: u64,
    /// Bound of the log: writes wait for it to be applied beyond it.
    pub log_bytes: u64,
    /// Size of a log segment.
    pub segment_bytes: u64,
    /// The disk's file grows in steps of this many bytes.
    pub growth_bytes: u64,
    /// The most that the disk's file may grow to; `u64::MAX`: as the file system allows.
    pub capacity: u64,
    /// What growth leaves free in the file system, for the log and the index.
    pub reserve_bytes: u64,
}

impl StoreConfig {
    /// Settings for a server with a few GiB of memory.
    pub fn new(storage: Arc<dyn Storage>, index: Arc<dyn OrderedKv>, boot_id: String) -> Self {
        Self {
            storage,
            index,
            boot_id,
            cache_bytes: 1 << 30,
            dirty_bytes: 256 << 20,
            log_bytes: 512 << 20,
            segment_bytes: 64 << 20,
            growth_bytes: 1 << 30,
            capacity: u64::MAX,
            reserve_bytes: 1 << 30,
        }
    }
}
