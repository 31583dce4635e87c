//! The settings with which a store is opened.

use std::sync::Arc;

use weft_kv::OrderedKv;

use crate::storage::Storage;

/// How much the index's engine holds in memory before it writes a table
/// ([`weft_kv::FjallOptions`]). An opening replays that much of the engine's journal, at 2.5 µs per
/// entry: with 64 MiB, this took longer than the rest of the opening.
pub const INDEX_MEMTABLE: u64 = 8 << 20;

/// A disk besides the store's folder.
#[derive(Clone)]
pub struct DiskConfig {
    /// Its path, for errors and reports.
    pub path: String,
    /// Its files, or why they cannot be opened: then the disk is missing.
    pub storage: Result<Arc<dyn Storage>, String>,
    /// The disk gets a label if it has none.
    pub new: bool,
    /// Largest size of its file, in bytes; 0: it gets no new data.
    pub capacity: u64,
    /// Bytes that growth leaves free in its file system.
    pub reserve: u64,
}

/// The cache's rules (`docs/caching.md`). A server uses all of them; an experiment switches one off
/// to measure its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
pub struct CacheRules {
    /// Pages that were touched in part outlive pages that were touched as a whole.
    pub hold: bool,
    /// Full pages are flushed as soon as there are enough of them.
    pub write_behind: bool,
    /// Flushing begins at half of the bound of dirty pages, not only at the bound.
    pub low_water: bool,
    /// Large calls reserve what they will add to dirty pages and the log before they begin.
    pub admission: bool,
    /// Sequential reads prefetch.
    pub prefetch: bool,
    /// A read waits for blocks that another read is fetching, instead of fetching them again.
    pub share_reads: bool,
    /// Large writes go directly to free blocks, past the log.
    pub direct: bool,
}

impl Default for CacheRules {
    fn default() -> Self {
        Self {
            hold: true,
            write_behind: true,
            low_water: true,
            admission: true,
            prefetch: true,
            share_reads: true,
            direct: true,
        }
    }
}

/// The settings of a store.
#[derive(Clone)]
pub struct StoreConfig {
    /// The store's folder: the log, and the data of disk 0.
    pub storage: Arc<dyn Storage>,
    /// The other disks, in any order.
    pub disks: Vec<DiskConfig>,
    /// The store's name on the labels of its disks; at most 255 bytes.
    pub owner: String,
    /// The index; it must have the key spaces of [`crate::INDEX_SPACES`].
    pub index: Arc<dyn OrderedKv>,
    /// Identifies this boot of the machine (`/proc/sys/kernel/random/boot_id`). If it is the same
    /// after a crash, the kernel kept all that was written.
    pub boot_id: String,
    /// Identifies this opening of the store: a random number that goes with every acknowledgement.
    /// 0: the store picks one that no earlier opening had.
    pub incarnation: u64,
    /// The current time in nanoseconds since the epoch, for reports.
    pub now: i64,
    /// Bound of the page cache in bytes, including dirty pages.
    pub cache_bytes: u64,
    /// Bound of dirty pages in bytes, at most half of the cache. Beyond it writes wait for a flush.
    pub dirty_bytes: u64,
    /// Bound of the log in bytes. Beyond it writes wait for an application.
    pub log_bytes: u64,
    /// Size of a log segment in bytes.
    pub segment_bytes: u64,
    /// Bytes by which a disk's file grows at a time.
    pub growth_bytes: u64,
    /// Largest size of the data in the store's folder, in bytes; `u64::MAX`: as much as the file
    /// system allows; 0: no new data there.
    pub capacity: u64,
    /// Bytes that growth leaves free in the file system, for the log and the index.
    pub reserve_bytes: u64,
    /// Free bytes that an idle store keeps for the next writes; it returns the rest to the host.
    pub spare_bytes: u64,
    /// Most chunks that a truncation empties at once; it defers the others to the background.
    pub truncate_chunks: u32,
    /// The rules of its cache.
    pub rules: CacheRules,
    /// Open even if blocks cannot be read of which the log has only a part; they are lost then.
    pub accept_loss: bool,
}

impl StoreConfig {
    /// Shrinks the log, and the space reserved for log and index, to fit a folder of `total` bytes.
    pub fn fit(&mut self, total: u64) {
        self.log_bytes = self.log_bytes.min(total / 8).max(4 << 20);
        self.segment_bytes = self.segment_bytes.min(self.log_bytes / 4);
        self.dirty_bytes = self.dirty_bytes.min(self.log_bytes);
        self.growth_bytes = self.growth_bytes.min(total / 8).max(1 << 20);
        self.spare_bytes = self.spare_bytes.min(total / 64);
        // The log at its bound with a spare segment, its retained segments, and the index.
        let wanted = self.log_bytes + self.log_bytes / 8 + 2 * self.segment_bytes + total / 16;
        self.reserve_bytes = self.reserve_bytes.min(wanted);
    }

    /// Settings for a server with a few GiB of memory.
    pub fn new(storage: Arc<dyn Storage>, index: Arc<dyn OrderedKv>, boot_id: String) -> Self {
        Self {
            storage,
            disks: Vec::new(),
            owner: String::new(),
            index,
            boot_id,
            incarnation: 0,
            now: 0,
            cache_bytes: 1 << 30,
            dirty_bytes: 256 << 20,
            log_bytes: 512 << 20,
            segment_bytes: 64 << 20,
            growth_bytes: 1 << 30,
            capacity: u64::MAX,
            reserve_bytes: 1 << 30,
            spare_bytes: 32 << 20,
            truncate_chunks: 1024,
            rules: CacheRules::default(),
            accept_loss: false,
        }
    }
}
