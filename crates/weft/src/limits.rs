//! The numbers that matter, in one place: timeouts, intervals, bounds and batch sizes of the
//! commands.
//!
//! Each has its unit and its reason. What the commands share with the libraries (`TRANSFER_MAX`,
//! `PATH_MAX`, layouts) stays with those; what only shapes the output stays where it is printed.

use std::time::Duration;

use weft_proto::limits::PATH_MAX;

// Terminal: what a user waits for, and how much is printed.

/// An orderly end that takes longer than this is announced on standard error.
pub(crate) const SHUTDOWN_NOTICE_DELAY: Duration = Duration::from_secs(1);
/// Progress shows no time left before this much time has passed: the rate is not meaningful yet.
pub(crate) const RATE_SETTLE_TIME: Duration = Duration::from_secs(1);
/// Failures of one kind that are printed; further ones are only counted.
pub(crate) const PROBLEMS_NAMED_MAX: u64 = 10;
/// Checkpoints that keep a directory from being removed: printed by name up to this many.
pub(crate) const CHECKPOINTS_NAMED_MAX: usize = 10;
/// Processes that keep a mount busy: printed by name up to this many.
pub(crate) const MOUNT_USERS_NAMED_MAX: usize = 5;
/// Files that a search for duplicates skipped: reported by name up to this many.
pub(crate) const SKIPPED_NAMED_MAX: usize = 100;
/// Files of findings whose names `weft fsck` looks up: a thousand names cost one request.
pub(crate) const FSCK_NAMED_MAX: usize = 10_000;

// Paths and arguments.

/// The longest path that every call takes, local or in the volume: a prefix of up to 64 bytes fits
/// before it.
pub(crate) const CALL_PATH_MAX: usize = PATH_MAX - 64;
/// Symbolic links that are followed at the end of one path: as many as the kernel follows.
pub(crate) const LINKS_MAX: usize = 40;
/// The deepest nesting of a pattern that is parsed. The library's own bound is lower.
pub(crate) const PATTERN_DEPTH_MAX: usize = 32;
/// Pieces of one server that `weft explain` counts before it refuses: about a second of arithmetic.
pub(crate) const EXPLAINED_PIECES_MAX: u64 = 1 << 24;

/// Bytes of a file whose chunks `weft explain --from` looks up: they are held in memory.
pub(crate) const EXPLAINED_BYTES_MAX: u64 = 4 << 30;
/// The longest time that the kernel may cache attributes and names of a mount.
pub(crate) const KERNEL_CACHE_MAX: Duration = Duration::from_hours(1);
/// I/O servers of a new volume, unless `weft up --servers` says otherwise.
pub(crate) const SERVERS_DEFAULT: u32 = 4;

// The process: its log, its threads, its memory.

/// A log is rotated at this size. With [`LOGS_KEPT`] that is 80 MiB for each process.
pub(crate) const LOG_BYTES_MAX: u64 = 16 << 20;
/// Rotated logs that are kept beside the current one.
pub(crate) const LOGS_KEPT: u32 = 4;
/// After a failed rotation, the next is tried once this many bytes were written.
pub(crate) const LOG_ROTATION_RETRY_BYTES: u64 = 1 << 20;
/// Threads for blocking work that start with a lasting runtime and stay.
pub(crate) const BLOCKING_THREADS_KEPT: usize = 2;
/// Threads for blocking work of a lasting runtime, at most.
pub(crate) const BLOCKING_THREADS_MAX: usize = 64;
/// An idle thread of a lasting runtime ends after this time: longer than any process runs.
pub(crate) const THREAD_KEEP_ALIVE: Duration = Duration::from_hours(24 * 365 * 10);
/// The threads of a lasting runtime must have started within this time.
pub(crate) const THREADS_START_TIMEOUT: Duration = Duration::from_secs(10);
/// The cache of a server's data takes one part in so many of a node's memory. With the two below,
/// half of it is left for calls in progress and the allocator.
pub(crate) const CACHE_DIVISOR: u64 = 4;
/// The blocks and memtables of a key-value engine take one part in so many.
pub(crate) const ENGINE_DIVISOR: u64 = 16;
/// Payloads that peers have begun to send take one part in so many.
pub(crate) const WINDOWS_DIVISOR: u64 = 8;
/// The least and the most of a node's data cache, in bytes.
pub(crate) const CACHE_RANGE: (u64, u64) = (8 << 20, 1 << 30);
/// The least and the most of an engine's blocks and memtables, in bytes.
pub(crate) const ENGINE_RANGE: (u64, u64) = (4 << 20, 64 << 20);
/// The least and the most of payloads on their way to a node, in bytes.
pub(crate) const WINDOWS_RANGE: (u64, u64) = (8 << 20, 128 << 20);
/// The least memory of a worker of an application by default, in bytes.
pub(crate) const WORKER_MEMORY_MIN: u64 = 64 << 20;
/// The most memory of a worker of an application by default, in bytes.
pub(crate) const WORKER_MEMORY_MAX: u64 = 1 << 30;

// Nodes on this machine: locks, starts and stops.

/// A node waits this long for the end of its previous process, which may still flush its disks.
pub(crate) const PREVIOUS_PROCESS_TIMEOUT: Duration = Duration::from_secs(30);
/// Attempts to take a node's lock: a process that only inspects the lock holds it for an instant.
pub(crate) const LOCK_ATTEMPTS: u32 = 20;
/// Pause between attempts to take or to read a node's lock.
pub(crate) const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// How often the end of a process is looked for where the kernel has no handles of processes.
pub(crate) const PROCESS_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// A command that starts or stops single nodes waits this long for another one to end, and for a
/// node to stop.
pub(crate) const START_LOCK_TIMEOUT: Duration = Duration::from_mins(1);
/// How often the lock of the command that starts or stops a volume is tried.
pub(crate) const START_LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A node that has taken its lock writes its process number into it within this time.
pub(crate) const LOCK_OWNER_TIMEOUT: Duration = Duration::from_secs(2);
/// How often `weft down` reads a lock whose owner is not known yet.
pub(crate) const LOCK_OWNER_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// After one node failed to start, the others have this time to report a failure, too.
pub(crate) const OTHER_NODES_TIMEOUT: Duration = Duration::from_secs(2);
/// How often `weft up` looks whether the nodes serve and the servers are registered: a start takes
/// some tens of milliseconds.
pub(crate) const START_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The kernel counts files that were closed a moment ago; an unmount is retried for this time.
pub(crate) const UNMOUNT_BUSY_TIMEOUT: Duration = Duration::from_millis(500);
/// Pause between attempts to unmount.
pub(crate) const UNMOUNT_RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// What the kernel reads ahead of a program that reads a file from its start, in KiB: enough to
/// keep several servers busy.
pub(crate) const KERNEL_READ_AHEAD_KIB: u32 = 4096;

// Requests to servers.

/// An ending command waits this long until the service knows that its files are closed.
pub(crate) const CLOSE_REPORT_TIMEOUT: Duration = Duration::from_secs(1);
/// `weft status` waits this long for the answer of a server.
pub(crate) const STATUS_TIMEOUT: Duration = Duration::from_secs(3);
/// A server learns with its next heartbeat that it is accepted; this is several heartbeats.
pub(crate) const ACCEPT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the server map is read until an accepted or started server is up.
pub(crate) const SERVER_MAP_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How often the server map is read until a replica has left: the primary reports each second.
pub(crate) const LEAVE_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How often a spare node looks whether a replica is away.
pub(crate) const SPARE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How often a node looks at the server map for what it can do: the shortest and longest of the
/// intervals.
pub(crate) const REBUILD_POLL_INTERVALS: (Duration, Duration) =
    (Duration::from_millis(250), Duration::from_secs(5));
/// How long a node leaves a place alone that it could not take.
pub(crate) const REBUILD_REST: Duration = Duration::from_mins(5);
/// How long the machines wait for one another before they take a place: the shortest of the steps,
/// the longest after a drain and that after a loss. Each is longer than the interval between two
/// looks.
pub(crate) const REBUILD_STEPS: (Duration, Duration, Duration) = (
    Duration::from_secs(3),
    Duration::from_secs(10),
    Duration::from_mins(1),
);
/// Ports of a node that joins from another machine.
pub(crate) const JOIN_PORTS: std::ops::Range<u16> = 4700..4800;
/// How often servers are asked for the progress of a scrub.
pub(crate) const SCRUB_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// A scrub that reports trouble and makes no progress is not waited for any longer than this.
pub(crate) const SCRUB_STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Clients of a restarted metadata service report their open files within this time: longer than a
/// client takes to reconnect.
pub(crate) const OPEN_FILES_TIMEOUT: Duration = Duration::from_mins(1);
/// How often `weft fsck` asks whether all clients have reported.
pub(crate) const OPEN_FILES_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The servers of an offline check must have registered within this time.
pub(crate) const OFFLINE_START_TIMEOUT: Duration = Duration::from_secs(30);
/// Requests in flight of a walk over a tree: enough for the metadata service to commit them in
/// groups.
pub(crate) const WALK_REQUESTS_MAX: usize = 64;

// Groups of `weft create`.

/// Pause between attempts to reach a member that has not come yet.
pub(crate) const MEETING_RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// A connected member must identify itself within this time: the others wait meanwhile.
pub(crate) const HELLO_TIMEOUT: Duration = Duration::from_secs(1);
/// Members wait for member 0 this much longer than member 0 waits for them.
pub(crate) const FIRST_MEMBER_GRACE: Duration = Duration::from_secs(5);
/// Bytes of one message between members, at most: an attachment is a few KiB.
pub(crate) const MEETING_MESSAGE_MAX: u32 = 64 << 20;

// Streams, copies and transfers.

/// Bytes of one request of a stream (`weft cat`, `weft put`).
pub(crate) const STREAM_REQUEST_BYTES: usize = 4 << 20;
/// Requests in flight of one stream.
pub(crate) const STREAM_REQUESTS_MAX: usize = 6;
/// `weft put` waits for up to this many bytes of input before it touches the file.
pub(crate) const FIRST_INPUT_BYTES: u64 = 64 << 10;
/// Bytes of a piece of a copy; pieces end at multiples of it.
pub(crate) const COPY_PIECE_BYTES: usize = 4 << 20;
/// Pieces of one file in flight of a copy.
pub(crate) const COPY_PIECES_MAX: usize = 8;
/// Files up to this size are one piece in a small buffer.
pub(crate) const SMALL_FILE_BYTES: usize = 256 << 10;
/// Small files in flight for each stream of a copy: they wait for answers, not for bytes.
pub(crate) const SMALL_FILES_PER_STREAM: usize = 8;
/// Bytes that the servers are asked to move among themselves by one request.
pub(crate) const SERVER_COPY_BYTES: u64 = 64 << 20;
/// Such requests in flight of one file.
pub(crate) const SERVER_COPIES_MAX: usize = 2;
/// A copy stops after this many failures for lack of a server.
pub(crate) const LOST_SERVER_FAILURES_MAX: u64 = 32;
/// A copy stops after this many failures for lack of space: a smaller file may still fit after the
/// first.
pub(crate) const NO_SPACE_FAILURES_MAX: u64 = 10;
/// Entries of a local directory that are read at a time.
pub(crate) const LOCAL_PAGE_ENTRIES: usize = 1000;
/// Shorter holes of a local file are read and copied like data: seeking costs more.
pub(crate) const LOCAL_HOLE_MIN: u64 = 64 << 10;
/// Shorter holes of a file in the volume are read like data: a separate request for the data behind
/// them costs more.
pub(crate) const REMOTE_HOLE_MIN: u64 = 256 << 10;
/// Zeros from this length on are left out of writes to a volume: a request costs about as much as
/// this many bytes.
pub(crate) const REMOTE_ZEROS_MIN: usize = 64 << 10;
/// From this size on, a file in the volume is asked where its data is; reading the zeros of a
/// smaller one costs as much.
pub(crate) const DATA_RANGES_FILE_MIN: u64 = 64 << 20;
/// Parts that one transfer can have: each leaves a record of its progress at the target.
pub(crate) const TRANSFER_PARTS_MAX: u32 = 512;
/// Bytes of a piece of a transfer. Fixed: it decides which bytes are a part's, for every process.
pub(crate) const TRANSFER_PIECE_BYTES: u64 = 4 << 20;
/// Pieces of one file in flight where several files are transferred at a time.
pub(crate) const TREE_TRANSFER_PIECES: u16 = 2;
/// Bytes of a hole that one call clears.
pub(crate) const CLEAR_BYTES_MAX: u64 = 1 << 30;

// Applications.

/// Requests that a worker of a sort keeps in flight.
pub(crate) const SORT_REQUESTS_MAX: usize = 3;
/// Bytes of a block of rows of a sort, at most, and of a piece of a cell.
pub(crate) const SORT_REQUEST_BYTES: u64 = 8 << 20;
/// Workers of a sort, at most.
pub(crate) const SORT_WORKERS_MAX: u32 = 1024;
/// The largest record of a sort, in bytes: what one request carries in one piece.
pub(crate) const RECORD_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a fork that a sort carries over to its result by one request.
pub(crate) const FORK_COPY_BYTES: u64 = 4 << 20;
/// Bytes of records that a search for duplicates counts at a time; a multiple of a record.
pub(crate) const COUNT_PIECE_BYTES: u64 = 4 << 20;
/// Requests in flight while it counts.
pub(crate) const COUNT_REQUESTS_MAX: usize = 3;
/// Bytes of records that a worker of the search writes by one request, at most.
pub(crate) const SCAN_WRITE_BYTES: usize = 1 << 20;
/// Bytes of a local file that a worker of the search reads at once, at most.
pub(crate) const SCAN_READ_BYTES: u64 = 1 << 20;
/// Requests in flight of a worker of the search.
pub(crate) const SCAN_REQUESTS_MAX: usize = 3;
/// Occurrences of a group of duplicates that are kept to be shown.
pub(crate) const OCCURRENCES_SHOWN: usize = 5;

/// Replicas of a server.
pub(crate) const REPLICAS_MAX: u32 = 4;
