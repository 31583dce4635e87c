//! Writes, appends and truncations.

use bytes::Bytes;
use weft_layout::{OFFSET_MAX, Storage, ViewOffset};

use super::open_data::OpenData;
use crate::data::error::DataError;
use crate::data::file::Through;

impl OpenData {
    /// Writes. Returns when the bytes are in the cache, or (strict) at the servers. Waits while the
    /// mount has too many dirty bytes.
    pub async fn write(&self, offset: u64, data: Bytes) -> Result<(), DataError> {
        let length = data.len() as u64;
        let end = offset.checked_add(length).filter(|end| *end <= OFFSET_MAX);
        let Some(end) = end else {
            return Err(DataError::PastLimit { offset, length });
        };
        if length == 0 {
            return Ok(());
        }
        if self.data().is_write_through() {
            return self.write_through(offset, data).await;
        }
        self.data().wait_for_budget().await;
        let open = (self.number(), self.file());
        self.data().state().write(open, offset, data, end)?;
        self.data().start();
        Ok(())
    }

    async fn write_through(&self, offset: u64, data: Bytes) -> Result<(), DataError> {
        self.data().require_cells(self.file()).await?;
        let view = self.file().canonical()?;
        let end = offset + data.len() as u64;
        let durable = self.data().state().sends_durably();
        let _through = Through::new(self.data());
        let write = || {
            let (at, data) = (ViewOffset(offset), data.clone());
            let view = &view;
            async move {
                if durable {
                    view.write_at_synced(at, data).await
                } else {
                    view.write_at(at, data).await
                }
            }
        };
        self.data().resources().outages().retry(write).await?;
        let mut state = self.data().state();
        if !durable {
            state.note_unsynced();
        }
        state.note_write(self.number(), end);
        Ok(())
    }

    /// Writes behind all bytes of the file, whichever clients append at the same time, and returns
    /// where: at [`OpenData::append_offset`].
    pub async fn append(&self, data: Bytes) -> Result<u64, DataError> {
        let offset = self.append_offset(data.len() as u64).await?;
        self.write(offset, data).await?;
        Ok(offset)
    }

    /// Reserves a range of this length behind all bytes of the file. One request to the metadata
    /// service; if writes go through also one to each server.
    pub async fn append_offset(&self, length: u64) -> Result<u64, DataError> {
        let data = self.data();
        data.refresh_content(self.file()).await?;
        // The service trusts this mount about the file's end as long as no other client writes it.
        // So the mount must know the end, including what opens have written that have ended since.
        // If writes go through, another client may have truncated the file.
        let (known, truncations) = {
            let state = data.state();
            (state.exact_end(), state.truncations())
        };
        let known = match known.filter(|_| !data.is_write_through()) {
            Some(end) => end,
            None => data.query_size(self.file()).await?,
        };
        let reserve = || {
            let floor = data.state().append_floor(known, truncations);
            self.file().append_offset(length, floor)
        };
        Ok(data.resources().outages().retry(reserve).await?)
    }

    /// The file's time of modification is being set by hand, before what was written here is sent:
    /// those bytes will not change it. False where they must be sent first; then nothing is done.
    pub fn set_time_first(&self) -> bool {
        self.file().layout().storage() == Storage::Plain && self.data().state().set_time()
    }

    /// Sets the size; what was written beyond it is dropped.
    ///
    /// # Durability
    /// As of [`weft_client::File::truncate`].
    pub async fn truncate(&self, size: u64) -> Result<(), DataError> {
        let outages = self.data().resources().outages();
        let truncate = outages.retry(|| self.file().truncate(size));
        let file = Some(self.file());
        Ok(self.data().truncate(file, size, truncate).await?)
    }

    /// As [`OpenData::truncate`], by a call of another attachment.
    pub async fn truncate_by<E>(
        &self,
        size: u64,
        truncate: impl Future<Output = Result<(), E>>,
    ) -> Result<(), E> {
        self.data().truncate(None, size, truncate).await
    }
}
