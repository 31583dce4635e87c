//! Counters of a store, for metrics and for tests of exact costs.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The live counters of a store.
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64,)* }

        /// What a store has done since it was opened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CounterSnapshot { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            pub(crate) fn snapshot(&self) -> CounterSnapshot {
                CounterSnapshot { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Calls of `read`.
    reads,
    /// Bytes returned by `read`.
    read_bytes,
    /// Contiguous pieces written.
    writes,
    /// Bytes written by callers.
    write_bytes,
    /// Bytes copied between buffers on the way in or out.
    copied_bytes,
    /// Blocks read from the cache.
    cache_hits,
    /// Blocks that were not in the cache.
    cache_misses,
    /// Blocks prefetched.
    prefetched,
    /// Prefetched blocks that were read.
    prefetched_used,
    /// Prefetched blocks that were evicted unread.
    prefetched_unused,
    /// Runs of blocks on the disks that forks got: each begins where the fork's last block does not
    /// end.
    placed_runs,
    /// Blocks in those runs.
    placed_blocks,
    /// Bytes read from the disk.
    disk_read_bytes,
    /// Bytes written to the disk, direct or flushed.
    disk_write_bytes,
    /// Write operations sent to the disk.
    disk_writes,
    /// Read operations sent to the disk.
    disk_reads,
    /// Group commits.
    syncs,
    /// Callers that group commits answered.
    sync_callers,
    /// Appends to the log.
    log_appends,
    /// Bytes appended to the log.
    log_bytes,
    /// Times the log was applied to the index.
    applies,
    /// Addressed chunks stored.
    chunks_put,
    /// Addressed chunks that were to be stored and existed.
    chunks_known,
    /// Addressed chunks that were written by their names.
    chunks_named,
    /// Addressed chunks that the cleaner removed.
    chunks_cleaned,
    /// Their bytes.
    cleaned_bytes,
    /// Times a write waited for memory or log space.
    stalls,
    /// Checksums that did not match.
    bad_checksums,
    /// Blocks whose bytes changed in memory.
    memory_faults,
    /// Chunks that the scrub checked.
    scrub_chunks,
    /// Bytes that the scrub read from the disk; not in `disk_read_bytes`.
    scrub_bytes,
    /// Bad blocks that the scrub found; each pass counts them again.
    scrub_bad_blocks,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Relaxed);
    }
}
