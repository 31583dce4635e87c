//! The crate's timeouts, bounds and batch sizes.

use std::time::Duration;

use weft_proto::limits::ATTACH_AHEAD_MAX;

// Outages: calls to a service that does not answer.

/// The pause before the first repetition of a failed call; it doubles from there.
pub(crate) const RETRY_BACKOFF_MIN: Duration = Duration::from_millis(5);
/// The longest pause between two tries of a call.
pub(crate) const RETRY_BACKOFF_MAX: Duration = Duration::from_millis(250);
/// How often the mount looks whether the connection to an unreachable peer was opened again.
pub(crate) const RECONNECT_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The time until `weft_net::Timing` notices a silent connection, counted by pings. An outage is
/// taken to have begun at most this long before the call that found it.
pub(crate) const SILENCE_DETECTION: Duration = Duration::from_secs(7);

// The order of the kernel's requests.

/// How long a page read waits for a request that is missing among the earlier ones.
pub(crate) const MISSING_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// Requests that may be missing before page reads wait for none any more. A program that is killed
/// while its request is queued makes one; a kernel that numbers otherwise makes many.
pub(crate) const MISSING_REQUESTS_MAX: u32 = 16;
/// Requests in order after which one fewer counts as missing.
pub(crate) const REQUESTS_PER_MISSING: u32 = 256;
/// Requests registered behind a missing one. No mount has as many threads.
pub(crate) const REQUESTS_AHEAD_MAX: usize = 4096;

// The data cache: dirty bytes.

/// Batches of one file in flight.
pub(crate) const BATCHES_IN_FLIGHT_MAX: usize = 16;
/// Runs in one batch.
pub(crate) const RUNS_PER_BATCH_MAX: usize = 1024;
/// Bytes up to which the thread that waits for a flush sends a batch itself, without waking
/// another.
pub(crate) const INLINE_SEND_MAX: u64 = 64 << 10;
/// The age limit of dirty bytes is checked this many times within it.
pub(crate) const TICKS_PER_FLUSH: u32 = 4;
/// Bytes of a block: a block that is dirty as a whole is sent at once, as one request.
pub(crate) const BLOCK: u64 = 1 << 20;
/// Bytes: shorter writes are copied together into growing buffers.
pub(crate) const COPIED_WRITE_MAX: usize = 64 << 10;
/// Bytes charged to the dirty budget for each dirty segment beside its data: map entry and header.
pub(crate) const SEGMENT_OVERHEAD: usize = 128;
/// Files whose last change here is remembered after their last close.
pub(crate) const CLOSED_CHANGES_MAX: usize = 4096;

// The data cache: sizes and reads.

/// How long a size that the servers reported counts as known.
pub(crate) const SIZE_VALID: Duration = Duration::from_secs(1);
/// How often a read looks for bytes that others write or cut off at the same time.
pub(crate) const READ_TRIES_MAX: usize = 5;
/// Size queries in a row while dirty bytes are being lost.
pub(crate) const SIZE_QUERIES_MAX: u32 = 4;
/// Full read-ahead windows that a mount holds in memory.
pub(crate) const READ_AHEAD_WINDOWS: usize = 8;
/// Bytes of one read-ahead request; requests end at multiples of it.
pub(crate) const READ_AHEAD_PIECE: u64 = 1 << 20;
/// Bytes of a file that its first read fetches whole.
pub(crate) const WHOLE_FILE_MAX: u64 = 256 << 10;
/// Streams followed per open; beyond them the least recently used one is dropped.
pub(crate) const STREAMS_PER_OPEN: usize = 8;
/// Bytes between two reads of a stream that skips.
pub(crate) const STRIDE_GAP_MAX: u64 = 64 << 10;
/// Gaps of the same size that establish such a stream.
pub(crate) const STRIDES_ESTABLISHED: u32 = 3;
/// Reads of a stream that may arrive out of order.
pub(crate) const EARLY_READS_MAX: usize = 32;

// The file system: what is cached, and for how long.

/// How long the kernel may cache what the watch would invalidate.
pub(crate) const WATCHED_VALID: Duration = Duration::from_mins(1);
/// How long the kernel may cache what nothing would invalidate.
pub(crate) const UNWATCHED_VALID: Duration = Duration::from_secs(1);
/// How long the kernel may keep a file end that a short read reported: it hands it to the reader
/// first.
pub(crate) const SHORT_READ_SIZE_VALID: Duration = Duration::from_millis(10);
/// Changes in one generation of the change log.
pub(crate) const CHANGES_PER_GENERATION: usize = 32_768;
/// Names of complete directories; beyond them all are dropped.
pub(crate) const COMPLETE_NAMES_MAX: usize = 1 << 20;
/// Directories above a changed one whose trees are looked through for those that change next.
pub(crate) const NEIGHBOUR_LEVELS_MAX: usize = 4;
/// Names of a directory among which its complete directories are looked for.
pub(crate) const NEIGHBOURS_SCAN_MAX: usize = 1024;
/// Locks of the node table.
pub(crate) const NODE_SHARDS: usize = 16;
/// Directories on the path of a file in a message. Names learned at different times may even form a
/// cycle.
pub(crate) const PATH_DEPTH_MAX: usize = 256;
/// How long a thread's supplementary groups are cached. A program that drops groups mostly changes
/// its user too, and is then another caller.
pub(crate) const CREDENTIALS_VALID: Duration = Duration::from_millis(200);
/// Callers whose credentials are cached.
pub(crate) const CALLERS_MAX: usize = 1024;
/// How long an answer about free space is reused: programs ask in bursts.
pub(crate) const SPACE_VALID: Duration = Duration::from_millis(500);
/// How long a holder of notifications may delay the acknowledgement of changes: the kernel may wait
/// for a page that is being read.
pub(crate) const INVALIDATION_TIMEOUT: Duration = Duration::from_secs(1);
/// How long unsent bytes of a file that another client opens may delay the acknowledgement. The
/// service waits 5 s for it.
pub(crate) const UNSENT_TIMEOUT: Duration = Duration::from_secs(4);

/// Small files that stay attached after they were closed.
pub(crate) const KEPT_FILES_MAX: usize = 1 << 14;
/// Bytes of them all.
pub(crate) const KEPT_BYTES_MAX: usize = 64 << 20;
/// Small files that are attached ahead of a program that opens one after the other.
pub(crate) const AHEAD_FILES_MAX: u32 = ATTACH_AHEAD_MAX;
/// Between two opens in a directory of which the second is one of a series.
pub(crate) const AHEAD_OPENS_WINDOW: Duration = Duration::from_millis(500);
/// Directories in which opens are counted.
pub(crate) const OPENED_DIRECTORIES_MAX: usize = 1024;

// The file system: operations.

/// Names of all listings of complete directories that are kept.
pub(crate) const KEPT_LISTED_MAX: usize = 1 << 15;
/// Pages of a listing that an open directory keeps whole.
pub(crate) const LISTING_PAGES_MAX: usize = 16;
/// Names of closed directories whose cookies are remembered, 16 bytes each.
pub(crate) const CLOSED_COOKIES_MAX: usize = 1 << 20;
/// Removed names whose position one segment of a listing remembers; a reader behind an older one
/// restarts at the beginning.
pub(crate) const REMOVED_NAMES_MAX: usize = 4096;
/// How long the kernel may take to report the close of an open, before a lock that the open holds
/// counts as a conflict.
pub(crate) const LOCK_CLOSE_GRACE: Duration = Duration::from_millis(100);
/// How often a waiting lock request looks whether such opens have closed.
pub(crate) const LOCK_CLOSE_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// How long a closed file may still count as open before a new layout is refused: the kernel
/// reports closes late.
pub(crate) const LAYOUT_CLOSE_GRACE: Duration = Duration::from_secs(1);
/// How often a change of layout is tried again within [`LAYOUT_CLOSE_GRACE`].
pub(crate) const LAYOUT_RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes up to which a copy reads and writes: the servers' sizes, holes and a copy for each range
/// are four messages to each server, one after the other.
pub(crate) const COPIED_HERE_MAX: u64 = 256 << 10;
/// Bytes that a copy by reading and writing moves at a time.
pub(crate) const COPY_STEP: usize = 4 << 20;
/// Bytes that one copy request moves before it reports progress; the kernel asks for the rest.
pub(crate) const COPY_MAX: u64 = 256 << 20;

// The kernel's interface.

/// Idle request buffers that are kept.
pub(crate) const IDLE_BUFFERS_MAX: usize = 32;
/// Bytes: the data of a shorter write, or of one that fills less than half of its buffer, is
/// copied, so that a write holds at most twice its size.
pub(crate) const ZERO_COPY_WRITE_MIN: usize = 512 << 10;
/// Entries of the submission queue of a ring.
pub(crate) const RING_ENTRIES: u32 = 64;
/// The pause after the kernel has refused a ring's call.
pub(crate) const RING_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Requests that a ring's queue can hand over at first. Each costs the bytes of the largest request
/// once such a request has come.
pub(crate) const RING_SLOTS: usize = 16;
/// Requests that may wait in the mount for each queue; more wait in the kernel.
pub(crate) const RING_SLOTS_MAX: usize = 4096;
/// Pages of the largest request that buffers are sized for; the kernel's limit is mostly lower.
pub(crate) const REQUEST_PAGES_MAX: u32 = 1024;
/// Background requests (read-ahead, releases) that the kernel may have in flight.
pub(crate) const BACKGROUND_REQUESTS_MAX: u16 = 256;
/// Buffers in one reply; `writev` takes 1,024, the header among them.
pub(crate) const REPLY_BUFFERS_MAX: usize = 1000;
/// Interrupts of unknown requests that are kept.
pub(crate) const EARLY_INTERRUPTS_MAX: usize = 256;
/// How often an interrupted request looks whether its program was killed.
pub(crate) const KILL_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a request of a killed program may run on.
pub(crate) const KILLED_GRACE: Duration = Duration::from_millis(400);
/// How long an interrupted request may run whose program cannot be inspected: longer than calls
/// wait for a service that does not answer.
pub(crate) const UNKNOWN_PROGRAM_TIMEOUT: Duration = Duration::from_secs(20);
/// Name invalidations in the queue; beyond them the kernel drops all names, where it can.
pub(crate) const QUEUED_NAMES_MAX: usize = 4096;
/// Invalidations of files that the kernel does not know yet, which are sent again.
pub(crate) const RETRIED_NOTIFICATIONS_MAX: usize = 4096;
/// How often such an invalidation is sent again: the reply that tells the kernel of the file may be
/// on its way.
pub(crate) const NOTIFICATION_RETRIES: u32 = 5;
/// The interval between two of those.
pub(crate) const NOTIFICATION_RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// How long a notification waits for the replies of earlier requests about its file. A slower reply
/// waits for an unreachable service; other readers still need the notification.
pub(crate) const NOTIFICATION_DELAY_MAX: Duration = Duration::from_millis(20);
/// How long the kernel takes to use the attributes of a reply, or to ask for them after an open.
pub(crate) const ATTRIBUTES_TAKEN: Duration = Duration::from_millis(1);
/// How long a mount may take to answer a probe. The probe asks nothing that needs a service.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
