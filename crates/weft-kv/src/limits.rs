//! Bounds, intervals and timeouts of the engine. Names on disk and formats are where they are used.

use std::time::Duration;

// Disk space.

/// Bytes that must be free for the engine to grow: journals and tables of what is in memory, twice.
pub(crate) const MARGIN: u64 = 128 << 20;
/// On a small file system the margin is at most its size divided by this.
pub(crate) const MARGIN_DIVISOR: u64 = 16;
/// The reserve is at most the size of the file system divided by this.
pub(crate) const RESERVE_DIVISOR: u64 = 64;
/// The margin divided by this is left to operations that free more than they take; below it the
/// reserve is released.
pub(crate) const RECLAIM_DIVISOR: u64 = 4;
/// A memtable is at most the size of the file system divided by this, so that twice as much fits
/// into the margin.
pub(crate) const MEMTABLE_DIVISOR: u64 = 64;
/// Bytes of a memtable at least, however small the file system.
pub(crate) const MEMTABLE_MIN: u64 = 4 << 20;
/// How long a measurement of free space counts. No engine writes a margin in that time.
pub(crate) const SPACE_MAX_AGE: Duration = Duration::from_millis(100);
/// A commit takes this many times its bytes: in the journal, in a table and, for a moment, in the
/// table that the first one is merged into.
pub(crate) const COMMIT_COPIES: u64 = 3;

// Commits and syncs.

/// Delay after the first failed attempt to reopen the engine; it doubles with each further one.
pub(crate) const REOPEN_BACKOFF_MIN: Duration = Duration::from_millis(50);
/// The longest such delay.
pub(crate) const REOPEN_BACKOFF_MAX: Duration = Duration::from_secs(2);
/// Descriptors that must be free before the engine is reopened.
pub(crate) const REOPEN_DESCRIPTORS: usize = 32;
/// How long a reopening waits for reads in flight.
pub(crate) const REOPEN_READERS_TIMEOUT: Duration = Duration::from_millis(200);
/// Attempts at a sync that the system refuses for want of a descriptor or the like.
pub(crate) const SYNC_ATTEMPTS: u32 = 20;
/// Delay between those attempts.
pub(crate) const SYNC_RETRY_INTERVAL: Duration = Duration::from_millis(25);
/// Journals that may be deleted, one after the other, between being found and being opened.
pub(crate) const JOURNAL_ATTEMPTS: usize = 16;
/// Attempts at the folder's lock: the threads of an engine that was just dropped hold it a little
/// longer.
pub(crate) const LOCK_ATTEMPTS: u32 = 10;
/// Delay between those attempts.
pub(crate) const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(100);

// Flushing memtables.

/// How long a flush may take.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_mins(2);
/// How often a flush looks whether the tables are written.
pub(crate) const FLUSH_POLL_INTERVAL: Duration = Duration::from_millis(2);

// Compaction on a disk that is short of space.

/// Bytes of tables beyond which compaction is left to the engine: such an engine is on a larger
/// disk.
pub(crate) const COMPACT_TABLES_MAX: u64 = 1 << 30;
/// Bytes that a compaction must free to be worth it.
pub(crate) const COMPACT_GAIN_MIN: u64 = 1 << 20;
/// Bytes that a table takes for each pair beside key and value, roughly.
pub(crate) const TABLE_ITEM_BYTES: usize = 32;
/// The free space that a compaction needs, in multiples of its output: another process may compact
/// on the same disk.
pub(crate) const COMPACT_SPACE_FACTOR: u64 = 2;
/// After a look for work the compactor rests this many times as long as it took: at most a tenth of
/// the time goes to it.
pub(crate) const COMPACT_REST_FACTOR: u32 = 10;
/// The free space that flushing a memtable needs, in multiples of its size.
pub(crate) const FLUSH_SPACE_FACTOR: u64 = 2;
/// Bytes that flushing a memtable needs beside that.
pub(crate) const FLUSH_SPACE_MIN: u64 = 2 << 20;
/// Delay after a compaction that failed, or freed less than expected because a snapshot is held.
pub(crate) const COMPACT_BACKOFF: Duration = Duration::from_mins(10);
/// How often a wait for the writer lock looks whether the engine is being closed.
pub(crate) const WRITER_POLL_INTERVAL: Duration = Duration::from_millis(50);

// The second copy of the tables.

/// How often the copier looks for new tables.
pub(crate) const COPY_INTERVAL: Duration = Duration::from_secs(2);
/// Bytes that are copied in [`COPY_PIECE_TIME`] at most: 256 MiB/s.
pub(crate) const COPY_PIECE_BYTES: usize = 1 << 20;
/// The least time that a piece takes.
pub(crate) const COPY_PIECE_TIME: Duration = Duration::from_millis(4);
/// How long the last pass may take when the engine is closed.
pub(crate) const COPY_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts at a list whose tables are removed while they are copied.
pub(crate) const COPY_ATTEMPTS: u32 = 8;
/// Incomplete passes in a row after which a warning is logged.
pub(crate) const PARTIAL_PASSES_MAX: u32 = 300;
/// Bytes of tables that an opening verifies; a scrub verifies the rest.
pub(crate) const OPEN_VERIFY_BYTES: u64 = 4 << 30;
/// Bytes of a file that are read at a time.
pub(crate) const READ_BYTES: usize = 1 << 20;

// Incarnations.

/// Incarnations that a history keeps: a position of an older one counts as lost.
pub const INCARNATIONS_KEPT: usize = 128;

// The in-memory engine.

/// Pairs that a scan of the in-memory engine reads under its lock at a time.
pub(crate) const MEM_SCAN_PAGE: usize = 64;
