//! Open files by id, and what this mount has written of them that the service does not know yet.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use rustix::io::Errno;
use tokio::sync::RwLock;
use weft_client::File;

use super::nodes::Content;
use super::pages::Pages;
use super::{Attr, FsError};
use crate::data::OpenData;

/// What an open does past the kernel's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PastPages {
    /// Reads and writes, as all opens of the file for writing do.
    pub(super) all: bool,
    /// All, or appends only: what this open reads and writes. The kernel asks for no sync after a
    /// write by `O_SYNC` then.
    pub(super) direct: bool,
}

/// One open of a file.
pub(super) struct Handle {
    pub(super) id: u64,
    pub(super) file: File,
    pub(super) data: OpenData,
    pub(super) write: bool,
    pub(super) reads: bool,
    /// Reads by it count as accesses.
    pub(super) counts: bool,
    pub(super) past: PastPages,
    /// Of the file, as all its opens share it.
    pub(super) pages: Arc<Pages>,
    /// Who has asked for locks by it.
    pub(super) lockers: Mutex<BTreeSet<u64>>,
    /// Taken for reading by who writes: a write that its program does not wait for any more ends
    /// before the open does.
    pub(super) at_work: RwLock<()>,
    /// A descriptor of it was closed, perhaps the last: then its locks are about to end.
    closing: AtomicBool,
    /// Its locks are being let go.
    letting_go: AtomicBool,
    /// It was opened to read it, which counted as an access, and the kernel does not know yet.
    presumed: AtomicBool,
    /// It was written by this open and not settled since: see
    /// [`FileSystem::settle`](super::FileSystem).
    wrote: AtomicBool,
    /// Since it was opened, or attributes of the file were set, nothing was found to be taken away:
    /// see `privileges`.
    pub(super) stripped: AtomicBool,
    /// What the pages show that are read from now on, until the first is.
    pub(super) opening: Mutex<Option<Content>>,
    /// Losses of names that its program was told of.
    pub(super) told: AtomicU64,
}

impl Handle {
    pub(super) fn new(
        file: File,
        data: OpenData,
        (reads, write, counts): (bool, bool, bool),
        past: PastPages,
        (opening, pages): (Option<Content>, Arc<Pages>),
        told: u64,
    ) -> Handle {
        Handle {
            id: file.id(),
            file,
            data,
            write,
            reads,
            counts,
            past,
            pages,
            lockers: Mutex::default(),
            at_work: RwLock::default(),
            closing: AtomicBool::new(false),
            letting_go: AtomicBool::new(false),
            presumed: AtomicBool::new(false),
            wrote: AtomicBool::new(false),
            stripped: AtomicBool::new(false),
            opening: Mutex::new(opening),
            told: AtomicU64::new(told),
        }
    }

    /// A descriptor of it is closed.
    pub(super) fn note_flushed(&self) {
        let locks = !self.lockers.lock().is_empty();
        self.closing.store(locks, Ordering::Release);
    }

    /// What it locked has ended, or it was not the last descriptor that was closed.
    pub(super) fn note_not_closing(&self) {
        self.closing.store(false, Ordering::Release);
    }

    /// Its locks are let go now.
    pub(super) fn note_letting_go(&self) {
        self.letting_go.store(true, Ordering::Release);
    }

    /// Whether its locks are being let go.
    pub(super) fn is_letting_go(&self) -> bool {
        self.is_closing() && self.letting_go.load(Ordering::Acquire)
    }

    /// Whether its locks may be about to end.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Whether that it was opened counts as an access of which the kernel is to be told; returns
    /// whether it did.
    pub(super) fn presume_read(&self, presumed: bool) -> bool {
        self.presumed.swap(presumed, Ordering::Relaxed)
    }

    /// The service knows all that was written by it.
    pub(super) fn note_settled(&self) {
        self.wrote.store(false, Ordering::Relaxed);
    }

    pub(super) fn has_written(&self) -> bool {
        self.wrote.load(Ordering::Relaxed)
    }

    /// The file was written by it.
    pub(super) fn note_wrote(&self) {
        self.wrote.store(true, Ordering::Relaxed);
    }

    /// Refuses what only an open for writing may do.
    pub(super) fn writable(&self) -> Result<(), FsError> {
        if self.write {
            return Ok(());
        }
        Err(FsError::refused(
            "the file is not open for writing",
            Errno::BADF,
        ))
    }

    /// Sets the size; the file is attached for writing.
    pub(super) async fn truncate(&self, size: u64) -> Result<(), FsError> {
        self.note_wrote();
        Ok(self.data.truncate(size).await?)
    }
}

/// Open files by id.
#[derive(Default)]
pub(super) struct Files(Mutex<HashMap<u64, OpenFile>>);

#[derive(Default)]
struct OpenFile {
    handles: Vec<Arc<Handle>>,
    pages: Arc<Pages>,
    /// When this mount last wrote it; the servers may not have heard yet.
    written: Option<i64>,
}

impl Files {
    pub(super) fn add(&self, id: u64, open: impl FnOnce(Arc<Pages>) -> Handle) -> Arc<Handle> {
        let mut files = self.0.lock();
        let file = files.entry(id).or_default();
        let handle = Arc::new(open(file.pages.clone()));
        file.handles.push(handle.clone());
        handle
    }

    pub(super) fn remove(&self, handle: &Arc<Handle>) {
        let mut files = self.0.lock();
        if let Some(file) = files.get_mut(&handle.id) {
            file.handles.retain(|h| !Arc::ptr_eq(h, handle));
            if file.handles.is_empty() {
                files.remove(&handle.id);
            }
        }
    }

    pub(super) fn all(&self, id: u64) -> Vec<Arc<Handle>> {
        let files = self.0.lock();
        files
            .get(&id)
            .map(|f| f.handles.clone())
            .unwrap_or_default()
    }

    /// Any open of this file.
    pub(super) fn any(&self, id: u64) -> Option<Arc<Handle>> {
        self.0.lock().get(&id)?.handles.first().cloned()
    }

    /// Whether somebody writes this file past the kernel's pages.
    pub(super) fn are_past_pages(&self, id: u64) -> bool {
        let files = self.0.lock();
        let past = |file: &OpenFile| file.handles.iter().any(|h| h.write && h.past.all);
        files.get(&id).is_some_and(past)
    }

    /// Whether a program may have mapped this file to write it, or may do so by what it has open.
    pub(super) fn may_be_mapped(&self, id: u64) -> bool {
        let files = self.0.lock();
        let maps = |file: &OpenFile| file.handles.iter().any(|h| h.write && h.reads);
        files.get(&id).is_some_and(maps)
    }

    /// Notes that a file was written at this time.
    pub(super) fn wrote(&self, id: u64, time: i64) {
        if let Some(file) = self.0.lock().get_mut(&id) {
            file.written = file.written.max(Some(time));
        }
    }

    /// The time of a file's last write was set by hand.
    pub(super) fn time_set(&self, id: u64) {
        if let Some(file) = self.0.lock().get_mut(&id) {
            file.written = None;
        }
    }

    /// Adds what this mount has written and not sent.
    pub(super) fn cover(&self, attr: &mut Attr) {
        let files = self.0.lock();
        let Some(file) = files.get(&attr.id) else {
            return;
        };
        let mut writers = file.handles.iter().filter(|h| h.write);
        if let Some(end) = writers.find_map(|h| h.data.known_end()) {
            attr.size = attr.size.max(end);
        }
        if let Some(written) = file.written {
            attr.modified = attr.modified.max(written);
            attr.changed = attr.changed.max(written);
        }
    }
}

/// In nanoseconds since the epoch.
pub(super) fn now() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as i64)
}
