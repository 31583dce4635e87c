//! An open file.

use std::sync::Arc;

use bytes::Bytes;
use weft_client::{File, OpenView};
use weft_layout::ViewOffset;

use super::{DataCache, DataError};

/// One open file description.
pub struct OpenData {
    view: OpenView,
}

impl OpenData {
    pub(super) fn new(_cache: Arc<DataCache>, file: File) -> Result<OpenData, DataError> {
        Ok(OpenData {
            view: file.canonical()?,
        })
    }

    /// The attached file below.
    pub fn file(&self) -> &File {
        self.view.file()
    }

    /// Reads `length` bytes from `offset` on; fewer at the file's end.
    pub async fn read(&self, offset: u64, length: usize) -> Result<Bytes, DataError> {
        let mut buffer = vec![0; length];
        let moved = self.view.read_at(ViewOffset(offset), &mut buffer).await?;
        if moved < length as u64 {
            let rest = self.size().await?.saturating_sub(offset);
            buffer.truncate(usize::try_from(rest).unwrap_or(usize::MAX));
        }
        Ok(buffer.into())
    }

    /// Writes.
    pub async fn write(&self, offset: u64, data: Bytes) -> Result<(), DataError> {
        self.view.write_at(ViewOffset(offset), data).await?;
        Ok(())
    }

    /// Writes at the end of the file and tells where that was.
    pub async fn append(&self, data: Bytes) -> Result<u64, DataError> {
        let offset = self.size().await?;
        self.write(offset, data).await?;
        Ok(offset)
    }

    /// Everything written is at the servers.
    pub async fn flush(&self) -> Result<(), DataError> {
        Ok(())
    }

    /// Everything written survives power loss.
    pub async fn sync(&self) -> Result<(), DataError> {
        self.file().sync().await?;
        Ok(())
    }

    /// Sets the size.
    pub async fn truncate(&self, size: u64) -> Result<(), DataError> {
        self.file().truncate(size).await?;
        Ok(())
    }

    /// One past the last byte as far as known without asking.
    pub fn known_end(&self) -> Option<u64> {
        None
    }

    /// The file's size.
    pub async fn size(&self) -> Result<u64, DataError> {
        Ok(self.file().size().await?)
    }

    /// Flushes, reports size and time, detaches.
    pub async fn close(self) -> Result<(), DataError> {
        self.flush().await?;
        self.file().close().await?;
        Ok(())
    }

    /// Forgets what was read ahead and what is known of the size: somebody else changed the file.
    pub fn invalidate(&self) {}
}
