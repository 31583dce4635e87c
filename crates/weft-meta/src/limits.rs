//! Bounds, intervals and page sizes of the namespace that no wire message states.
//!
//! Bounds that clients must know are in `weft_proto::limits`.

use std::time::Duration;

use weft_proto::limits::BODY_MAX;

/// Names that one file can have.
pub const HARD_LINKS_MAX: u32 = 65_000;

// Watchers, leases, delegations.

/// Changes that the log keeps. A watcher that falls further behind drops all that it caches.
pub(crate) const CHANGES_KEPT_MAX: usize = 65_536;

/// Changes that one watch reads, so that the lock of the log is held briefly.
pub(crate) const CHANGES_SCAN_MAX: usize = 4096;

/// Bytes of a file's number, or of an entry beside its name, in the answer to a watch, at most.
pub(crate) const INVALIDATION_BYTES: usize = 24;

/// How long a delegation waits for commits that began before it; then it is refused.
pub(crate) const COMMITS_TIMEOUT: Duration = Duration::from_millis(10);

/// Leases at a time; beyond them none is granted.
pub(crate) const LEASES_MAX: usize = 1 << 18;

/// Small files that are leased; beyond them a client asks whenever it opens one.
pub(crate) const FILE_LEASES_MAX: usize = 1 << 20;

/// Delegations at a time; beyond them none is granted.
pub(crate) const DELEGATIONS_MAX: usize = 4096;

/// Delegations at a time, with those of directories that their holders made and use already.
pub(crate) const NEW_DELEGATIONS_MAX: usize = 1 << 16;

/// Locks that all clients together may hold.
pub(crate) const LOCKS_TOTAL_MAX: usize = 1 << 20;

// Servers.

/// Nanoseconds without a heartbeat after which a server counts as down.
pub(crate) const HEARTBEAT_TIMEOUT: i64 = 5_000_000_000;
/// Nanoseconds without a heartbeat after which a backup does not get the place of a primary that
/// was started again.
pub(crate) const REPLICA_UP: i64 = 2_500_000_000;
/// Replicas of a server.
pub(crate) const REPLICAS_MAX: usize = 4;

/// Nanoseconds between two records of a server's durable position, at least. The record reveals an
/// older copy of a store.
pub(crate) const POSITION_RECORD_INTERVAL: i64 = 20_000_000_000;

/// Bytes of the longest address of a server.
pub(crate) const ADDRESS_MAX: usize = 255;
/// Bytes of the longest id of a store.
pub(crate) const STORE_ID_MAX: usize = 64;
/// Bytes of the longest name of a failure domain.
pub(crate) const DOMAIN_MAX: usize = 64;

// A restart.

/// Ids that are skipped after a crash: more than can have been allocated in the seconds whose
/// commits power loss may have taken. I/O servers may have data under those ids, and clients may
/// still use them.
pub(crate) const IDS_SKIPPED: u64 = 1 << 20;

/// Orphans that one transaction removes.
pub(crate) const ORPHANS_PAGE: usize = 256;

// Pages of answers.

/// Bytes of entries in one page of a directory. The rest of the message body is for the directory,
/// whose layout may name thousands of servers.
pub(crate) const LIST_PAGE_BYTES: usize = BODY_MAX as usize - (128 << 10);

/// Bytes after which a page of quotas ends.
pub(crate) const QUOTAS_PAGE_BYTES: usize = 512 << 10;

/// Names that one call for the checkpoints of a directory's files reads.
pub(crate) const CHECKPOINTS_NAMES_MAX: usize = 2000;

/// Checkpoints listed of one file; a page ends when it has so many.
pub(crate) const CHECKPOINTS_PAGE: usize = 500;

/// Files after which a page of intents ends: an intent about a tree has many.
pub(crate) const INTENT_FILES_MAX: usize = 1 << 17;

// Checks and repairs.

/// Inodes whose names a check counts in one scan of the entries; it bounds the memory of a check.
pub(crate) const CHECK_WINDOW: usize = 1 << 20;

/// Inodes that a check across servers reads for one page.
pub(crate) const FILES_PAGE: usize = 2000;

/// Bytes after which such a page ends.
pub(crate) const FILES_PAGE_BYTES: usize = 512 << 10;

/// Entries that one repair moves to `/lost+found`.
pub(crate) const MOVES_MAX: usize = 1000;

/// Bytes of a name that a repair gives in `/lost+found`; a suffix follows where it is taken.
pub(crate) const LOST_NAME_MAX: usize = 200;

/// Names of a removed file that the outcome of its repair shows.
pub(crate) const NAMES_SHOWN: usize = 8;

/// Bytes of the extended attribute that says what is known about a recovered file.
pub(crate) const LOST_NOTE_MAX: usize = 16 << 10;
