//! Flushes, syncs and closes open files.

use std::sync::Arc;

use weft_client::Attributes;

use super::handle::Handle;
use super::kept_files::Kept;
use crate::data::DataError;
use crate::fs::metadata::{Answer, AskedAt};
use crate::fs::view_ids::is_view;
use crate::fs::{FileSystem, FsError};

impl FileSystem {
    /// A descriptor of the file is closed: sends what was written, and reports what failed. Ends
    /// the byte-range locks of `owner`.
    pub async fn flush(&self, handle: u64, owner: u64) -> Result<(), FsError> {
        if is_view(handle) {
            return self.flush_view(handle).await;
        }
        let handle = self.handles.get(handle)?;
        let flushed = if handle.write {
            let flushed = self.settle(&handle, handle.data().flush()).await;
            if !handle.data().is_inline() {
                self.volume.hand_over_attributes(handle.id).await;
            }
            flushed
        } else {
            Ok(())
        };
        if handle.set_atime_pending(false) {
            self.metadata.attributes_changed(handle.id);
        }
        self.unlock_process(handle.id, owner).await;
        handle.note_flushed();
        flushed
    }

    /// Sends what was written; the service's attributes are certain then.
    async fn settle(
        &self,
        handle: &Handle,
        flush: impl Future<Output = Result<Option<Attributes>, DataError>>,
    ) -> Result<(), FsError> {
        let wrote = handle.has_written();
        // A write from here on may not be part of what is stored.
        handle.note_settled();
        let asked = self.metadata.now();
        match flush.await {
            Ok(Some(attributes)) => {
                self.metadata
                    .touched_to(asked, &Answer::exact(&attributes), true);
            }
            result => {
                if wrote {
                    handle.note_wrote();
                }
                if result.is_err() {
                    // The kernel's pages show lost bytes.
                    self.metadata.forget_data(handle.id);
                }
                result?;
            }
        }
        Ok(())
    }

    /// Everything written survives power loss when it returns.
    pub async fn sync(&self, handle: u64) -> Result<(), FsError> {
        if is_view(handle) {
            return self.sync_view(handle).await;
        }
        let handle = self.handles.get(handle)?;
        if handle.data().is_inline() {
            // One sync of the namespace is enough for bytes and name.
            self.settle(&handle, handle.data().flush_to_sync()).await?;
            // It may have outgrown its inline size.
            if handle.data().is_inline() {
                return self.sync_names(handle.name_losses()).await;
            }
        }
        let data = async {
            let synced = handle.data().sync().await;
            synced.inspect_err(|_| self.metadata.forget_data(handle.id))?;
            Ok(())
        };
        tokio::try_join!(data, self.sync_names(handle.name_losses()))?;
        Ok(())
    }

    /// Sends what any open of the file has written.
    pub(in crate::fs) async fn flush_all(&self, id: u64) -> Result<(), FsError> {
        for handle in self.files.all(id) {
            if handle.write {
                self.settle(&handle, handle.data().flush()).await?;
            }
        }
        Ok(())
    }

    /// Sends what policies delay of a file that is written here, before it is read or changed in
    /// another way, or its size is asked for. `but`: an open whose own calls keep their order.
    pub(in crate::fs) async fn send_waiting(
        &self,
        id: u64,
        but: Option<&Handle>,
    ) -> Result<(), FsError> {
        if self.files.writes_through(id) {
            for handle in self.files.all(id) {
                if but.is_none_or(|but| !std::ptr::eq(but, &raw const *handle)) {
                    let sent = handle.data().file().send_waiting().await;
                    sent.map_err(FsError::from)?;
                }
            }
        }
        Ok(())
    }

    /// The last descriptor of an open is closed.
    pub async fn release(&self, handle: u64) {
        if is_view(handle) {
            return self.release_view(handle).await;
        }
        if let Some(handle) = self.handles.remove(handle) {
            self.close(handle).await;
        }
    }

    pub(in crate::fs) async fn close(&self, handle: Arc<Handle>) {
        self.unlock_open(&handle).await;
        let _at_rest = handle.in_flight.write().await;
        if let Some(asked) = handle.keeps
            && !self.metadata.file_overtaken(asked.metadata, handle.id)
            && handle.data().release()
        {
            let file = handle.file().clone();
            self.keep(Kept { asked, file }).await;
            self.volume.closed_kept();
            self.files.remove(&handle);
            return;
        }
        let asked = self.metadata.now();
        let result = handle.data().close().await;
        match &result {
            Ok(Some(closed)) => self.learn_at_close(asked, &closed.attributes, closed.alone),
            _ if handle.has_written() => {
                self.metadata.touched(handle.id);
                self.metadata.nodes().settled(handle.id, None);
            }
            _ => {}
        }
        self.files.remove(&handle);
        if let Err(error) = result {
            self.metadata.forget_data(handle.id);
            tracing::warn!(file = self.metadata.shown(handle.id), %error, "cannot close a file");
        }
    }

    /// While the file was open for writing its size and times were uncertain; now they are known.
    fn learn_at_close(&self, asked: AskedAt, attributes: &Attributes, alone: bool) {
        let answer = Answer::exact(attributes);
        self.metadata.touched_to(asked, &answer, alone);
        if !self.metadata.nodes().was_reported(&answer.attr) {
            self.metadata.attributes_changed(answer.attr.id);
        }
    }
}
