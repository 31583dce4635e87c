//! Numbers that matter to more than one room: bytes and counts, each with its reason.

/// Whole blocks of a write go the direct way from this many bytes on. Below, the log's copy and
/// the later flush in full runs are cheaper than an operation of the disk's own.
pub(crate) const DIRECT_MIN: u64 = 32 << 10;

/// Most blocks of one read or write operation: 1 MiB.
pub(crate) const OPERATION_BLOCKS: u32 = 256;

/// Slots dirty as a whole that are worth a flush of their own: 4 MiB.
pub(crate) const FULL_SLOTS: u64 = 64;

/// How many locks keep calls about one chunk apart.
pub(crate) const LANES: usize = 64;
