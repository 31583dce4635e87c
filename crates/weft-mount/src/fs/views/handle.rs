//! An open view.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weft_client::OpenView;

/// An open view.
pub(in crate::fs) struct OpenViewHandle {
    pub(super) file: u64,
    pub(super) view: OpenView,
    size: AtomicU64,
    pub(super) write: bool,
    /// The beginnings and ends of writes, and for how many of them copies of the file's data were
    /// invalidated.
    writes: AtomicU64,
    invalidated: AtomicU64,
    /// No privileges were found to take away from the file since the open: see `files/privileges`.
    pub(super) stripped: AtomicBool,
}

impl OpenViewHandle {
    pub(in crate::fs) fn new(file: u64, view: OpenView, size: u64, write: bool) -> OpenViewHandle {
        OpenViewHandle {
            file,
            view,
            size: AtomicU64::new(size),
            write,
            writes: AtomicU64::new(0),
            invalidated: AtomicU64::new(0),
            stripped: AtomicBool::new(false),
        }
    }

    /// The size as last known.
    pub(in crate::fs) fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    pub(in crate::fs) fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::Relaxed);
    }

    /// The beginnings and ends of writes so far, if copies of the file were not invalidated for all
    /// of them.
    pub(in crate::fs) fn pending_invalidation(&self) -> Option<u64> {
        let writes = self.writes.load(Ordering::Acquire);
        (self.invalidated.load(Ordering::Acquire) < writes).then_some(writes)
    }

    /// Copies of the file were invalidated for this many beginnings and ends of writes.
    pub(in crate::fs) fn note_invalidated(&self, writes: u64) {
        self.invalidated.fetch_max(writes, Ordering::AcqRel);
    }
}

/// Counts a write's beginning, and its end whatever the result: a failed write may have written
/// some bytes.
pub(super) struct WriteInProgress<'a>(&'a AtomicU64);

impl WriteInProgress<'_> {
    pub(super) fn begin(handle: &OpenViewHandle) -> WriteInProgress<'_> {
        handle.writes.fetch_add(1, Ordering::AcqRel);
        WriteInProgress(&handle.writes)
    }
}

impl Drop for WriteInProgress<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}
