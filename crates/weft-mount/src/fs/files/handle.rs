//! One open of a file.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::io::Errno;
use tokio::sync::RwLock;
use weft_client::File;

use super::kept_files::AttachMoment;
use super::pages::Pages;
use crate::data::OpenData;
use crate::fs::error::FsError;
use crate::fs::metadata::Content;

/// Which accesses of an open bypass the kernel's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fs) struct DirectOpens {
    /// All accesses of all opens of the file for writing.
    pub(in crate::fs) all: bool,
    /// All accesses of this open: as `all`, or because it appends. Then the kernel does not sync
    /// after a write with `O_SYNC`.
    pub(in crate::fs) direct: bool,
}

/// One open of a file.
pub(in crate::fs) struct Handle {
    pub(super) id: u64,
    file: File,
    data: OpenData,
    pub(super) write: bool,
    pub(super) reads: bool,
    /// Reads by it count as accesses.
    pub(super) counts: bool,
    pub(super) past: DirectOpens,
    /// Shared by all opens of the file.
    pub(super) pages: Arc<Pages>,
    /// The owners that have requested locks through it.
    lock_owners: Mutex<BTreeSet<u64>>,
    /// Writers hold it for reading: a write that its program abandoned ends before the open does.
    pub(super) in_flight: RwLock<()>,
    /// A descriptor of it was closed, perhaps the last: then its locks are about to end.
    closing: AtomicBool,
    /// Its locks are being released.
    releasing: AtomicBool,
    /// It was opened to read it, which counted as an access, and the kernel does not know yet.
    presumed: AtomicBool,
    /// This open has written the file since the service last knew all of it.
    wrote: AtomicBool,
    /// No privileges were found to take away since it was opened, or since attributes of the file
    /// were set: see `privileges`.
    pub(super) stripped: AtomicBool,
    /// The state that pages show from now on, until the first is read.
    pub(super) opening: Mutex<Option<Content>>,
    /// Losses of names that were reported to its program.
    name_losses: AtomicU64,
    /// The file may stay attached after this open, as it was asked for at this moment.
    pub(super) keeps: Option<AttachMoment>,
}

impl Handle {
    pub(in crate::fs) fn new(
        file: File,
        data: OpenData,
        (reads, write, counts): (bool, bool, bool),
        past: DirectOpens,
        (opening, pages): (Option<Content>, Arc<Pages>),
        name_losses: u64,
        keeps: Option<AttachMoment>,
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
            lock_owners: Mutex::default(),
            in_flight: RwLock::default(),
            closing: AtomicBool::new(false),
            releasing: AtomicBool::new(false),
            presumed: AtomicBool::new(false),
            wrote: AtomicBool::new(false),
            stripped: AtomicBool::new(false),
            opening: Mutex::new(opening),
            name_losses: AtomicU64::new(name_losses),
            keeps,
        }
    }

    /// The attached file.
    pub(in crate::fs) fn file(&self) -> &File {
        &self.file
    }

    /// Its bytes.
    pub(in crate::fs) fn data(&self) -> &OpenData {
        &self.data
    }

    /// Losses of names that were reported to its program.
    pub(in crate::fs) fn name_losses(&self) -> &AtomicU64 {
        &self.name_losses
    }

    /// The file's id.
    pub(in crate::fs) fn id(&self) -> u64 {
        self.id
    }

    /// Attributes of the file were set: privileges may have come back.
    pub(in crate::fs) fn note_attributes_set(&self) {
        self.stripped.store(false, Ordering::Release);
    }

    /// An owner requests a lock through it.
    pub(in crate::fs) fn add_lock_owner(&self, owner: u64) {
        self.lock_owners.lock().insert(owner);
    }

    /// An owner's locks end; whether it had requested any through this open.
    pub(in crate::fs) fn remove_lock_owner(&self, owner: u64) -> bool {
        self.lock_owners.lock().remove(&owner)
    }

    /// All owners that have requested locks through it.
    pub(in crate::fs) fn take_lock_owners(&self) -> BTreeSet<u64> {
        std::mem::take(&mut *self.lock_owners.lock())
    }

    /// A descriptor of it is closed.
    pub(in crate::fs) fn note_flushed(&self) {
        let locks = !self.lock_owners.lock().is_empty();
        self.closing.store(locks, Ordering::Release);
    }

    /// Its locks have ended, or it was not the last descriptor that was closed.
    pub(in crate::fs) fn note_not_closing(&self) {
        self.closing.store(false, Ordering::Release);
    }

    /// Its locks are being released now.
    pub(in crate::fs) fn note_releasing(&self) {
        self.releasing.store(true, Ordering::Release);
    }

    /// Whether its locks are being released.
    pub(in crate::fs) fn is_releasing(&self) -> bool {
        self.is_closing() && self.releasing.load(Ordering::Acquire)
    }

    /// Whether its locks may be about to end.
    pub(in crate::fs) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Sets whether its open counts as an access that the kernel does not know of; returns whether
    /// it did before.
    pub(in crate::fs) fn set_atime_pending(&self, presumed: bool) -> bool {
        self.presumed.swap(presumed, Ordering::Relaxed)
    }

    /// The service knows everything it has written.
    pub(in crate::fs) fn note_settled(&self) {
        self.wrote.store(false, Ordering::Relaxed);
    }

    pub(in crate::fs) fn has_written(&self) -> bool {
        self.wrote.load(Ordering::Relaxed)
    }

    /// It has written the file.
    pub(in crate::fs) fn note_wrote(&self) {
        self.wrote.store(true, Ordering::Relaxed);
    }

    /// Refuses what only an open for writing may do.
    pub(in crate::fs) fn writable(&self) -> Result<(), FsError> {
        if self.write {
            return Ok(());
        }
        Err(FsError::refused(
            "the file is not open for writing",
            Errno::BADF,
        ))
    }

    /// Sets the size; the file is attached for writing.
    pub(in crate::fs) async fn truncate(&self, size: u64) -> Result<(), FsError> {
        self.note_wrote();
        Ok(self.data.truncate(size).await?)
    }
}
