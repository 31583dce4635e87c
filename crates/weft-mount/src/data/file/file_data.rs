//! The shared state of a file, and guards over it.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use weft_client::{File, Policy};

use crate::data::resources::Resources;
use crate::data::state::FileState;

/// What all files of a mount share.
pub(in crate::data) type FileResources = Resources<FileData>;

/// What all opens of a file share.
pub(in crate::data) struct FileData {
    id: u64,
    /// Writes go to the servers before they return, and nothing is read ahead.
    write_through: bool,
    resources: Arc<FileResources>,
    state: Mutex<FileState>,
    /// A batch has arrived, or may be sent again.
    progress: Notify,
    /// Truncations and other changes that need the file at rest run one after another.
    turn: Semaphore,
    /// So do syncs of the cells: a later one must not assume durable what an earlier one is still
    /// syncing.
    syncs: tokio::sync::Mutex<()>,
}

impl Drop for FileData {
    fn drop(&mut self) {
        let changed = self.state.get_mut().was_changed();
        let now = self.resources.clock().tick();
        self.resources.registry().forget(self.id, changed, now);
    }
}

impl FileData {
    pub(in crate::data) fn new(resources: Arc<FileResources>, file: &File) -> FileData {
        let past_pages = file.policy().is_some_and(Policy::is_past_pages);
        let write_through = past_pages || !resources.config().write_behind;
        let state = FileState::new(file, write_through, resources.dirty().clone());
        FileData {
            id: file.id(),
            write_through,
            state: Mutex::new(state),
            resources,
            progress: Notify::new(),
            turn: Semaphore::new(1),
            syncs: tokio::sync::Mutex::default(),
        }
    }

    /// Whether writes go to the servers before they return, and nothing is read ahead.
    pub(in crate::data) fn is_write_through(&self) -> bool {
        self.write_through
    }

    /// The state; never held across an await.
    pub(in crate::data) fn state(&self) -> MutexGuard<'_, FileState> {
        self.state.lock()
    }

    pub(in crate::data) fn resources(&self) -> &FileResources {
        &self.resources
    }

    /// Drops what other clients may have changed.
    pub(in crate::data) fn invalidate(&self) {
        self.state().invalidate(self.resources.clock());
    }

    /// Waits for the turn of a change that needs the file at rest.
    pub(in crate::data) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // Never closed.
        self.turn.acquire().await.ok()
    }

    /// Waits for the turn of a sync of the cells.
    pub(in crate::data) async fn sync_turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.syncs.lock().await
    }

    /// Wakes those that wait for the state to change.
    pub(super) fn notify_progress(&self) {
        self.progress.notify_waiters();
    }

    /// Waits until a condition holds; looks whenever a batch has arrived.
    pub(in crate::data) async fn wait_until(&self, holds: impl Fn(&FileState) -> bool) {
        loop {
            let mut progress = std::pin::pin!(self.progress.notified());
            progress.as_mut().enable();
            if holds(&self.state()) {
                return;
            }
            progress.await;
        }
    }
}

/// A write that goes through to the servers, until this is dropped.
pub(in crate::data) struct Through<'a>(&'a FileData);

impl<'a> Through<'a> {
    pub(in crate::data) fn new(data: &'a FileData) -> Through<'a> {
        data.state().begin_through();
        Through(data)
    }
}

impl Drop for Through<'_> {
    fn drop(&mut self) {
        self.0.state().end_through();
        self.0.notify_progress();
    }
}

/// Keeps batches of a file from being sent.
pub(in crate::data) struct Hold<'a>(&'a Arc<FileData>);

impl<'a> Hold<'a> {
    pub(in crate::data) fn new(data: &'a Arc<FileData>) -> Hold<'a> {
        data.state().hold();
        Hold(data)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.state().release();
        self.0.start();
        self.0.notify_progress();
    }
}

/// A file in messages: `/a/f (file 7)`.
pub(in crate::data) fn message_name(file: &File) -> String {
    let number = format!("file {}", file.id());
    match file.path() {
        path if path == number => number,
        path => format!("{path} ({number})"),
    }
}
