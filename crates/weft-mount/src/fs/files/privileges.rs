//! Privileges that a change of a file's bytes takes away: its set-id bits and its capabilities.
//!
//! The kernel leaves this to the mount (`HANDLE_KILLPRIV_V2`). With a write, a truncate or an open
//! it says whether the bits must be cleared; with `fallocate` and `copy_file_range` it does not, so
//! there all callers but root clear them. As on local file systems a setgid bit without the group's
//! execute bit, which runs nothing, stays where the caller is of the file's group. A capability
//! goes with every change by any caller; where the kernel writes through its pages it removes the
//! attribute itself.

use std::sync::atomic::{AtomicBool, Ordering};

use weft_client::{Changes, Place, Volume};
use weft_proto::Code;

use super::handle::Handle;
use crate::fs::caller::root;
use crate::fs::{Caller, FileSystem, FsError};

/// The attribute that holds a file's capabilities.
pub(in crate::fs) const CAPABILITY: &[u8] = b"security.capability";

impl FileSystem {
    /// Before bytes are changed past the kernel's pages; `from`: by a caller whose change clears
    /// the set-id bits.
    pub(in crate::fs) async fn strip(
        &self,
        handle: &Handle,
        from: Option<Caller>,
    ) -> Result<(), FsError> {
        self.strip_file((handle.id, &handle.stripped), from).await
    }

    /// As [`FileSystem::strip`], for a file by its id; `stripped`: whether no privileges were found
    /// since the open.
    pub(in crate::fs) async fn strip_file(
        &self,
        (id, stripped): (u64, &AtomicBool),
        from: Option<Caller>,
    ) -> Result<(), FsError> {
        let may_run_as_other = || {
            let mode = self.metadata.nodes().mode(id);
            mode.is_none_or(|mode| mode & 0o6000 != 0)
        };
        if let Some(caller) = from
            && may_run_as_other()
        {
            self.drop_set_id(caller, id).await?;
        }
        // Before the check: a concurrent set of attributes resets this.
        if stripped.swap(true, Ordering::AcqRel) || self.lacks(id, CAPABILITY) {
            return Ok(());
        }
        let dropped = self.drop_capability(id).await;
        if dropped.is_err() {
            stripped.store(false, Ordering::Release);
        }
        dropped
    }

    /// As [`FileSystem::strip`], for a request that does not say whether the bits must be cleared.
    pub(in crate::fs) async fn strip_for(
        &self,
        caller: Caller,
        handle: &Handle,
    ) -> Result<(), FsError> {
        self.strip(handle, (caller.uid != 0).then_some(caller))
            .await
    }

    /// Clears the set-id bits, as POSIX asks after a write by an unprivileged caller.
    async fn drop_set_id(&self, caller: Caller, id: u64) -> Result<(), FsError> {
        let changes = Changes {
            kill_priv: true,
            no_follow: true,
            ..Changes::default()
        };
        let asked = self.metadata.now();
        let on = async |volume: Volume| {
            let drop = || volume.set_attributes(Place::of(id), &changes);
            self.call(drop).await
        };
        let attributes = match on(self.on(caller)).await {
            // The caller had the permission when it opened the file.
            Err(error) if error.errno() == libc::EACCES => {
                on(self.volume.on_behalf_of(root())).await?
            }
            attributes => attributes?,
        };
        let answer = self.complete(attributes).await?;
        self.metadata.touched_to(asked, &answer, false);
        self.metadata.nodes().reported(&answer.attr);
        self.metadata.attributes_changed(id);
        Ok(())
    }

    /// Removes a file's capabilities. The kernel asks for it on behalf of any caller that may write
    /// the file, and checks that itself.
    pub(in crate::fs) async fn drop_capability(&self, id: u64) -> Result<(), FsError> {
        let volume = self.volume.on_behalf_of(root());
        match self
            .call(|| volume.remove_xattr(Place::of(id), CAPABILITY))
            .await
        {
            Err(FsError::Volume(error)) if error.code() == Code::NoAttribute => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                self.extended(id, CAPABILITY);
                Ok(())
            }
        }
    }
}
