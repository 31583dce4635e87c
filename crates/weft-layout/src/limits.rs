//! Bounds, defaults and batch sizes.

// Layouts.

/// The largest number of cells of a file.
pub const CELLS_MAX: u32 = 65_536;

/// The largest BSU, in bytes: 1 TiB.
pub const BSU_MAX: u64 = 1 << 40;

/// The smallest chunk, in bytes: a disk's block.
pub const CHUNK_MIN: u32 = 4096;

/// The largest chunk, in bytes: 16 MiB.
pub const CHUNK_MAX: u32 = 16 << 20;

/// The largest number of servers that one file lives on.
pub const SERVERS_MAX: usize = 4096;

/// The chunk of a file whose creator did not choose, in bytes.
pub const CHUNK_DEFAULT: u32 = 256 << 10;

/// The BSU of a file whose creator did not choose, in bytes.
pub const BSU_DEFAULT: u64 = 256 << 10;

// Patterns and requests.

/// The deepest that sequences and repetitions may be nested.
pub const DEPTH_MAX: usize = 16;

/// The most nodes (leaves, repetitions, members of sequences) of one pattern, lists not counted.
pub const NODES_MAX: usize = 4096;

/// The most dimensions of an array: with a block and a stride in each its pattern reaches
/// [`DEPTH_MAX`].
pub const DIMENSIONS_MAX: usize = 7;

/// Runs that are compared one by one to see whether a request touches a byte twice: 64 MiB of
/// memory for as long as the comparison takes.
pub(crate) const RUNS_COMPARED_MAX: u64 = 4 << 20;

// Pieces.

/// Runs of a request that are examined together when the next piece is looked for a little at a
/// time.
pub(crate) const RUNS_PER_LOOK: u32 = 64;

/// Runs below which a strip does not pay for the progression of its hits: making one runs Euclid's
/// algorithm three times.
pub(crate) const PROGRESSION_RUNS_MIN: u64 = 16;

/// Local pieces that are passed before the finder starts afresh: about the cost of that.
pub(crate) const PIECES_PASSED_MAX: usize = 4;

/// Groups that may miss, for each local cell of a period, before the next hit is computed: about
/// the cost of computing it.
pub(crate) const GROUP_MISSES_MAX: u64 = 8;

// Copies of many small pieces.

/// Pieces at least this many bytes apart lie on different pages of memory.
pub(crate) const FAR_APART: isize = 2048;

/// Pieces of a window that is copied at a time: half as many pages as a core's first translation
/// buffer holds, because their cache lines crowd each other.
pub(crate) const COPY_WINDOW: usize = 32;

// Rounds of a collective.

/// Weight at which a round is complete, in bytes.
pub(crate) const ROUND_WEIGHT_TARGET: u64 = 4 << 20;

/// The largest weight of a round; in bytes, if the round is a segment of one band.
pub(crate) const ROUND_WEIGHT_MAX: u64 = 16 << 20;

/// The most pieces of a round.
pub(crate) const ROUND_PIECES_MAX: usize = 256 << 10;

/// What a piece without neighbours weighs beside its bytes: the rest of the blocks at its ends is
/// read with it.
pub(crate) const LONE_PIECE_WEIGHT: u64 = 8 << 10;

/// Bands are not made narrower than this, in bytes.
pub(crate) const BAND_WIDTH_MIN: u64 = 4 << 10;

// Comparison of the members of a collective.

/// The most pieces that are compared with one another at a time: some 10 MiB of memory.
pub(crate) const COMPARED_PIECES_MAX: usize = 256 << 10;

/// The most passes over pieces that do not come in the order of bands.
pub(crate) const COMPARISON_PASSES_MAX: usize = 64;

/// Pieces, and runs of other servers between them, that one step of a comparison examines: some
/// milliseconds at most.
pub(crate) const COMPARISON_STEP: u32 = 32 << 10;
