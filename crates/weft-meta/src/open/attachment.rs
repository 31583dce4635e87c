//! One attachment: what it is for, and what its end or its next append may rely on.

/// What an attachment is for.
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

/// What the service knew of a file's size when a writer came. It counts only for the first writer.
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

/// Which client replaces the bytes of an inline file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// The file's writer.
    Writer,
    /// Another client.
    Other,
}

/// What is known when an attachment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts, told once"
)]
pub(crate) struct Ended {
    pub(super) last_writer: bool,
    pub(super) last: bool,
    pub(super) unchanged: bool,
    pub(super) alone: bool,
    pub(super) turn: u64,
}

impl Ended {
    /// No client has the file open for writing any more.
    pub(crate) fn is_last_writer(&self) -> bool {
        self.last_writer
    }

    /// No client has the file open any more.
    pub(crate) fn is_last(&self) -> bool {
        self.last
    }

    /// The writers changed nothing, and the size was exact before them.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.unchanged
    }

    /// There was one writer, and the size was exact before it: where it ended tells the size.
    pub(crate) fn was_alone(&self) -> bool {
        self.alone
    }

    /// Changes when another writer comes, and with a truncate.
    pub(crate) fn turn(&self) -> u64 {
        self.turn
    }
}

/// What the attachments of a file say about an append by one of its writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appender {
    pub(super) end_known: bool,
    pub(super) size_counts: bool,
    pub(super) turn: u64,
}

impl Appender {
    /// Only reserved ranges and bytes of this client can lie beyond the size from before.
    pub(crate) fn knows_end(&self) -> bool {
        self.end_known
    }

    /// The stored size is that from before.
    pub(crate) fn size_counts(&self) -> bool {
        self.size_counts
    }

    /// Changes when another client comes to write, and with a truncate.
    pub(crate) fn turn(&self) -> u64 {
        self.turn
    }
}
