//! The numbers of this crate that matter: intervals, timeouts, bounds and batch sizes.
//!
//! Bounds that a peer must know too are in `weft_proto::limits`.

use std::time::Duration;

// Background work

/// Wait before background work that panicked is restarted.
pub(crate) const RESTART_BACKOFF: Duration = Duration::from_secs(1);

// Heartbeats of an I/O server

/// Interval between two heartbeats of an I/O server.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Shortest interval between two notes in the store of how far the namespace is.
pub(crate) const SERVICE_NOTE_INTERVAL: Duration = Duration::from_secs(20);
/// How long a call waits until the metadata service has compared the store. A running service
/// answers a heartbeat in milliseconds; one that starts at the same time as the server takes up to
/// two heartbeats.
pub(crate) const COMPARISON_TIMEOUT: Duration = Duration::from_secs(3);

// Reads

/// Bytes that the read jobs and copies of one client may hold in memory.
pub(crate) const CLIENT_READ_BUDGET: usize = 8 << 20;
/// Payload bytes of one batch.
pub(crate) const READ_BATCH_BYTES: u64 = 512 << 10;
/// Bytes that one batch reads, bridged gaps included.
pub(crate) const READ_SPAN_MAX: u64 = 4 << 20;
/// Gaps of up to this many bytes are read rather than skipped: on the reference machine a few more
/// blocks cost less than another read.
pub(crate) const READ_GAP_MAX: u64 = 16 << 10;
/// Bytes that an isolated piece costs beside its own: the rest of the blocks at its two ends.
pub(crate) const ISOLATED_PIECE_COST: u64 = 8 << 10;
/// Bytes of one range, which is one read of the store.
pub(crate) const READ_RANGE_MAX: u64 = 1 << 20;
/// Pieces of at least this many bytes are sent as slices of cache pages; smaller ones are copied
/// together.
pub(crate) const PAYLOAD_SLICE_MIN: usize = 4 << 10;
/// Slices of one batch's payload; beyond this the rest is copied together.
pub(crate) const PAYLOAD_SLICES_MAX: usize = 160;
/// Batches of one job between disk and wire: one is sent while the next is read.
pub(crate) const READ_DEPTH: usize = 2;
/// Jobs of up to this many bytes need no budget, so they never wait behind a large one.
pub(crate) const SMALL_READ_BYTES: u64 = 64 << 10;

// Writes

/// Frames of one write that may be on their way into the store at once.
pub(crate) const WRITE_DEPTH: usize = 4;
/// Writes of up to this many bytes run in the task that serves their connection.
pub(crate) const BRIEF_WRITE_BYTES: u64 = 64 << 10;
/// Ranges cleared in one call of the store.
pub(crate) const CLEAR_BATCH_RANGES: usize = 1024;

// Copies

/// Bytes that a copy within this server reads and writes at a time.
pub(crate) const COPY_WINDOW_BYTES: u64 = 1 << 20;
const _: () = assert!(CLIENT_READ_BUDGET as u64 >= COPY_WINDOW_BYTES);
/// Windows of such a copy in flight, so that the disk reads one while it writes another.
pub(crate) const COPY_DEPTH: usize = 4;
/// Chunks that such a copy searches for data at a time.
pub(crate) const COPY_SEARCH_CHUNKS: usize = 1024;
/// Shorter slices are copied together before they are written.
pub(crate) const COPY_SLICE_MIN: usize = 32 << 10;
/// Bytes that a copy to other servers reads at a time; a client's budget holds several.
pub(crate) const SEND_WINDOW_BYTES: u64 = 2 << 20;
const _: () = assert!(CLIENT_READ_BUDGET >= 2 * SEND_WINDOW_BYTES as usize);
/// BSUs of source or target in such a window: bounds what one write request lists.
pub(crate) const SEND_WINDOW_UNITS: u64 = 16 << 10;
/// Windows of one such call in flight, as far as the client's budget allows.
pub(crate) const SEND_DEPTH: usize = 4;
/// Shorter slices are copied together before they are sent.
pub(crate) const SEND_SLICE_MIN: usize = 16 << 10;

// Walks over pieces, cells and forks

/// Steps of a walk before it yields its thread: some milliseconds at most.
pub(crate) const WALK_STEPS: u32 = 64 << 10;
/// Forks in one page of a status reply; each takes less than 300 bytes on the wire.
pub(crate) const STATUS_PAGE_FORKS: usize = 3000;
/// Chunks that one search for data runs looks at, over all cells, at least one of each.
pub(crate) const DATA_RUNS_CHUNKS: usize = 1024;
/// Data runs that fill a reply; each takes less than 30 bytes.
pub(crate) const DATA_RUNS_MAX: usize = 4096;

// Shared offset pointers

/// Pointers that a server keeps; each takes some 600 bytes of memory.
pub(crate) const POINTERS_MAX: usize = 65_536;
/// Unused pointers in memory beyond which they are dropped from it.
pub(crate) const IDLE_POINTERS_MAX: usize = 1024;
/// Takers whose last answer a pointer keeps for a repetition: 512 KiB in the store.
pub(crate) const TAKERS_MAX: usize = 16_384;
/// A taker that has taken nothing for this long repeats nothing any more: a call ends sooner.
pub(crate) const TAKER_IDLE_MIN: Duration = Duration::from_mins(10);

// Order among the operations of a file

/// Spans in a claim, for each cell; more are joined.
pub(crate) const CLAIM_SPANS: usize = 64;
/// Claims on a file, granted and waiting.
pub(crate) const CLAIMS_MAX: usize = 4096;
/// How long an operation waits for another one before that loses its claim: a client that has not
/// gone on by then is dead, stopped or cut off.
pub(crate) const CLAIM_PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which an operation that waits looks what is in its way.
pub(crate) const CLAIM_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Operations on several servers that one client may have in progress.
pub(crate) const CLIENT_OPERATIONS_MAX: usize = 4096;
/// Bytes that the operations of one client may have staged.
pub(crate) const CLIENT_STAGING_MEMORY: usize = 2 * weft_proto::limits::STAGED_MAX as usize;
/// Operations that were ended before their first call arrived, and are remembered.
pub(crate) const ENDED_EARLY_MAX: usize = 1024;
/// Operations of which a server remembers that they have taken effect.
pub(crate) const OUTCOMES_MAX: usize = 65_536;
/// How long a server tries to learn an outcome.
pub(crate) const OUTCOME_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which it tries.
pub(crate) const OUTCOME_INTERVAL: Duration = Duration::from_millis(200);

/// How long caution stays forced if the metadata service does not repeat it.
pub(crate) const FORCED_TIMEOUT: Duration = Duration::from_mins(1);
/// How long an attach waits for a server that is told; one that is away is told later.
pub(crate) const FORCE_CAUTION_TIMEOUT: Duration = Duration::from_secs(3);
/// Files in one call that forces caution.
pub(crate) const FORCED_BATCH_FILES: usize = 4096;

// Collectives

/// Bytes of rounds of all collectives of the server together, small rounds excepted.
pub(crate) const ROUND_MEMORY: u64 = 128 << 20;
/// Bytes of small rounds of all collectives of the server together.
pub(crate) const SMALL_ROUND_MEMORY: u64 = 8 << 20;
/// Largest small round.
pub(crate) const SMALL_ROUND_BYTES: u64 = 64 << 10;
/// Bytes of rounds of one client's jobs.
pub(crate) const CLIENT_ROUND_MEMORY: u64 = 64 << 20;
/// Unit in which round memory is counted.
pub(crate) const ROUND_MEMORY_UNIT: u64 = 4 << 10;
/// Rounds of a collective write that go into the store while the next one is filled.
pub(crate) const ROUNDS_IN_FLIGHT: usize = 4;
/// Bytes of one write to the store; larger runs are split and written in parallel.
pub(crate) const ROUND_WRITE_BYTES: usize = 1 << 20;
/// How long a stream may stall while other jobs wait for round memory.
pub(crate) const CONTENDED_STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Shortest time that a member may stall in the middle of a job.
pub(crate) const STALL_TIMEOUT_MIN: Duration = Duration::from_secs(5);
/// Interval at which a wait checks whether its callers are still there.
pub(crate) const CALLER_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How long members wait for one that called a later collective of their group: its earlier call
/// may be on the way.
pub(crate) const PASSED_MEMBER_WAIT: Duration = Duration::from_secs(1);
/// How long members wait for one without a connection: its client may connect again.
pub(crate) const GONE_MEMBER_WAIT: Duration = Duration::from_secs(8);
/// Started and ended collectives that are remembered for members that reconnect.
pub(crate) const REMEMBERED_COLLECTIVES_MAX: usize = 4096;
/// How long they are remembered.
pub(crate) const REMEMBERED_COLLECTIVE_MAX_AGE: Duration = Duration::from_mins(10);

// Checkpoints

/// How long a checkpoint waits for writes in flight. A writer that stalls must not block all
/// others: the metadata service asks again.
pub(crate) const CHECKPOINT_WRITERS_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the files of a tree checkpoint are held, from the first call on: neither a dead service
/// nor a tree with one file whose writes do not end may block writers for longer.
pub(crate) const HELD_FILES_TIMEOUT: Duration = Duration::from_secs(10);
/// Write gates that may exist before unused ones are removed.
pub(crate) const IDLE_GATES_MAX: usize = 1024;
/// How often a checkpoint operation is tried on the servers before its caller is told to wait: a
/// writer may be in the way.
pub(crate) const CHECKPOINT_TRIES: u64 = 3;
/// Files whose checkpoints a server is asked about in parallel.
pub(crate) const CHECKPOINT_QUERY_FILES: usize = 256;

// Growth limits (quotas)

/// How long a growth limit holds unless it is renewed, in grace periods of the metadata service.
pub(crate) const GROWTH_LIMIT_GRACES: u32 = 3;
/// How long an admitted write may take until it shows in the length of its fork.
pub(crate) const GROWTH_PROMISE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the limit of a file that was just attached survives rounds that do not name it: they
/// may have begun before.
pub(crate) const GROWTH_ATTACH_GRACE: Duration = Duration::from_secs(1);
/// Interval of the rounds that limit growth.
pub(crate) const GROWTH_ROUND_INTERVAL: Duration = Duration::from_millis(500);
/// Delay of the round after quota is freed, so that many removals share one round.
pub(crate) const GROWTH_FREED_DELAY: Duration = Duration::from_millis(50);
/// How long a round waits for a server; the files of the others are limited without it.
pub(crate) const GROWTH_ROUND_TIMEOUT: Duration = Duration::from_secs(1);
/// The same before an attach is answered: a server that is merely busy must learn the limit, or
/// clients write more than the quota allows.
pub(crate) const GROWTH_ATTACH_TIMEOUT: Duration = Duration::from_secs(3);
/// A payer with fewer bytes left than this is limited as soon as a file is attached: what one
/// client can write in a round.
pub(crate) const GROWTH_ATTACH_MARGIN: u64 = 1 << 30;

// Scrub and check of a store

/// Bytes that a scrub reads in one step.
pub(crate) const SCRUB_STEP_BYTES: u64 = 1 << 20;
/// Default rate of a scrub, in bytes per second.
pub(crate) const SCRUB_RATE: u64 = 256 << 20;
/// A scrub that shares the disk with other calls rests this many times as long as its step took.
pub(crate) const SCRUB_YIELD_FACTOR: u32 = 4;
/// Wait after a step that failed as a whole.
pub(crate) const SCRUB_RETRY_BACKOFF: Duration = Duration::from_secs(1);
/// Interval at which the store records the progress of a scrub.
pub(crate) const SCRUB_NOTE_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of a finding's reason.
pub(crate) const SCRUB_REASON_MAX: usize = 200;
/// Forks, or checkpoints, in one page of a listing for `weft fsck`.
pub(crate) const FSCK_PAGE: usize = 2000;
/// Bytes of the index that one step of a store check reads.
pub(crate) const CHECK_INDEX_BYTES: u64 = 64 << 20;

// Metadata service

/// Delay of the sync after an operation was acknowledged to a lazy client: with the sync itself
/// less than the promised second.
pub(crate) const LAZY_SYNC_DELAY: Duration = Duration::from_millis(500);
/// Interval at which sessions of absent clients are checked against
/// [`Timing::grace`](weft_net::Timing::grace).
pub(crate) const SESSION_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Characters of a client's name that are kept.
pub(crate) const CLIENT_NAME_CHARS: usize = 200;
/// How often an append asks for the size: writers and truncates may come in between.
pub(crate) const APPEND_TRIES: usize = 16;
/// How often a call may find a file inline again. A file is moved to its cells once, so this is
/// reached only if a path names another inline file each time.
pub(crate) const SPILL_TRIES: usize = 16;
/// Inline files that are moved to their cells in parallel.
pub(crate) const SPILL_LANES: usize = 64;
/// How often an operation may meet delegated directories before it is refused.
pub(crate) const DELEGATION_TRIES: usize = 16;
/// How long an operation waits for the holder of a leased or delegated directory: longer than a
/// client whose watch is not answered relies on its lease.
pub(crate) const RECALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How often an operation that waits for a client looks whether that has left.
pub(crate) const ABSENT_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// A watch is answered after this time even if nothing changed: well within the timeouts of peers.
pub(crate) const WATCH_TIMEOUT: Duration = Duration::from_secs(2);
/// Delay from a change until watchers look, so that one answer carries several changes.
pub(crate) const WATCH_DELAY: Duration = Duration::from_millis(2);
/// What each waiting watcher adds to [`WATCH_DELAY`].
pub(crate) const WATCH_DELAY_PER_WATCHER: Duration = Duration::from_micros(100);
/// The longest such delay.
pub(crate) const WATCH_DELAY_MAX: Duration = Duration::from_millis(100);
/// Findings of a namespace check that are kept for `weft fsck`.
pub(crate) const CHECK_FINDINGS_MAX: usize = 100_000;
/// Inodes whose sizes are marked inexact in one transaction.
pub(crate) const INEXACT_BATCH_INODES: usize = 1000;
/// Files whose sizes are settled in parallel.
pub(crate) const SETTLE_BATCH_FILES: usize = 32;
/// Interval at which sizes are settled when nothing new was noted, or a server does not answer.
pub(crate) const SETTLE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a file's servers may take to report its size.
pub(crate) const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Inodes that the scan after a crash looks at in a row.
pub(crate) const SETTLE_SCAN_INODES: usize = 2048;
/// Pause of that scan, which keeps it to a fraction of a core.
pub(crate) const SETTLE_SCAN_PAUSE: Duration = Duration::from_millis(20);

// Intents

/// Files of all intents in the scheduler. Intents beyond this are read from the namespace once
/// earlier ones are done.
pub(crate) const SCHEDULED_FILES_MAX: usize = 1 << 20;
/// Running intents that need the same server.
pub(crate) const SERVER_INTENTS_MAX: usize = 128;
/// Deletes that a server gets in one request.
pub(crate) const DELETE_BATCH_FILES: usize = 1024;
/// Records that are read for such a batch, or for one page of intents.
pub(crate) const INTENT_PAGE_RECORDS: usize = 16 << 10;
/// Withdrawn intents whose callers may still ask for the reason.
pub(crate) const WITHDRAWN_MAX: usize = 1024;
/// How long a check waits until all pending intents have been tried.
pub(crate) const CHECK_INTENTS_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which that check looks.
pub(crate) const CHECK_INTENTS_POLL_INTERVAL: Duration = Duration::from_millis(10);

// Addressed chunks.

/// Chunks that one call names, at most: 512 KiB of names, and as much of old ones.
pub(crate) const NAMED_CHUNKS_MAX: u64 = 16_383;

/// Files of all clients that keep names of them.
pub(crate) const SHARES_MAX: usize = 1 << 16;
/// How long a change waits for a sharer. Longer than a client believes names after its last
/// question (`weft-client/src/limits.rs:NAMES_VALID`).
pub(crate) const CALLBACK_PATIENCE: Duration = Duration::from_secs(5);
/// How long clients believe names of a server that they cannot reach, and a little more.
pub(crate) const SHARERS_BELIEVE: Duration = Duration::from_millis(3500);
/// A client that waits for callbacks is answered after this time at the latest.
pub(crate) const CALLBACK_INTERVAL: Duration = Duration::from_secs(1);
/// Callbacks that a client has not handled; more become one for each file.
pub(crate) const CALLBACKS_QUEUED_MAX: usize = 1024;
/// Callbacks with names in one answer; the others are invalidations.
pub(crate) const CALLBACK_ANSWER_UPDATES: usize = 64;
/// Names in one callback: more are an invalidation. An answer with as many of them as it may have
/// is shorter than a message may be.
pub(crate) const CALLBACK_NAMES_MAX: u64 = 256;
/// Ranges of which one change tells; more are the whole file.
pub(crate) const CALLBACK_RANGES_MAX: usize = 64;

/// How often the cleaner looks whether a pass is due.
pub(crate) const CLEAN_TICK: Duration = Duration::from_secs(10);

/// The shortest time between two cleaning passes in the background.
pub(crate) const CLEAN_INTERVAL: Duration = Duration::from_mins(1);

/// The cleaner rests so many times as long as its last pass took.
pub(crate) const CLEAN_SHARE: u32 = 20;

/// With less than one of so many parts of the store available, the cleaner does not wait for its
/// interval.
pub(crate) const CLEAN_SPACE_SHARE: u64 = 10;

// Replicas

/// Interval between two messages of a primary that each backup answers.
pub(crate) const REPLICA_BEACON: Duration = Duration::from_millis(500);
/// How long a primary shows data without an answer of a backup that is in sync.
pub(crate) const REPLICA_LEASE: Duration = Duration::from_secs(3);
/// How long a backup waits for its primary before it asks for its place; longer than
/// [`REPLICA_LEASE`].
pub(crate) const REPLICA_SILENCE: Duration = Duration::from_secs(4);
/// How often a replica looks after the others.
pub(crate) const REPLICA_TICK: Duration = Duration::from_millis(100);
/// How long a replica may take for one change before it leaves the set.
pub(crate) const REPLICA_APPLY_MAX: Duration = Duration::from_secs(7);
/// How long a call waits for a change of the replicas in sync.
pub(crate) const REPLICA_WAIT: Duration = Duration::from_secs(10);
/// How long the metadata service may take for a change of the replicas in sync.
pub(crate) const REPLICA_CHANGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Wait before a replica that failed to catch up tries again.
pub(crate) const REPLICA_RETRY: Duration = Duration::from_secs(1);
/// The longest wait of one that fails again and again.
pub(crate) const REPLICA_RETRY_MAX: Duration = Duration::from_secs(10);
/// How long a replica that catches up may take for one answer.
pub(crate) const REPLICA_CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a primary may take to confirm what a backup has read.
pub(crate) const REPLICA_CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it waits for changes of the file before it does not confirm.
pub(crate) const REPLICA_CONFIRM_WAIT: Duration = Duration::from_millis(200);
/// Slices of a change's payload; beyond this they are copied together.
pub(crate) const REPLICA_SLICES_MAX: usize = 64;
/// Changes that began longer before the last contact with a replica are in its store.
pub(crate) const REPLICA_MARGIN: Duration = Duration::from_secs(15);
/// Files and parts of files whose last changes are noted, some 100 bytes each.
pub(crate) const RECENT_FILES_MAX: usize = 1 << 16;
pub(crate) const RECENT_PARTS_MAX: usize = 1 << 18;
/// Bytes of one read from another replica.
pub(crate) const REPLICA_READ_MAX: u64 = 512 << 10;
/// Forks in one page of a replica's files.
pub(crate) const REPLICA_LIST_FORKS: usize = 2048;
/// Bytes of a part, which is compared and sent as a whole.
pub(crate) const REPLICA_PART_BYTES: u64 = 1 << 20;
/// Parts of one pass over a replica that are on their way at once, and files that are compared.
pub(crate) const REPLICA_PARTS_IN_FLIGHT: usize = 8;
pub(crate) const REPLICA_FILES_IN_FLIGHT: usize = 16;
/// For how long after a call of a client a pass works behind the calls of clients.
pub(crate) const REPLICA_BUSY: Duration = Duration::from_millis(200);
/// Beside calls of clients, a pass rests so many times as long as a piece of its work took, at most
/// the second.
pub(crate) const REPLICA_REST_FACTOR: u32 = 2;
pub(crate) const REPLICA_REST_MAX: Duration = Duration::from_secs(1);
/// Parts that one call hashes.
pub(crate) const REPLICA_PARTS_MAX: usize = 32;
/// Incarnations of other replicas that a store remembers.
pub(crate) const INHERITED_MAX: usize = 128;
/// How long the metadata service waits for another replica in place of a lost primary.
pub(crate) const FAILOVER_MAX: Duration = Duration::from_secs(10);
/// How often it asks again.
pub(crate) const FAILOVER_INTERVAL: Duration = Duration::from_millis(100);

// Parity.

/// Bytes of a piece in one message.
pub(crate) const PIECE_READ_MAX: u64 = 512 << 10;

/// After this time a piece counts as missing, and another one is read.
pub(crate) const PIECE_TIMEOUT: Duration = Duration::from_secs(5);

/// Coded files whose rows are remembered; each takes some dozen bytes for a fork.
pub(crate) const CODED_FILES_KNOWN: usize = 256;

/// How often a server looks for files to code.
pub(crate) const CODING_INTERVAL: Duration = Duration::from_secs(5);

/// Rows that are coded at once.
pub(crate) const CODING_ROWS: usize = 4;

/// A file is coded when it has not been changed for so long, unless the configuration says
/// otherwise.
pub const CODE_AFTER: Duration = Duration::from_mins(1);

/// Coded bytes that are brought back at once; a larger read brings back run after run.
pub(crate) const CODED_RUN: u64 = 1 << 20;

/// Runs of coded bytes that a call brings back before it fails: those of a transfer of 1 GiB, in
/// pieces of a chunk.
pub(crate) const CODED_TRIES: u32 = 1 << 14;

/// As [`CODED_RUN`], on a backup, for parts of blocks that are written.
pub(crate) const CODED_RUN_OF_BACKUP: u64 = 64 << 10;

/// The longest time until a file that could not be coded is tried again.
pub(crate) const CODING_RETRY_MAX: Duration = Duration::from_mins(10);

/// Until a server is asked for the forks of a coded file again.
pub(crate) const FORKS_RETRY: Duration = Duration::from_millis(200);

/// After this time a backup drops coded blocks again: those that an earlier checkpoint kept until
/// it was merged.
pub(crate) const CODE_AGAIN: Duration = Duration::from_secs(10);
