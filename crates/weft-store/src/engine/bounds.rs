//! Bounds and sizes of a store, from its configuration.

use crate::config::{CacheRules, StoreConfig};
use crate::limits::{DIRTY_MIN, REPLAY_MAX};
use crate::pool::BLOCK;

/// Bounds and sizes, from the configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Bytes of pages in memory.
    pub(crate) cache: u64,
    /// Bytes of dirty pages.
    pub(crate) dirty: u64,
    /// Bytes of the log.
    pub(crate) log: u64,
    /// Bytes by which the disks' files grow together.
    pub(crate) growth: u64,
    /// Free blocks that an idle store keeps.
    pub(crate) spare: u64,
    /// What replaying the log may cost, in units of
    /// [`LogHead::logged`](crate::log::LogHead::logged).
    pub(crate) replay: u64,
    /// Entries that differ from the index before the log is applied: they cannot be evicted.
    pub(crate) changed: u64,
    /// Most chunks that one step of a truncation empties.
    pub(crate) truncate_chunks: u32,
    pub(crate) rules: CacheRules,
}

/// Bytes of memory of a small chunk's entry.
const ENTRY_BYTES: u64 = 512;

impl Bounds {
    pub(crate) fn of(config: &StoreConfig) -> Self {
        Self {
            cache: config.cache_bytes,
            // Dirty pages are pages of the cache, which must have space for clean ones too.
            dirty: config
                .dirty_bytes
                .min(config.cache_bytes / 2)
                .max(DIRTY_MIN),
            log: config.log_bytes,
            growth: config
                .growth_bytes
                .next_multiple_of(BLOCK as u64)
                .max(BLOCK as u64),
            spare: config.spare_bytes / BLOCK as u64,
            replay: REPLAY_MAX,
            truncate_chunks: config.truncate_chunks.max(1),
            rules: config.rules,
            changed: (config.cache_bytes / 4 / ENTRY_BYTES).clamp(1024, REPLAY_MAX / 32),
        }
    }
}
