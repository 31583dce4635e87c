//! What a store has done so far, for metrics and for tests that count.

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
    /// Pieces written.
    writes,
    /// Bytes written by callers.
    write_bytes,
    /// Bytes copied between buffers on the way in or out.
    copied_bytes,
    /// Blocks served from the cache.
    cache_hits,
    /// Blocks that had to come from the disk.
    cache_misses,
    /// Blocks fetched before anybody asked for them.
    prefetched,
    /// Those of them that were read then.
    prefetched_used,
    /// Those of them that went unread.
    prefetched_unused,
    /// Runs that blocks were put into: pieces of a fork that do not follow the one before.
    placed_runs,
    /// Blocks put into them.
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
    /// Callers answered by group commits.
    sync_callers,
    /// Appends to the log.
    log_appends,
    /// Bytes appended to the log.
    log_bytes,
    /// Times the log was applied to the index.
    applies,
    /// Times a write waited for memory or log space.
    stalls,
    /// Checksums that did not match.
    bad_checksums,
    /// Blocks whose bytes changed in memory.
    memory_faults,
    /// Chunks that passes of the scrub looked at.
    scrub_chunks,
    /// Bytes that they read from the disk; not in `disk_read_bytes`.
    scrub_bytes,
    /// Blocks that they found bad, in every pass again.
    scrub_bad_blocks,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Relaxed);
    }
}
