//! Changes that the servers make by themselves to bytes that the cache may have: clear, extend,
//! copy; and what another mount may have written.

use weft_layout::{FileOffset, ViewOffset};

use super::open_data::OpenData;
use crate::data::error::DataError;
use crate::limits::COPIED_HERE_MAX;

impl OpenData {
    /// Clears bytes and frees their space; the file keeps its size.
    ///
    /// # Durability
    /// As of a write that has reached the servers.
    pub async fn clear(&self, offset: u64, length: u64) -> Result<(), DataError> {
        self.flush().await?;
        let data = self.data();
        let _turn = data.turn().await;
        let _hold = data.quiesce(self.file()).await?;
        let view = self.file().canonical()?;
        let clear = || view.clear(ViewOffset(offset), length);
        let cleared = data.resources().outages().retry(clear).await;
        let range = offset..offset.saturating_add(length);
        data.state().drop_prefetched(&range);
        Ok(cleared?)
    }

    /// Makes the file at least this long, with a hole at its end; a longer one stays as it is, even
    /// if other clients write it meanwhile.
    ///
    /// # Durability
    /// As of a write that has reached the servers.
    pub async fn extend(&self, size: u64) -> Result<(), DataError> {
        self.flush().await?;
        let data = self.data();
        let _turn = data.turn().await;
        let _hold = data.quiesce(self.file()).await?;
        let extend = || self.file().extend(size);
        let extended = data.resources().outages().retry(extend).await;
        let mut state = data.state();
        state.drop_prefetched(&(0..u64::MAX));
        match extended {
            Ok(()) => state.note_write(self.number(), size),
            Err(_) => state.forget_size(),
        }
        Ok(extended?)
    }

    /// Copies bytes of another open file to this one, as far as that one reaches; returns how many.
    /// The servers copy, except small files, which cost fewer calls to read and write: then the
    /// result is `None`, and the caller does that.
    ///
    /// # Durability
    /// As of a write that has reached the servers.
    pub async fn copy_from(
        &self,
        from: &OpenData,
        from_offset: u64,
        offset: u64,
        length: u64,
    ) -> Result<Option<u64>, DataError> {
        let left = from.known_end().map(|end| end.saturating_sub(from_offset));
        if length.min(left.unwrap_or(length)) <= COPIED_HERE_MAX {
            return Ok(None);
        }
        // First: a file that has outgrown the inline size moves to the cells with this.
        from.send().await;
        if from.is_inline() {
            return Ok(None);
        }
        self.flush().await?;
        let data = self.data();
        let _turn = data.turn().await;
        let _hold = data.quiesce(self.file()).await?;
        from.data().require_cells(from.file()).await?;
        let (at, to) = (FileOffset(from_offset), FileOffset(offset));
        let copy = || self.file().copy_range(from.file(), at, to, length);
        let copied = data.resources().outages().retry(copy).await;
        let mut state = data.state();
        state.drop_prefetched(&(offset..offset.saturating_add(length)));
        match copied {
            Ok(0) => Ok(Some(0)),
            Ok(copied) => {
                state.note_write(self.number(), offset + copied);
                Ok(Some(copied))
            }
            Err(failure) => {
                state.forget_size();
                Err(failure.into())
            }
        }
    }

    /// Drops everything clean: another mount may have written the file, and its bytes must show.
    pub async fn drop_clean(&self) -> Result<(), DataError> {
        let data = self.data();
        if self.may_be_inline() {
            // In the cells no client's copy of the whole content overwrites another's.
            let _turn = data.turn().await;
            data.quiesce(self.file()).await?;
        }
        data.invalidate();
        Ok(())
    }
}
