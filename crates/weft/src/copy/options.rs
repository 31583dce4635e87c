//! The request for a copy: its options and paths.

use super::part::TransferPart;

use crate::limits::SMALL_FILES_PER_STREAM;

/// The options of a copy.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
pub(crate) struct Options {
    /// Copy directories.
    pub(crate) recursive: bool,
    /// Copy owners, and layouts within a volume.
    pub(crate) preserve: bool,
    /// Skip existing files.
    pub(crate) no_clobber: bool,
    /// Report existing files as failures instead of replacing them.
    pub(crate) refuse: bool,
    /// Skip files whose copy has the size and time of modification of the source; replace others.
    pub(crate) resume: bool,
    /// Read every file again on both sides and compare.
    pub(crate) verify: bool,
    /// The share of the files to copy; every part makes all directories.
    pub(crate) part: TransferPart,
    /// Files that move data at a time.
    pub(crate) streams: usize,
    /// End with a sync.
    pub(crate) sync: bool,
    /// How the user can continue after an interruption.
    pub(crate) go_on: &'static str,
}

/// A path, local or in the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreePath {
    /// The path's bytes.
    pub(crate) path: Vec<u8>,
    /// Written `weft:/…`.
    pub(crate) weft: bool,
}

impl Options {
    /// Small files in flight at a time.
    pub(super) fn small_files(&self) -> usize {
        self.streams * SMALL_FILES_PER_STREAM
    }
}
