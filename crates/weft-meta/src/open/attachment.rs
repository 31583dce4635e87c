//! One attachment: its mode, and what a detach or an append may rely on.

/// The mode of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// Reading only.
    Read,
    /// Writing.
    Write,
}

impl OpenMode {
    /// The mode of a request that says whether its client writes.
    pub(crate) fn of(write: bool) -> OpenMode {
        if write {
            OpenMode::Write
        } else {
            OpenMode::Read
        }
    }
}

/// What the service knew of a file's size when a writer attached. It counts only for the first
/// writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizeBefore {
    /// The stored size was exact.
    Exact,
    /// Only the servers know the size.
    Inexact,
}

impl SizeBefore {
    /// The size of an inode that says whether it is exact.
    pub(crate) fn of(size_exact: bool) -> SizeBefore {
        if size_exact {
            SizeBefore::Exact
        } else {
            SizeBefore::Inexact
        }
    }
}

/// The client that replaces the bytes of an inline file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// The file's writer.
    Writer,
    /// Another client.
    Other,
}

/// The state of a file when an attachment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts, each read through a method"
)]
pub(crate) struct Ended {
    pub(super) last_writer: bool,
    pub(super) last: bool,
    pub(super) unchanged: bool,
    pub(super) alone: bool,
    pub(super) turn: u64,
}

impl Ended {
    /// Whether the last writer detaches.
    pub(crate) fn is_last_writer(&self) -> bool {
        self.last_writer
    }

    /// Whether this is the last attachment.
    pub(crate) fn is_last(&self) -> bool {
        self.last
    }

    /// Whether the writers changed nothing, and the size was exact before them.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.unchanged
    }

    /// Whether there was one writer, and the size was exact before it: the end of its writes
    /// determines the size.
    pub(crate) fn was_alone(&self) -> bool {
        self.alone
    }

    /// A number that changes when another writer attaches, and with a truncate.
    pub(crate) fn turn(&self) -> u64 {
        self.turn
    }
}

/// What an append by a writer may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appender {
    pub(super) end_known: bool,
    pub(super) size_counts: bool,
    pub(super) turn: u64,
}

impl Appender {
    /// Whether only reserved ranges and bytes of this client can lie beyond the previous size.
    pub(crate) fn knows_end(&self) -> bool {
        self.end_known
    }

    /// Whether the stored size is still the previous one.
    pub(crate) fn size_counts(&self) -> bool {
        self.size_counts
    }

    /// A number that changes when another writer attaches, and with a truncate.
    pub(crate) fn turn(&self) -> u64 {
        self.turn
    }
}
