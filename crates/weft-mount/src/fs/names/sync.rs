//! Makes changes of names durable, and reports those that were lost or refused.

use std::sync::atomic::AtomicU64;

use rustix::io::Errno;

use crate::fs::{FileSystem, FsError};

impl FileSystem {
    /// Makes every change of the namespace that this mount has made so far survive power loss. No
    /// request, if it does already. Each descriptor gets an error once for lost changes; `reported`
    /// counts the losses that it has got.
    pub(in crate::fs) async fn sync_names(&self, reported: &AtomicU64) -> Result<(), FsError> {
        let changes = self.metadata.own_changes();
        let stable = self.options.durable || self.namespace.is_synced(changes);
        let synced = if stable {
            Ok(())
        } else {
            self.call(|| self.volume.sync_namespace()).await
        };
        self.volume.name_loss_since(reported)?;
        synced?;
        self.namespace.note_synced(changes);
        self.report_refusal()
    }

    /// Reports once if an acknowledged change was refused.
    fn report_refusal(&self) -> Result<(), FsError> {
        match self.namespace.take_refused() {
            Some(errno) => Err(FsError::refused(
                "the volume refused an earlier change of a name",
                Errno::from_raw_os_error(errno),
            )),
            None => Ok(()),
        }
    }
}
