//! How a store is opened.

use std::sync::Arc;

use weft_kv::OrderedKv;

use crate::storage::Storage;

/// What the index's engine may hold in memory before it writes a table ([`weft_kv::FjallOptions`]).
/// Opening replays as much of the engine's journal, at 2.5 µs an entry: 64 MiB of it took longer
/// than all the rest of an opening.
pub const INDEX_MEMTABLE: u64 = 8 << 20;

/// A disk beside the store's own folder.
#[derive(Clone)]
pub struct DiskConfig {
    /// Its path, for whoever reads errors and reports.
    pub path: String,
    /// Its files; or why they cannot be reached: then the disk is missing.
    pub storage: Result<Arc<dyn Storage>, String>,
    /// It may be given a label if it has none.
    pub new: bool,
    /// The most that its file may grow to; 0: it gets no new data.
    pub capacity: u64,
    /// What growth leaves free in its file system.
    pub reserve: u64,
}

/// The cache's rules, each of which may be left out, to see what it does to which program
/// (`docs/caching.md`): a server keeps all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
pub struct CacheRules {
    /// Pages that were touched in part outlive those that were touched as a whole.
    pub hold: bool,
    /// Full pages are written as soon as there are some.
    pub write_behind: bool,
    /// Dirty pages are written from half of their bound on, not only at the bound.
    pub low_water: bool,
    /// Large calls set aside what they will add to dirty pages and the log.
    pub admission: bool,
    /// What clients read in order is fetched ahead of them.
    pub prefetch: bool,
    /// Blocks on their way from a disk are waited for.
    pub share_reads: bool,
    /// Large writes go to their place at once, past the log.
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

/// What a store is opened with.
#[derive(Clone)]
pub struct StoreConfig {
    /// The store's folder: the log, and the data of disk 0.
    pub storage: Arc<dyn Storage>,
    /// The other disks, in any order.
    pub disks: Vec<DiskConfig>,
    /// Names the store on the labels of its disks; at most 255 bytes.
    pub owner: String,
    /// The index; must hold the spaces of [`crate::INDEX_SPACES`].
    pub index: Arc<dyn OrderedKv>,
    /// Names this boot of the machine (`/proc/sys/kernel/random/boot_id`): a store that finds the
    /// same name after a crash knows that the kernel still held what it had been given.
    pub boot_id: String,
    /// Names this opening of the store, drawn at random: what the store acknowledges is told
    /// together with it. 0: a number that none of the openings before it had.
    pub incarnation: u64,
    /// The time, in nanoseconds since the epoch, for messages to people.
    pub now: i64,
    /// Bound of the page cache, dirty pages included.
    pub cache_bytes: u64,
    /// Bound of dirty pages, half of the cache at most: writes wait for the flusher beyond it.
    pub dirty_bytes: u64,
    /// Bound of the log: writes wait for it to be applied beyond it.
    pub log_bytes: u64,
    /// Size of a log segment.
    pub segment_bytes: u64,
    /// The disk's file grows in steps of this many bytes.
    pub growth_bytes: u64,
    /// The most that the data in the store's folder may grow to; `u64::MAX`: as the file system
    /// allows; 0: no new data there.
    pub capacity: u64,
    /// What growth leaves free in the file system, for the log and the index.
    pub reserve_bytes: u64,
    /// Free space that a store at rest keeps for the next writes; the rest goes back to the host.
    pub spare_bytes: u64,
    /// The most chunks that a cut empties at one moment; the rest follows in the background.
    pub truncate_chunks: u32,
    /// What its cache does.
    pub rules: CacheRules,
    /// Go on without blocks that cannot be read and of which the log has a part.
    pub accept_loss: bool,
}

impl StoreConfig {
    /// Shrinks the log and what is reserved for it and the index to what a folder of `total` bytes
    /// can hold.
    pub fn fit(&mut self, total: u64) {
        self.log_bytes = self.log_bytes.min(total / 8).max(4 << 20);
        self.segment_bytes = self.segment_bytes.min(self.log_bytes / 4);
        self.dirty_bytes = self.dirty_bytes.min(self.log_bytes);
        self.growth_bytes = self.growth_bytes.min(total / 8).max(1 << 20);
        self.spare_bytes = self.spare_bytes.min(total / 64);
        // The log at its bound with a segment to spare, what is kept of it, and the index.
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
