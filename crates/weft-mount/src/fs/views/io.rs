//! Opens, reads and writes views.

use std::sync::Arc;

use bytes::Bytes;
use rustix::io::Errno;
use weft_layout::ViewOffset;

use super::handle::{OpenViewHandle, WriteInProgress};
use super::lookup::parse;
use super::nodes::ViewNode;
use crate::fs::files::{Opened, WriteHow, access, writes};
use crate::fs::view_ids::{MARK, read_only};
use crate::fs::{Caller, FileSystem, FsError};

impl FileSystem {
    pub(in crate::fs) async fn open_view(
        &self,
        caller: Caller,
        id: u64,
        flags: i32,
    ) -> Result<Opened, FsError> {
        let node = self.views.get(id)?;
        let id = match &node {
            ViewNode::View { file, .. } => *file,
            ViewNode::FileAt(_) if writes(flags) => return Err(read_only()),
            ViewNode::FileAt(saved) => saved.file,
            _ => return Err(FsError::refused("the view is a directory", Errno::ISDIR)),
        };
        self.flush_all(id).await?;
        let volume = self.on(caller);
        let access = access(flags);
        let file = self
            .call(|| volume.attach(self.metadata.place(id), access.clone()))
            .await?;
        let view = if let ViewNode::View { text, .. } = &node {
            let (_, view, fork) = parse(text, file.layout())?;
            file.view_of_fork(view, &fork)?
        } else {
            file.canonical()?
        };
        let view = match &node {
            ViewNode::FileAt(saved) => view.of_checkpoint_number(saved.number),
            _ => view,
        };
        let size = self.call(|| view.size()).await?;
        let handle =
            self.view_handles
                .insert(Arc::new(OpenViewHandle::new(id, view, size, writes(flags))));
        Ok(Opened {
            handle: handle | MARK,
            keep_pages: false,
            direct: true,
            parallel: true,
        })
    }

    fn view_handle(&self, handle: u64) -> Result<Arc<OpenViewHandle>, FsError> {
        self.view_handles.get(handle & !MARK)
    }

    /// A view is all data and ends with a hole.
    pub(in crate::fs) async fn seek_view(
        &self,
        handle: u64,
        offset: u64,
        whence: i32,
    ) -> Result<u64, FsError> {
        let handle = self.view_handle(handle)?;
        let size = self.call(|| handle.view.size()).await?;
        handle.set_size(size);
        match whence {
            _ if offset >= size => Err(FsError::refused(
                "there is no data or hole behind this offset",
                Errno::NXIO,
            )),
            libc::SEEK_DATA => Ok(offset),
            libc::SEEK_HOLE => Ok(size),
            _ => Err(FsError::refused(
                "the kind of seek is unknown",
                Errno::INVAL,
            )),
        }
    }

    pub(in crate::fs) async fn read_view(
        &self,
        handle: u64,
        offset: u64,
        length: usize,
    ) -> Result<Bytes, FsError> {
        let handle = self.view_handle(handle)?;
        let end = offset.saturating_add(length as u64);
        let mut size = handle.size();
        if end > size {
            size = self.call(|| handle.view.size()).await?;
            handle.set_size(size);
        }
        let there =
            usize::try_from(size.saturating_sub(offset)).map_or(length, |there| there.min(length));
        // Ghosts and holes leave the zeros of the buffer.
        let mut buffer = vec![0; there];
        handle.view.read_at(ViewOffset(offset), &mut buffer).await?;
        Ok(buffer.into())
    }

    pub(in crate::fs) async fn write_view(
        &self,
        handle: u64,
        offset: u64,
        data: Bytes,
        how: WriteHow,
    ) -> Result<(), FsError> {
        let handle = self.view_handle(handle)?;
        self.strip_file((handle.file, &handle.stripped), how.kill_set_id)
            .await?;
        let offset = if how.append {
            self.call(|| handle.view.size()).await?
        } else {
            offset
        };
        let at = ViewOffset(offset);
        let _write = WriteInProgress::begin(&handle);
        if how.synced {
            handle.view.write_at_synced(at, data).await?;
        } else {
            handle.view.write_at(at, data).await?;
        }
        Ok(())
    }

    /// After writes: drops all copies of the file's data here, which are old. No reader gets them
    /// when this returns.
    pub(in crate::fs) async fn flush_view(&self, handle: u64) -> Result<(), FsError> {
        let handle = self.view_handle(handle)?;
        if let Some(writes) = handle.pending_invalidation() {
            self.metadata.forget_data(handle.file);
            self.metadata.drop_pages(handle.file, 0..u64::MAX).await?;
            handle.note_invalidated(writes);
        }
        Ok(())
    }

    pub(in crate::fs) async fn sync_view(&self, handle: u64) -> Result<(), FsError> {
        self.flush_view(handle).await?;
        let handle = self.view_handle(handle)?;
        self.call(|| handle.view.file().sync()).await
    }

    pub(in crate::fs) async fn release_view(&self, handle: u64) {
        let _ = self.flush_view(handle).await;
        if let Some(handle) = self.view_handles.remove(handle & !MARK)
            && let Err(error) = handle.view.file().close().await
        {
            tracing::warn!(file = self.metadata.shown(handle.file), write = handle.write, %error, "cannot close a view");
        }
    }
}
