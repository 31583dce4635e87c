//! Locks between all mounts of a volume, of files (`flock`) and of bytes (`fcntl`).
//!
//! Dirty data goes out before a lock is let go, and a lock's grant drops what is cached: lock,
//! read, write, unlock shows everybody what the one before has written. Files that nobody locks pay
//! nothing.
//!
//! The kernel tells of the end of an open after its program has gone on: who then finds the file
//! locked by an open of which a descriptor was closed waits some milliseconds for that.

use std::sync::Arc;

use rustix::io::Errno;
use tokio::time::Instant;
use weft_client::{HeldLock, LockKind, LockOwner, LockRange, Locked};

use super::files::Handle;
use super::views::{is_view, unsupported};
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
            return Err(unsupported());
        }
        let handle = self.handles.get(handle)?;
        handle.data.send().await;
        if kind == LockKind::Unlock {
            return self.call(|| handle.file.unlock(range, owner)).await;
        }
        // Before it is asked for: whoever goes away may have been granted it.
        handle.lockers.lock().insert(owner.number);
        let closing = self.closing(&handle);
        let waits = wait == LockWait::UntilGranted;
        let ask = || self.call(|| handle.file.lock(kind, range, owner, waits));
        let mut locked = ask().await?;
        if matches!(locked, Locked::Held(_)) && let_go(&closing).await {
            locked = ask().await?;
        }
        match locked {
            Locked::Granted => {
                // Who is told that it failed, or was interrupted, will not let go.
                let granted = Granted(Some((handle.clone(), range, owner)));
                self.see_others(&handle).await?;
                granted.keep();
                Ok(())
            }
            Locked::Held(_) => Err(FsError::refused("somebody else holds it", Errno::AGAIN)),
            Locked::Deadlock => Err(FsError::refused(
                "whoever holds it waits for the caller",
                Errno::DEADLK,
            )),
            Locked::TooMany => Err(FsError::refused("there are too many locks", Errno::NOLCK)),
        }
    }

    /// The first lock that would be in the way, if any.
    pub async fn test_lock(
        &self,
        handle: u64,
        kind: LockKind,
        range: LockRange,
        owner: LockOwner,
    ) -> Result<Option<HeldLock>, FsError> {
        if is_view(handle) {
            return Err(unsupported());
        }
        let handle = self.handles.get(handle)?;
        let closing = self.closing(&handle);
        let ask = || self.call(|| handle.file.test_lock(kind, range, owner));
        match ask().await? {
            Some(_) if let_go(&closing).await => ask().await,
            blocker => Ok(blocker),
        }
    }

    /// Other opens of the file whose locks may be about to end.
    fn closing(&self, handle: &Arc<Handle>) -> Vec<Arc<Handle>> {
        let mut others = self.files.all(handle.id);
        others.retain(|other| other.is_closing() && !Arc::ptr_eq(other, handle));
        others
    }

    async fn see_others(&self, handle: &Arc<Handle>) -> Result<(), FsError> {
        handle.data.see_others().await?;
        self.nodes.settled(handle.id, None);
        // The caller must not read what the kernel still has.
        self.drop_pages(handle.id, 0..u64::MAX).await
    }

    /// A process has closed a descriptor of a file: its locks of bytes end, whichever descriptor
    /// they came by.
    pub(super) async fn unlock_process(&self, id: u64, owner: u64) {
        let handles = self.files.all(id);
        let asked = |handle: &&Arc<Handle>| handle.lockers.lock().remove(&owner);
        let asked: Vec<_> = handles.iter().filter(asked).collect();
        if let Some(handle) = asked.first() {
            release(handle, owner).await;
        }
    }

    /// The last descriptor of an open is closed: what it locked itself ends.
    pub(super) async fn unlock_open(&self, handle: &Arc<Handle>) {
        let owners = std::mem::take(&mut *handle.lockers.lock());
        handle.note_letting_go();
        for owner in owners {
            release(handle, owner).await;
        }
        handle.note_not_closing();
    }
}

/// Waits for the end of opens that seem to be closing; false if there are none. Those that go on
/// are not waited for again.
async fn let_go(closing: &[Arc<Handle>]) -> bool {
    let deadline = Instant::now() + LOCK_CLOSE_GRACE;
    while closing.iter().any(|handle| handle.is_letting_go())
        || closing.iter().any(|handle| handle.is_closing()) && Instant::now() < deadline
    {
        tokio::time::sleep(LOCK_CLOSE_POLL_INTERVAL).await;
    }
    for handle in closing {
        handle.note_not_closing();
    }
    !closing.is_empty()
}

/// A lock whose caller does not know of it yet: dropped, it is taken back, in the background.
struct Granted(Option<(Arc<Handle>, LockRange, LockOwner)>);

impl Granted {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        let Some((handle, range, owner)) = self.0.take() else {
            return;
        };
        tokio::spawn(async move {
            if let Err(error) = handle.file.unlock(range, owner).await {
                tracing::warn!(file = handle.file.path(), %error, "a lock may be held until the file is closed");
            }
        });
    }
}

/// Goes on when the caller is interrupted: nobody else would let go.
async fn release(handle: &Arc<Handle>, owner: u64) {
    let handle = handle.clone();
    let release = tokio::spawn(async move {
        handle.data.send().await;
        if let Err(error) = handle.file.release_locks(owner).await {
            tracing::warn!(file = handle.file.path(), %error, "locks may be held until the file is closed everywhere here");
        }
    });
    // It does not panic, and if it did there was nothing left to do.
    let _ = release.await;
}
