//! The numbers of this crate: bounds, batch sizes, timeouts. Those that both peers must agree on
//! are in [`weft_proto::limits`]; those that an administrator may set are in
//! [`Bounds`](crate::Bounds) and [`Timing`](crate::Timing).

use std::time::Duration;

// Receiving.

/// Bytes of payload above which a frame is received into a buffer of its own instead of the shared
/// one. Also the largest head (header and body) that goes through the shared buffer.
pub(crate) const LARGE_PAYLOAD: usize = 16 << 10;
/// Bytes asked of the system at a time for headers, bodies and small payloads.
pub(crate) const READ_BATCH: usize = 16 << 10;

// Sending.

/// Bulk bytes that may wait in one connection's send queue.
pub(crate) const BULK_BYTES_MAX: usize = 2 << 20;
/// Frames of the connection itself (pings, credits, cancels) that may wait in its send queue. A
/// peer that lets more pile up does not read.
pub(crate) const CONTROL_FRAMES_MAX: usize = 4096;
/// Urgent bytes after which one bulk frame has its turn.
pub(crate) const URGENT_RUN: usize = 256 << 10;
/// Slices handed to the system in one call.
pub(crate) const WRITE_SLICES: usize = 256;
/// Bytes handed to the system in one call.
pub(crate) const WRITE_BYTES: usize = 512 << 10;
/// Calls in flight on one connection up to which each writes its own small frame. With more, frames
/// are gathered, which saves system calls.
pub(crate) const DIRECT_SENDERS: usize = 4;
/// Bytes that the kernel is asked to hold for each direction of a local socket; it may grant less.
/// Half of a large frame is copied in while the other half is copied out.
pub(crate) const LOCAL_SOCKET_BUFFER: usize = 1 << 20;
/// Idle time after which the kernel probes a TCP peer, whose machine may be gone.
pub(crate) const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

// Client calls.

/// Payload bytes of one reply that may be in flight before the caller takes them. With twice as
/// much, buffers no longer come from the processor's caches and a stream costs a third more CPU
/// (`examples/stream.rs`).
pub(crate) const REPLY_WINDOW: u32 = weft_proto::limits::REPLY_WINDOW_MIN;
/// Bytes of a call's own window that are worth a frame; below, waiting makes better frames.
pub(crate) const PIECE_MIN: u64 = 16 << 10;

// Server calls.

/// Bytes of a failure's message that are sent.
pub(crate) const FAILURE_MESSAGE_MAX: usize = 16 << 10;
/// Times that a brief call may wait before it gets a task of its own.
pub(crate) const BRIEF_WAITS_MAX: u8 = 8;
/// Brief calls that one task serves; more give other threads enough to do.
pub(crate) const BRIEF_CALLS_MAX: usize = 32;

// Admission.

/// Time that a connection has at least to send its hello: a few turns of a runtime on a busy
/// machine. With 128 slots, some 12,800 silent connections per second pass through.
pub(crate) const HELLO_TIMEOUT_MIN: Duration = Duration::from_millis(10);
/// Descriptors that a process reserves for everything but accepted connections: the store's files
/// and disks, the engine's tables, outgoing connections.
pub(crate) const RESERVED_DESCRIPTORS: u64 = 512;
/// Descriptors of one connection: a local socket has a second one for write readiness.
pub(crate) const CONNECTION_DESCRIPTORS: u64 = 2;
/// A connection is granted at most this fraction of the windows that are left: with many
/// connections, each gets a little less than the one before.
pub(crate) const WINDOW_FRACTION: u64 = 16;

// Buffer pool.

/// Bytes of the buffers that a pool hands out.
pub(crate) const BUFFER_SIZES: [usize; 4] = [64 << 10, 256 << 10, 512 << 10, 1 << 20];
/// Unused bytes that a pool keeps of each size.
pub(crate) const UNUSED_BYTES_MAX: usize = 16 << 20;
/// Interval at which unused buffers are freed: long enough that a load which pauses finds its
/// buffers again.
pub(crate) const TRIM_INTERVAL: Duration = Duration::from_secs(5);

// Idle states.

/// Requests within [`BURST_INTERVAL`] that begin a burst: at this rate, waking processors takes
/// some percent of their time.
pub(crate) const BURST_REQUESTS: u64 = 8;
/// See [`BURST_REQUESTS`].
pub(crate) const BURST_INTERVAL: Duration = Duration::from_millis(4);
/// A burst ends with an interval of this length in which fewer than [`QUIET_REQUESTS`] came. Each
/// end wakes all idle processors once.
pub(crate) const QUIET_INTERVAL: Duration = Duration::from_millis(5);
/// See [`QUIET_INTERVAL`].
pub(crate) const QUIET_REQUESTS: u64 = 4;
/// Microseconds: a state from which waking takes longer is not shallow.
pub(crate) const EXIT_LATENCY_MAX: i32 = 10;

// Log.

/// Lines of one kind in each [`LOG_INTERVAL`]: an administrator sees what goes on, and a flood
/// writes a few KiB a minute.
pub(crate) const LOG_LINES_MAX: u32 = 10;
/// See [`LOG_LINES_MAX`].
pub(crate) const LOG_INTERVAL: Duration = Duration::from_secs(10);

// Links.

/// A refusal within this time costs a caller nothing, so callers connect themselves.
pub(crate) const FAST_REFUSAL: Duration = Duration::from_millis(20);
/// Interval between connects of callers that are refused that fast.
pub(crate) const FAST_RETRY_INTERVAL: Duration = Duration::from_millis(2);
/// Longest interval between two connects of the task that looks for an unreachable peer.
pub(crate) const RECONNECT_INTERVAL_MAX: Duration = Duration::from_millis(250);
/// Time after the last caller's request at which that task stops.
pub(crate) const RECONNECT_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Tries to connect to a peer that has no slot for another connection.
pub(crate) const BUSY_TRIES: u32 = 10;
/// Longest backoff between two of these tries: some two seconds in all.
pub(crate) const BUSY_BACKOFF_MAX: Duration = Duration::from_millis(250);
