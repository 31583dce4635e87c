//! Counts of a directory's entries.

/// What a directory's inode must agree with.
#[derive(Clone, Copy, Default)]
pub(super) struct EntryCounts {
    /// All entries.
    pub(super) entries: u64,
    /// Those of directories.
    pub(super) directories: u32,
}
