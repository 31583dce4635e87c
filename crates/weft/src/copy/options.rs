//! What a copy is asked to do: its options, and its two sides.

use super::part::Part;

/// Small files under way for each stream: they wait for answers, not for bytes.
const FILES_PER_STREAM: usize = 8;

/// What the user wants.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
pub(crate) struct Options {
    /// Directories, too.
    pub(crate) recursive: bool,
    /// Owners, and layouts within a volume, too.
    pub(crate) preserve: bool,
    /// Leave existing files alone.
    pub(crate) no_clobber: bool,
    /// Refuse to replace a file that is there.
    pub(crate) refuse: bool,
    /// Leave files alone whose copy has the size and the time of modification of its source;
    /// replace others.
    pub(crate) resume: bool,
    /// Read every file again on both sides, and compare.
    pub(crate) verify: bool,
    /// The share of the files to copy; every part makes all directories.
    pub(crate) part: Part,
    /// Files that move data at a time.
    pub(crate) streams: usize,
    /// End with a sync.
    pub(crate) sync: bool,
    /// How the user can go on after an interruption.
    pub(crate) go_on: &'static str,
}

/// A side of a copy: a path, and whether it is in the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    /// The path's bytes.
    pub(crate) path: Vec<u8>,
    /// Written `weft:/…`.
    pub(crate) weft: bool,
}

impl Options {
    /// Small files under way at a time.
    pub(super) fn small_files(&self) -> usize {
        self.streams * FILES_PER_STREAM
    }
}
