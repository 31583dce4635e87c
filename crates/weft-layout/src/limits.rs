//! Bounds and defaults of layouts.

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
