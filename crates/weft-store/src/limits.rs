//! Limits: timeouts, bounds and batch sizes of the store, each with its unit and its reason.

use std::time::Duration;

// Disk operations.

/// Bytes: whole blocks of a write go directly to free blocks from this length on. For less, the
/// log's copy and a later flush in full runs are cheaper than a disk operation.
pub(crate) const DIRECT_MIN: u64 = 32 << 10;

/// Blocks of one disk read or write, at most: 1 MiB.
pub(crate) const OPERATION_BLOCKS: u32 = 256;

/// Entries of a ring's submission queue; every submission empties it.
pub(crate) const RING_ENTRIES: u32 = 256;

/// Entries of a ring's completion queue; the kernel keeps an overflow until it is asked.
pub(crate) const RING_COMPLETIONS: u32 = 4096;

/// Rings of a disk, at most: each takes some 100 KiB of kernel memory and a place in the poll set.
pub(crate) const RINGS_MAX: usize = 4;

/// Threads of a folder for blocking work; with io_uring they only serve the index and the folder.
pub(crate) const THREADS: usize = 2;

/// Threads of a folder without io_uring: every disk operation needs one.
pub(crate) const THREADS_WITHOUT_RING: usize = 8;

// Memory of buffers.

/// Slabs (2 MiB) returned to the system per call, which holds the pool's lock: 1 to 2 ms.
pub(crate) const RELEASED_SLABS_MAX: usize = 64;

/// Units (64 KiB) in receive buffers and their frozen bytes, at most: 64 MiB. Beyond it payloads
/// are received elsewhere and copied, so that a burst does not enlarge the pool for ever.
pub(crate) const RECEIVED_UNITS_MAX: usize = 1024;

/// Slabs searched for consecutive units, at most.
pub(crate) const SLABS_SEARCHED: usize = 1024;

/// Free units (4 MiB) below which the pool grows if it finds no consecutive ones.
pub(crate) const SPARE_UNITS: usize = 64;

/// The pool also grows then if fewer than one of this many of its units is free.
pub(crate) const SPARE_SHARE: usize = 16;

/// Units kept for the next receive buffers, at most: 16 MiB, which the processor's cache may still
/// have.
pub(crate) const REUSE_UNITS_MAX: usize = 256;

// Cache and prefetch.

/// Pages and entries in a row that must stay, after which an eviction ends: if most of the cache is
/// dirty or not in the index yet, a scan of all of it would cost each write milliseconds.
pub(crate) const SCAN_MAX: usize = 512;

/// Entries of the cache's queues, live and dead, that are never too many.
pub(crate) const QUEUES_PURGED_MIN: usize = 16_384;

/// Bytes by which the cache grows before the next scan after one without success: eight entries are
/// scanned per block, which adds at most two to the clock.
pub(crate) const SCAN_INTERVAL: u64 = (SCAN_MAX / 8) as u64 * 4096;

/// Slots (64 KiB) that a fork's access history remembers.
pub(crate) const HISTORY_SLOTS: usize = 256;

/// Slots of one fetch, aligned to multiples where that is not much shorter: 1 MiB, one operation of
/// a disk if the fork is contiguous there.
pub(crate) const FETCH_SLOTS: u64 = 16;

/// Slots prefetched ahead of a read, at most: 8 MiB.
pub(crate) const PREFETCH_SLOTS_MAX: u64 = 128;

/// Slots of the shortest sequence: a shorter one may be chance.
pub(crate) const SEQUENCE_MIN: u64 = 2;

/// Reads of other slots between one slot and the next, at most: so many sequences can be
/// interleaved.
pub(crate) const SKEW: u64 = 16;

/// The same if the next slot was read first: clients of one sequence can be that far out of step.
pub(crate) const DISORDER: u64 = 8;

/// Sequences of a fork whose prefetched ends are remembered, at most.
pub(crate) const SEQUENCES_MAX: usize = 16;

/// Forks with an access history, at most; those that were read last.
pub(crate) const HISTORIES_MAX: usize = 2048;

/// Sequential reads that decide how many forks are read sequentially at a time, at most.
pub(crate) const RECENT_READS: usize = 1024;

/// Reads after which a sequential read no longer counts among those.
pub(crate) const RECENT_AGE: u64 = 4096;

/// Bytes prefetched at a time for all forks, at most: reads that a caller waits for queue behind
/// them.
pub(crate) const PREFETCH_BYTES_MAX: u64 = 32 << 20;

/// Bytes that an explicit prefetch loads at a time.
pub(crate) const PREFETCH_STEP: u64 = 4 << 20;

// Dirty pages and flushes.

/// The least bound of dirty pages, in bytes: every cache can hold so many.
pub(crate) const DIRTY_MIN: u64 = 256 << 10;

/// Slots that are dirty as a whole and worth a flush: 4 MiB.
pub(crate) const FULL_SLOTS: u64 = 64;

/// Blocks written in one round of a flush: 16 MiB.
pub(crate) const ROUND_BLOCKS: u64 = 4096;

/// Locks that serialize writes to the same chunk.
pub(crate) const LANES: usize = 64;

// The log.

/// The bound of the replay cost, in units of `Head::logged`: replaying it takes about half a
/// second.
pub(crate) const REPLAY_MAX: u64 = 4 << 20;

/// Bytes: data of at least this length is appended from where it is; a copy of less costs less than
/// a reference.
pub(crate) const SHARED_MIN: usize = 16 << 10;

/// Appended bytes that the file `reached` may not know of, at most.
pub(crate) const UNMARKED_MAX: u64 = 256 << 10;

/// Bytes of memory kept for the next append, at most.
pub(crate) const SCRATCH_MAX: usize = 16 << 20;

/// Bytes of frames after which a frame reports the touched forks without a sync. The fewer frames a
/// report covers, the fewer files are in doubt if one is damaged; at 60 bytes each, the reports are
/// a five-hundredth of the log.
pub(crate) const TOUCHED_INTERVAL: u64 = 32 << 10;

/// Forks in one report of touched forks, at most; of more it says "any".
pub(crate) const TOUCHED_FORKS_MAX: usize = 65_536;

/// Ranges of a fork's doubt, at most. Bytes whose removal would make more ranges stay in doubt.
pub(crate) const DOUBT_RANGES_MAX: usize = 4096;

// The index.

/// Chunks of removed forks that leave the index in one step, for each chunk that a truncation
/// empties in one step.
pub(crate) const REMOVALS_PER_CHUNK: usize = 8;

/// An application may use the index's reserve if it frees this many times what it adds.
pub(crate) const RESERVE_GAIN: u64 = 8;

/// Changes in one batch of the index.
pub(crate) const INDEX_BATCH: usize = 1024;

/// Steps of a removal in one application, at most.
pub(crate) const REMOVAL_STEPS: usize = 16;

// Free blocks.

/// Blocks reserved for truncations, at most: a truncation dirties the block that it divides, even
/// on a full disk.
pub(crate) const RESERVE_BLOCKS_MAX: u64 = 64;

/// Free extents that one search examines before it takes the best of them.
pub(crate) const EXTENTS_SEARCHED: usize = 32;

/// Blocks of the smallest large extent: 1 MiB.
pub(crate) const LARGE_EXTENT: u64 = 256;

/// Extents that one step of a punch examines under the state's lock.
pub(crate) const EXTENTS_PER_STEP: usize = 1024;

/// Blocks of a window, at most: 16 MiB.
pub(crate) const WINDOW_MAX: u64 = 4096;

/// Windows at a time, at most; a new one replaces the least recently used.
pub(crate) const WINDOWS_MAX: usize = 256;

// Admission of calls.

/// The share of the bounds of dirty pages and the log that only small calls may use: an eighth.
pub(crate) const SMALL_CALLS_SHARE: u64 = 8;

/// How often a large call checks its own limit; after that it goes on within the bounds, as small
/// calls do.
pub(crate) const LARGE_CALL_CHECKS: u32 = 16;

/// After this many passes of the background task, everything that it can free is free: the second
/// pass began after the first check.
pub(crate) const PASSES_TO_FREE: u64 = 2;

// The background task.

/// After this time the log is applied to free the blocks of removed forks that only the index
/// knows.
pub(crate) const REMOVED_FORKS_DELAY: Duration = Duration::from_secs(2);

/// The longest time that a change is only in the log.
pub(crate) const APPLY_INTERVAL: Duration = Duration::from_secs(30);

/// How often unused memory of the pool is released. A load that pauses for less finds it again.
pub(crate) const POOL_RELEASE_INTERVAL: Duration = Duration::from_secs(5);

/// The shortest wait before failed background work is tried again.
pub(crate) const BACKOFF_MIN: Duration = Duration::from_secs(1);

/// The longest wait before failed background work is tried again.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_mins(1);

// Space of the host.

/// How often a store checks whether it can return free blocks to the host.
pub(crate) const TRIM_INTERVAL: Duration = Duration::from_secs(5);

/// A store to which nothing was written for so long is idle.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// An idle store may keep free extents of less than 1 MiB, up to this share of its used blocks.
pub(crate) const SMALL_EXTENTS_SHARE: u64 = 32;

/// Blocks that are punched out at a time: 64 MiB. This takes ext4 about 10 ms, in which direct
/// writes wait.
pub(crate) const PUNCH_BLOCKS: u64 = 16_384;

/// The pause after each punch while other calls run, as a multiple of the time that it took: so
/// they lose a twentieth of the time at most.
pub(crate) const PUNCH_PAUSE_FACTOR: u32 = 20;

/// The share of the log's bound that an idle store may retain of the log.
pub(crate) const IDLE_LOG_SHARE: u64 = 16;

// Steps of operations on forks and files.

/// Most blocks that a call for data ranges checks: about 50 µs under the state's lock.
pub(crate) const DATA_RUNS_BLOCKS: usize = 1 << 15;

/// Most chunks that are cleared at one moment; longer ranges are cleared in steps.
pub(crate) const CLEAR_CHUNKS: usize = 4096;

/// Most blocks in the chunks that one step of a deferred truncation empties: 64 MiB.
pub(crate) const TRUNCATION_STEP_BLOCKS: u32 = 16 << 10;

/// Chunks that one step of a merge moves to the child fork.
pub(crate) const MERGE_STEP_CHUNKS: usize = 1024;

/// Files that a list of deletions looks up under one lock of the state.
pub(crate) const FILES_PER_LOCK: usize = 256;

// Addressed forks.

/// The chunk size of recipes: one entry of the map for 2,048 chunks.
pub(crate) const RECIPE_CHUNK: u32 = 64 << 10;

/// Entries of a recipe that one read returns, at most: 256 KiB.
pub(crate) const RECIPE_READ_ENTRIES: u64 = 8192;

/// Entries that a clear changes at one moment; the rest of a longer range follows in steps.
pub(crate) const CLEAR_ENTRIES: u64 = 65_536;

/// Bytes of new chunks that a write has in memory beside its data before it puts them.
pub(crate) const CHUNKS_MADE_BYTES: u64 = 8 << 20;

/// Chunks of one read that are read at a time, if they are not cached.
pub(crate) const CHUNKS_READ_AHEAD: usize = 8;

/// Damaged chunks that are remembered, at most: a put of any other finds out that it exists, and
/// leaves it as it is.
pub(crate) const DAMAGED_CHUNKS_MAX: usize = 65_536;

/// After a cleaning pass for a write that lacks space has freed nothing, others that lack space are
/// refused at once for so long.
pub(crate) const VAIN_PASS_PAUSE: Duration = Duration::from_secs(30);

/// How often a cleaning pass begins again because a recipe got another place meanwhile.
pub(crate) const CLEAN_ATTEMPTS: u32 = 3;

/// Chunks that a cleaning pass lists under one lock of the state.
pub(crate) const CLEAN_LIST_CHUNKS: usize = 256;

// Upkeep and recovery.

/// Most entries of the index that one step of a scrub or check reads.
pub(crate) const WALK_ENTRIES: usize = 256;

/// Most entries that one count of losses reads.
pub(crate) const LOSSES_COUNTED: usize = 10_000;

/// Entries after which a count of losses evicts what it loaded into the cache.
pub(crate) const LOSSES_EVICT_INTERVAL: usize = 256;

/// About how many bytes of chunks one step of a check reads.
pub(crate) const CHECK_STEP_BYTES: u64 = 64 << 20;

/// Most blocks with two owners whose owners a check looks up.
pub(crate) const CHECK_DUPLICATES: usize = 10_000;

/// Ranges into which recovery divides the index to count blocks in parallel; more than threads,
/// because their sizes are guesses.
pub(crate) const COUNT_RANGES: u64 = 16;

/// Records of the index that a repair reads or writes together.
pub(crate) const REPAIR_BATCH: usize = 256;

/// Blocks of a disk that must match their checksums to identify it by them.
pub(crate) const LABEL_SAMPLE: usize = 256;
