//! Changes attributes.

use weft_client::{Changes, Time};

use crate::fs::clock::now_nanos;
use crate::fs::view_ids::{is_of_checkpoint, is_view, read_only};
use crate::fs::{Caller, Entry, FileSystem, FsError};

/// Attributes to change; a `None` leaves the attribute as it is.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size.
    pub size: Option<u64>,
    /// Last access.
    pub accessed: Option<Time>,
    /// Last modification.
    pub modified: Option<Time>,
    /// Clear the set-id bits, because the size changes.
    pub kill_set_id: bool,
}

impl FileSystem {
    /// Changes attributes; `handle`: the open file that the request came through, if any.
    pub async fn change(
        &self,
        caller: Caller,
        id: u64,
        handle: Option<u64>,
        change: &Changed,
    ) -> Result<Entry, FsError> {
        if is_view(id) {
            if is_of_checkpoint(id) {
                return Err(read_only());
            }
            // A view ends where its file does: programs that truncate a file before they write it
            // must not fail.
            return self.view_attributes(id).await;
        }
        if let Some(size) = change.size {
            if let Some(handle) = handle.filter(|_| change.kill_set_id) {
                // Another user may have opened it.
                let handle = self.handles.get(handle)?;
                self.strip(&handle, Some(caller)).await?;
            }
            self.resize(caller, id, handle, size).await?;
        }
        let changes = Changes {
            mode: change.mode,
            uid: change.uid,
            gid: change.gid,
            accessed: change.accessed,
            modified: change.modified,
            policy: None,
            layout: None,
            kill_priv: change.kill_set_id,
            no_follow: true,
        };
        let asks = changes.mode.is_some()
            || changes.uid.is_some()
            || changes.gid.is_some()
            || changes.accessed.is_some()
            || changes.modified.is_some()
            || (changes.kill_priv && change.size.is_none());
        if !asks {
            return self.attributes(id).await;
        }
        if changes.accessed.is_some() {
            // An earlier read would be reported later, and change the time again.
            self.volume.forget_access(id).await;
        }
        self.set_by_call(caller, id, change, &changes).await
    }

    async fn set_by_call(
        &self,
        caller: Caller,
        id: u64,
        change: &Changed,
        changes: &Changes,
    ) -> Result<Entry, FsError> {
        let volume = self.on(caller);
        if let Some(entry) = self.change_delegated(&volume, id, changes).await? {
            return Ok(entry);
        }
        if change.accessed.is_some() || change.modified.is_some() {
            // A write that reaches the servers later would set the time again.
            self.flush_all(id).await?;
        }
        // The lease ends with the change, before its answer arrives.
        self.forget_kept(id).await;
        let asked = self.metadata.now();
        let attributes = self
            .call(|| volume.set_attributes(self.metadata.place(id), changes))
            .await?;
        if changes.accessed.is_some() {
            self.metadata.nodes().forget_access(id);
        }
        if change.modified.is_some() {
            self.files.time_set(id);
        }
        let answer = self.complete(attributes).await?;
        let asked = self.metadata.touched_to(asked, &answer, false);
        Ok(self.metadata.reported(asked, &answer))
    }

    async fn resize(
        &self,
        caller: Caller,
        id: u64,
        handle: Option<u64>,
        size: u64,
    ) -> Result<(), FsError> {
        let began = now_nanos();
        self.send_waiting(id, None).await?;
        if let Some(handle) = handle {
            let handle = self.handles.get(handle)?;
            handle.writable()?;
            handle.truncate(size).await?;
        } else {
            self.flush_all(id).await?;
            let volume = self.on(caller);
            self.forget_kept(id).await;
            let truncate = async {
                let truncate = || volume.truncate(self.metadata.place(id), size);
                self.call(truncate).await.map(drop)
            };
            // The opens of this mount must know, too, also those that only read.
            match self.files.any(id) {
                Some(open) => open.data().truncate_by(size, truncate).await?,
                None => truncate.await?,
            }
        }
        self.resized(id, began);
        Ok(())
    }
}
