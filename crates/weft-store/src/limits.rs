//! Limits: timeouts, bounds and batch sizes of the store, each with its unit and its reason. A
//! limit that only one file of `engine`, `commit`, `files`, `provision`, `upkeep` or `recovery`
//! uses, and that has no measurement behind it, is at the top of that file.

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

/// Slots that are dirty as a whole and worth a flush: 4 MiB.
pub(crate) const FULL_SLOTS: u64 = 64;

/// Blocks written in one round of a flush: 16 MiB.
pub(crate) const ROUND_BLOCKS: u64 = 4096;

/// Locks that serialize writes to the same chunk.
pub(crate) const LANES: usize = 64;

// The log.

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
