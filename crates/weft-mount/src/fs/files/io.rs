//! Reads and writes of open files.

use std::ops::Range;

use bytes::Bytes;

use super::handle::Handle;
use super::modes::{WriteHow, WriteWay};
use crate::fs::upper_cache::FileCopies;
use crate::fs::view_ids::is_view;
use crate::fs::{FileSystem, FsError};
use crate::limits::SHORT_READ_SIZE_VALID;

impl FileSystem {
    /// Reads, in the buffers in which the bytes arrived; fewer bytes than asked for only at the end
    /// of the file. `pages`: for the kernel's pages of the file.
    pub async fn read(
        &self,
        handle: u64,
        offset: u64,
        length: usize,
        pages: bool,
    ) -> Result<Vec<Bytes>, FsError> {
        if is_view(handle) {
            return Ok(vec![self.read_view(handle, offset, length).await?]);
        }
        let handle = self.handles.get(handle)?;
        if pages {
            handle.pages.note_read();
        }
        if let Some(opening) = handle.opening.lock().take() {
            self.metadata.nodes().first_read(handle.id, opening);
        }
        // The kernel drops the time of access by itself.
        handle.set_atime_pending(false);
        if handle.counts {
            self.accessed(handle.id);
        }
        if handle.data().is_write_through() {
            // Another open's policy may delay them.
            self.send_waiting(handle.id, Some(&handle)).await?;
        }
        let bytes = handle.data().read_buffers(offset, length).await?;
        if bytes.len() < length {
            self.found_end(handle.id, offset + bytes.len() as u64);
        }
        Ok(bytes.buffers().cloned().collect())
    }

    /// A read found the end of the file here. If the kernel has a larger size, it takes the file
    /// for as short from now on; so that size is invalidated a moment later.
    fn found_end(&self, id: u64, end: u64) {
        if self.metadata.nodes().ends_at(id, end)
            && let Some(upper) = self.metadata.upper().cloned()
        {
            tokio::spawn(async move {
                tokio::time::sleep(SHORT_READ_SIZE_VALID).await;
                upper.invalidate_file(id, FileCopies::Attributes);
            });
        }
    }

    /// Writes. When it returns the bytes are in the data cache, or at the servers if nothing is
    /// cached; they survive power loss if that is asked for and the kernel does not ask for it
    /// itself.
    pub async fn write(
        &self,
        handle: u64,
        offset: u64,
        data: Bytes,
        how: WriteHow,
    ) -> Result<(), FsError> {
        if is_view(handle) {
            return self.write_view(handle, offset, data, how).await;
        }
        let number = handle;
        let handle = self.handles.get(handle)?;
        let _at_work = handle.in_flight.read().await;
        if handle.data().is_write_through() {
            self.send_waiting(handle.id, Some(&handle)).await?;
        }
        let synced = how.synced && handle.past.direct;
        let durable = synced.then(|| handle.data().durable_sends());
        let failures = handle.data().failures();
        if how.kill_set_id.is_some() || how.append || handle.past.all {
            self.strip(&handle, how.kill_set_id).await?;
        }
        let offset = if how.append {
            handle.data().append_offset(data.len() as u64).await?
        } else {
            offset
        };
        let range = offset..offset.saturating_add(data.len() as u64);
        match how.way {
            WriteWay::Through => {
                handle.data().write(offset, data).await?;
                self.written(&handle);
            }
            WriteWay::Back => {
                let write = handle.pages.write_back(range);
                for part in write.parts() {
                    let slice = (part.start - offset) as usize..(part.end - offset) as usize;
                    handle.data().write(part.start, data.slice(slice)).await?;
                }
                self.written(&handle);
            }
            WriteWay::Past => {
                let write = async {
                    handle.data().write(offset, data).await?;
                    self.written(&handle);
                    Ok(())
                };
                self.bypassing_pages(&handle, range, write).await?;
            }
        }
        if synced {
            self.sync(number).await?;
            // The failure may have been reported to another write of this descriptor.
            handle.data().failed_since(failures)?;
        }
        drop(durable);
        Ok(())
    }

    /// Whether a program writes this file through the kernel's pages.
    pub fn is_written_through_pages(&self, id: u64) -> bool {
        self.files.is_written_through_pages(id)
    }

    /// Makes a change of a range past the kernel's pages: when it returns no page shows the old
    /// bytes, and none brings them back. Why this works: `pages`.
    pub(in crate::fs) async fn bypassing_pages<T>(
        &self,
        handle: &Handle,
        range: Range<u64>,
        change: impl Future<Output = Result<T, FsError>>,
    ) -> Result<T, FsError> {
        let _mask = handle.pages.mask(range.clone()).await;
        let changed = change.await;
        if handle.pages.were_read() {
            self.metadata.drop_pages(handle.id, range).await?;
        }
        changed
    }

    /// An open has put bytes into the data cache.
    pub(in crate::fs) fn written(&self, handle: &Handle) {
        handle.note_wrote();
        if handle.data().is_inline() {
            // Its bytes change the namespace, whenever they are stored.
            self.metadata.note_own_change();
        }
        self.metadata.nodes().settled(handle.id, None);
        self.files.wrote(handle.id, handle.data().written());
        self.files.changed(handle.id, Some(handle));
    }

    /// This mount has changed a file's size, or bytes at the servers, by a call that `began` then:
    /// the times that service and servers note are later, and must not seem to go back.
    pub(in crate::fs) fn resized(&self, id: u64, began: i64) {
        self.data.note_changed(id);
        self.metadata.touched(id);
        self.metadata.nodes().settled(id, None);
        self.files.wrote(id, began);
        self.files.changed(id, None);
    }
}
