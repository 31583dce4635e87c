//! What a change of a file's bytes takes from the file: the bits by which it runs as somebody else,
//! and its capabilities.
//!
//! The kernel leaves this to the mount (`HANDLE_KILLPRIV_V2`). With a write, a truncate or an open
//! it says whether the bits must go; with `fallocate` and `copy_file_range` it does not, so there
//! everybody but root loses them. As on local file systems a setgid bit without the group's execute
//! bit, which runs nothing, stays where the caller is of the file's group. A capability goes with
//! every change, whoever makes it; where the kernel writes through its pages it removes the
//! attribute itself.

use std::sync::atomic::{AtomicBool, Ordering};

use weft_client::{Changes, Place, Volume};
use weft_proto::Code;

use super::attributes::root;
use super::files::Handle;
use super::{Caller, FileSystem, FsError};

/// The attribute that holds a file's capabilities.
pub(super) const CAPABILITY: &[u8] = b"security.capability";

impl FileSystem {
    /// Before bytes are changed past the kernel's pages; `from`: by a caller who must not keep the
    /// set-id bits.
    pub(super) async fn strip(&self, handle: &Handle, from: Option<Caller>) -> Result<(), FsError> {
        self.strip_file((handle.id, &handle.stripped), from).await
    }

    /// As [`FileSystem::strip`], of an open of a file, whatever it is: its id, and whether nothing
    /// was found to be taken away since it was opened.
    pub(super) async fn strip_file(
        &self,
        (id, stripped): (u64, &AtomicBool),
        from: Option<Caller>,
    ) -> Result<(), FsError> {
        let may_run_as_other = || {
            let mode = self.nodes.mode(id);
            mode.is_none_or(|mode| mode & 0o6000 != 0)
        };
        if let Some(caller) = from
            && may_run_as_other()
        {
            self.drop_set_id(caller, id).await?;
        }
        // Before it is looked at: whoever sets one meanwhile takes this back.
        if stripped.swap(true, Ordering::AcqRel) || self.lacks(id, CAPABILITY) {
            return Ok(());
        }
        let dropped = self.drop_capability(id).await;
        if dropped.is_err() {
            stripped.store(false, Ordering::Release);
        }
        dropped
    }

    /// As [`FileSystem::strip`], by a call that does not say who must not keep them.
    pub(super) async fn strip_for(&self, caller: Caller, handle: &Handle) -> Result<(), FsError> {
        self.strip(handle, (caller.uid != 0).then_some(caller))
            .await
    }

    /// The set-id bits go, as POSIX wants it after a write by somebody who must not keep them.
    async fn drop_set_id(&self, caller: Caller, id: u64) -> Result<(), FsError> {
        let changes = Changes {
            kill_priv: true,
            no_follow: true,
            ..Changes::default()
        };
        let asked = self.news.now();
        let on = async |volume: Volume| {
            let drop = || volume.set_attributes(Place::of(id), &changes);
            self.call(drop).await
        };
        let attributes = match on(self.on(caller)).await {
            // It was opened for writing when the caller still might.
            Err(error) if error.errno() == libc::EACCES => {
                on(self.volume.on_behalf_of(root())).await?
            }
            attributes => attributes?,
        };
        let answer = self.complete(attributes).await?;
        self.touched_to(asked, &answer, false);
        self.nodes.told(&answer.attr);
        self.attributes_changed(id);
        Ok(())
    }

    /// Removes a file's capabilities. The kernel asks for it on behalf of whoever may write the
    /// file, and lets nobody else ask who may not.
    pub(super) async fn drop_capability(&self, id: u64) -> Result<(), FsError> {
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
