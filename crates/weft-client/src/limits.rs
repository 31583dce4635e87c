//! Timeouts, bounds and batch sizes.

use std::time::Duration;

use weft_proto::limits::NAMES_AHEAD_MAX;

// Calls.

/// Repetitions of a call that ends attachments, after lost connections.
pub(crate) const ENDING_RETRIES: u32 = 2;

/// Repetitions of a close that must learn a size which other writers keep changing.
pub(crate) const CLOSE_SIZE_RETRIES: u32 = 3;

/// The first pause before a call is repeated that the service refused for now; it doubles up to
/// [`BACKOFF_MAX`].
pub(crate) const BACKOFF_FIRST: Duration = Duration::from_millis(5);

/// The longest such pause.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_millis(500);

/// How long a server waits for members of a collective unless the group says otherwise.
pub const GROUP_WAIT: Duration = Duration::from_secs(30);

/// Reads of at least so many bytes are spread over the replicas of a server, in steps of places.
pub(crate) const BACKUP_READ_MIN: u64 = 1 << 20;
pub(crate) const BACKUP_STEP: u64 = 4 << 20;
/// How long it may take until a backup begins to answer; then the primary is asked.
pub(crate) const BACKUP_ANSWER_MAX: Duration = Duration::from_secs(2);
/// How old the server map may be that says which backups are in sync.
pub(crate) const BACKUPS_AGE_MAX: Duration = Duration::from_secs(30);
/// For how long a backup that has not answered as it should is left alone.
pub(crate) const BACKUP_REST: Duration = Duration::from_secs(5);
/// How long a collective tries to reach a lost server, at most.
pub(crate) const COLLECTIVE_AWAY_MAX: Duration = Duration::from_secs(9);
/// How long a call waits for another replica to take the place of a lost one.
pub(crate) const FAILOVER_MAX: Duration = Duration::from_secs(15);
/// Pause before it asks again where the server is.
pub(crate) const FAILOVER_INTERVAL: Duration = Duration::from_millis(100);
/// Pause before a member asks a lost server again.
pub(crate) const COLLECTIVE_RETRY_INTERVAL: Duration = Duration::from_millis(100);

// Cautious operations.

/// How long after its beginning a read relies on its claims without asking. A server takes a claim
/// away after five seconds at the earliest (`weft-server`, `CLAIM_PATIENCE`).
pub(crate) const CLAIM_VALID: Duration = Duration::from_millis(2500);

/// How long the end of an operation waits for a call that takes it along.
pub(crate) const END_DELAY: Duration = Duration::from_millis(1);

/// How often an operation is tried before its caller is told that others were in the way.
pub(crate) const OPERATION_TRIES: u32 = 8;

/// The pause before it is tried once more; it grows by as much from try to try.
pub(crate) const OPERATION_BACKOFF: Duration = Duration::from_millis(50);

/// How long a client tries to reach a server that takes part in a decided operation.
pub(crate) const OPERATION_TIMEOUT: Duration = Duration::from_secs(10);

// Attachments and accesses.

/// From the first attachment that ends until the service is told, so that one call reports several.
pub(crate) const DETACH_DELAY: Duration = Duration::from_millis(5);

/// From the first access until the service is told, if no attachment ends before.
pub(crate) const ACCESS_DELAY: Duration = Duration::from_secs(1);

/// Files whose unsynced positions are stored one by one. Positions of further files are merged, and
/// any file's sync asks for them.
pub(crate) const UNSYNCED_FILES_MAX: usize = 1 << 16;

// Delegated directories.

/// From a change until it is reported, so that one call reports several; a file that is being
/// written may take twice as long. A client that dies may lose what is not reported.
pub(crate) const REPORT_DELAY: Duration = Duration::from_millis(4);

/// How long reports are repeated while the service is away: its failure detection time.
pub(crate) const REPORT_TIMEOUT: Duration = Duration::from_secs(8);

/// Between two looks for idle delegations.
pub(crate) const IDLE_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A delegation without a change for so long is given back.
pub(crate) const DELEGATION_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// For so long a directory that other clients wanted is not asked for.
pub(crate) const DELEGATION_BACKOFF: Duration = Duration::from_secs(2);

/// So many changes within [`CHANGE_COUNT_WINDOW`] make a directory worth asking for.
pub(crate) const CHANGES_WORTH_DELEGATION: u32 = 4;

/// Changes that delegations have saved are counted up to this: a directory is asked for at its
/// first change while as many as [`CHANGES_WORTH_DELEGATION`] are left.
pub(crate) const SAVED_CHANGES_MAX: u32 = 32;

/// See [`CHANGES_WORTH_DELEGATION`].
pub(crate) const CHANGE_COUNT_WINDOW: Duration = Duration::from_secs(1);

/// The most directories whose changes are counted.
pub(crate) const COUNTED_DIRECTORIES_MAX: usize = 1024;

/// The most directories that are delegated to a client at a time.
pub(crate) const DELEGATIONS_MAX: usize = 1024;

/// Ids for new files that the first request for a delegation asks for: many programs make only a
/// few files.
pub(crate) const FIRST_IDS: u32 = 64;

/// The most unreported changes; beyond them every change goes to the service at once.
pub(crate) const UNREPORTED_CHANGES_MAX: usize = 4 * NAMES_AHEAD_MAX;

/// The most files made in delegated directories whose attributes a client keeps.
pub(crate) const MADE_FILES_MAX: usize = 1 << 14;

/// Bytes of new files in one report.
pub(crate) const REPORT_BYTES_MAX: usize = 256 << 10;

// The check of a whole volume.

/// The most findings that a check reports.
pub const FINDINGS_MAX: usize = 100_000;

/// The most rounds of a check whose repairs bring new findings to light.
pub(crate) const CHECK_ROUNDS_MAX: usize = 5;

/// Suspects that are examined again together.
pub(crate) const SUSPECTS_PER_BATCH: usize = 256;

/// How often a file that keeps changing is examined again.
pub(crate) const SUSPECT_CHECKS_MAX: usize = 4;

/// Between two questions for the progress of the namespace's check.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// Passes over the store of a server that keeps restarting.
pub(crate) const STORE_PASSES_MAX: usize = 3;

/// The most cells of one file that findings name one by one.
pub(crate) const NAMED_CELLS_MAX: usize = 64;

/// The most quarantine files of one cell, which earlier repairs may have left.
pub(crate) const QUARANTINE_NAMES_MAX: u32 = 100;

// Names and chunks that are kept.

/// How long names are believed after the question for callbacks was sent that a server answered
/// last. Shorter than a server waits for a client.
pub(crate) const NAMES_VALID: Duration = Duration::from_secs(3);

/// How long a server is given to answer a question for callbacks; it does after a second.
pub(crate) const CALLBACKS_TIMEOUT: Duration = Duration::from_secs(4);

/// Names of one file that are kept, of one server: about 64 MiB of memory.
pub(crate) const NAMES_KEPT_MAX: usize = 1 << 20;

/// Bytes of delayed writes of one attachment: more of them leave at once.
pub(crate) const DELAYED_BYTES_MAX: u64 = 16 << 20;

/// Delayed writes of one attachment that do not follow one another.
pub(crate) const DELAYED_WRITES_MAX: usize = 4_096;

/// How often it is looked whether anybody still has a file with delayed writes.
pub(crate) const DELAYED_LOOK: Duration = Duration::from_secs(1);

/// Bytes of chunks that are kept, unless the options say otherwise.
pub(crate) const CHUNKS_KEPT_BYTES: u64 = 64 << 20;

/// Pieces of a read that goes by names, at most: for more, walking them costs more than it saves.
pub(crate) const KEPT_PIECES_MAX: u64 = 65_536;

/// Bytes of chunks that are kept on a disk, unless the options say otherwise.
pub(crate) const DISK_CACHE_BYTES: u64 = 10 << 30;

/// The least that makes sense: a share of each folder of chunks that holds some.
pub(crate) const DISK_CACHE_MIN: u64 = 64 << 20;

/// The largest chunk that is read from a disk.
pub(crate) const DISK_CHUNK_MAX: u64 = 64 << 20;

/// How often a folder of chunks is looked at, in chunks that are added.
pub(crate) const DISK_CACHE_LOOK: u64 = 16;

/// How exactly the last use of a chunk is known; and how long a chunk may be written.
pub(crate) const DISK_CACHE_TOUCH: Duration = Duration::from_mins(10);

/// Chunks that are being written to a disk at once; others are not kept there.
pub(crate) const DISK_CACHE_WRITES_MAX: usize = 256;

/// How often a read by names begins anew because the file was changed meanwhile.
pub(crate) const KEPT_READ_TRIES: u32 = 3;

// Writes to addressed files by name.

/// Chunks that one request names, at most: a server takes as many.
pub(crate) const NAMED_CHUNKS_MAX: u64 = 16_383;

/// Pieces of a write that are looked at one by one, at most: for more, names would cost more than
/// they save.
pub(crate) const NAMED_PIECES_MAX: u64 = 65_536;

/// Ranges of cells on one server that a write fills, at most, to be written by name: each is a
/// request of its own.
pub(crate) const NAMED_RANGES_MAX: usize = 4;

/// Bytes: a write of many pieces smaller than this is sent as it is.
pub(crate) const NAMED_PIECE_MIN: u64 = 4 << 10;

/// Small writes that name no chunk between two that do, at most, while servers know none of the
/// chunks.
pub(crate) const NAMING_SKIPPED_MAX: u32 = 64;

/// Calls with large parts that name no chunk between two that do, at most, while they go on where
/// the one before ended: known bytes that follow new ones are sent in vain by so many.
pub(crate) const NAMING_LARGE_SKIPPED_MAX: u32 = 3;

/// After so many answers in vain one more call in turn names no chunk.
pub(crate) const NAMING_VAIN_CALLS: u32 = 16;

/// A large write probes with one of this many of its chunks then: that costs a few per cent of the
/// time to hash all, and a round trip.
pub(crate) const NAMING_PROBE_SHARE: u64 = 16;
