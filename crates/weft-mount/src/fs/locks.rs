//! Locks between all mounts of a volume, of files (`flock`) and of byte ranges (`fcntl`).
//!
//! Dirty data is sent before a lock is released, and a granted lock drops clean data: with lock,
//! read, write, unlock each holder sees what the previous one wrote. Files without locks pay
//! nothing.
//!
//! The kernel reports the end of an open after its program has continued. So a request that finds
//! the file locked by an open of which a descriptor was closed waits some milliseconds for that
//! open.

use std::sync::Arc;

use rustix::io::Errno;
use tokio::time::Instant;
use weft_client::{HeldLock, LockKind, LockOwner, LockRange, Locked};

use super::files::Handle;
use super::view_ids::{is_view, unsupported_in_views};
use super::{FileSystem, FsError};
use crate::limits::{LOCK_CLOSE_GRACE, LOCK_CLOSE_POLL_INTERVAL};

/// Whether a lock request waits while other owners hold conflicting locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    /// It fails at once.
    No,
    /// It waits until the lock is granted.
    UntilGranted,
}

impl FileSystem {
    /// Locks or unlocks. The wait ends when the call is dropped.
    pub async fn lock(
        &self,
        handle: u64,
        kind: LockKind,
        range: LockRange,
        owner: LockOwner,
        wait: LockWait,
    ) -> Result<(), FsError> {
        if is_view(handle) {
            return Err(unsupported_in_views());
        }
        let handle = self.handles.get(handle)?;
        handle.data().send().await;
        if kind == LockKind::Unlock {
            return self.call(|| handle.file().unlock(range, owner)).await;
        }
        // Before the request: a caller that is cancelled may have been granted the lock.
        handle.add_lock_owner(owner.number);
        let closing = self.closing(&handle);
        let waits = wait == LockWait::UntilGranted;
        let ask = || self.call(|| handle.file().lock(kind, range, owner, waits));
        let mut locked = ask().await?;
        if matches!(locked, Locked::Held(_)) && wait_for_closing(&closing).await {
            locked = ask().await?;
        }
        match locked {
            Locked::Granted => {
                // A caller that gets an error, or is interrupted, will not release it.
                let granted = GrantedLock(Some((handle.clone(), range, owner)));
                self.drop_clean(&handle).await?;
                granted.keep();
                Ok(())
            }
            Locked::Held(_) => Err(FsError::refused(
                "another owner holds the lock",
                Errno::AGAIN,
            )),
            Locked::Deadlock => Err(FsError::refused(
                "the lock's holder waits for the caller",
                Errno::DEADLK,
            )),
            Locked::TooMany => Err(FsError::refused(
                "the file has too many locks",
                Errno::NOLCK,
            )),
        }
    }

    /// The first conflicting lock, if any.
    pub async fn test_lock(
        &self,
        handle: u64,
        kind: LockKind,
        range: LockRange,
        owner: LockOwner,
    ) -> Result<Option<HeldLock>, FsError> {
        if is_view(handle) {
            return Err(unsupported_in_views());
        }
        let handle = self.handles.get(handle)?;
        let closing = self.closing(&handle);
        let ask = || self.call(|| handle.file().test_lock(kind, range, owner));
        match ask().await? {
            Some(_) if wait_for_closing(&closing).await => ask().await,
            blocker => Ok(blocker),
        }
    }

    /// Other opens of the file whose locks may be about to end.
    fn closing(&self, handle: &Arc<Handle>) -> Vec<Arc<Handle>> {
        let mut others = self.files.all(handle.id());
        others.retain(|other| other.is_closing() && !Arc::ptr_eq(other, handle));
        others
    }

    async fn drop_clean(&self, handle: &Arc<Handle>) -> Result<(), FsError> {
        handle.data().drop_clean().await?;
        self.metadata.nodes().settled(handle.id(), None);
        // The caller must not read the kernel's old pages.
        self.metadata.drop_pages(handle.id(), 0..u64::MAX).await
    }

    /// A process has closed a descriptor of a file: its byte-range locks end, whichever descriptor
    /// it requested them through.
    pub(in crate::fs) async fn unlock_process(&self, id: u64, owner: u64) {
        let handles = self.files.all(id);
        let asked = |handle: &&Arc<Handle>| handle.remove_lock_owner(owner);
        let asked: Vec<_> = handles.iter().filter(asked).collect();
        if let Some(handle) = asked.first() {
            release(handle, owner).await;
        }
    }

    /// The last descriptor of an open is closed: its locks end.
    pub(in crate::fs) async fn unlock_open(&self, handle: &Arc<Handle>) {
        let owners = handle.take_lock_owners();
        handle.note_releasing();
        for owner in owners {
            release(handle, owner).await;
        }
        handle.note_not_closing();
    }
}

/// Waits for the end of opens that seem to be closing; false if there are none. Opens that stay
/// open are not waited for again.
async fn wait_for_closing(closing: &[Arc<Handle>]) -> bool {
    let deadline = Instant::now() + LOCK_CLOSE_GRACE;
    while closing.iter().any(|handle| handle.is_releasing())
        || closing.iter().any(|handle| handle.is_closing()) && Instant::now() < deadline
    {
        tokio::time::sleep(LOCK_CLOSE_POLL_INTERVAL).await;
    }
    for handle in closing {
        handle.note_not_closing();
    }
    !closing.is_empty()
}

/// A lock that was not reported to its caller yet: dropped, it is released in the background.
struct GrantedLock(Option<(Arc<Handle>, LockRange, LockOwner)>);

impl GrantedLock {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for GrantedLock {
    fn drop(&mut self) {
        let Some((handle, range, owner)) = self.0.take() else {
            return;
        };
        tokio::spawn(async move {
            if let Err(error) = handle.file().unlock(range, owner).await {
                tracing::warn!(file = handle.file().path(), %error, "a lock may be held until the file is closed");
            }
        });
    }
}

/// Continues if the caller is interrupted: nothing else would release the locks.
async fn release(handle: &Arc<Handle>, owner: u64) {
    let handle = handle.clone();
    let release = tokio::spawn(async move {
        handle.data().send().await;
        if let Err(error) = handle.file().release_locks(owner).await {
            tracing::warn!(file = handle.file().path(), %error, "locks may be held until the file is closed everywhere here");
        }
    });
    // The task does not panic; if it did, nothing would be left to do.
    let _ = release.await;
}
