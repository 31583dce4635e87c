//! What the servers do by themselves with bytes that the cache may have: clearing, copying; and
//! what another mount may have done with them.

use std::sync::Arc;

use weft_client::File;
use weft_layout::{FileOffset, ViewOffset};
use weft_proto::limits::INLINE_MAX;

use super::file::{FileData, Hold};
use super::state::Home;
use super::{DataError, OpenData};

impl FileData {
    /// Everything dirty has been sent, nothing takes off, and the bytes are in the cells, while
    /// what is returned lives.
    async fn rest(self: &Arc<Self>, file: &File) -> Result<Hold<'_>, DataError> {
        let hold = Hold::new(self);
        self.wait_until(|state| state.flights == 0).await;
        self.to_cells(file).await?;
        let mut state = self.state.lock();
        // What is about to be done at the servers is not synced.
        state.unsynced = true;
        if !matches!(state.home, Home::Cells) {
            state.home = Home::Cells;
            state.ends.known = None;
        }
        drop(state);
        Ok(hold)
    }
}

impl OpenData {
    /// Makes bytes zeros and gives back their space; the file keeps its size.
    ///
    /// # Durability
    /// As of a write that has reached the servers.
    pub async fn clear(&self, offset: u64, length: u64) -> Result<(), DataError> {
        self.flush().await?;
        let data = self.data();
        let _turn = data.turn().await;
        let _hold = data.rest(self.file()).await?;
        let view = self.file().canonical()?;
        let clear = || view.clear(ViewOffset(offset), length);
        let cleared = data.cache.outages.wait_out(clear).await;
        data.state
            .lock()
            .drop_ahead(&(offset..offset.saturating_add(length)));
        Ok(cleared?)
    }

    /// Makes the file at least this long, with a hole at its end; one that is as long stays as it
    /// is, whoever writes it meanwhile.
    ///
    /// # Durability
    /// As of a write that has reached the servers.
    pub async fn extend(&self, size: u64) -> Result<(), DataError> {
        self.flush().await?;
        let data = self.data();
        let _turn = data.turn().await;
        let _hold = data.rest(self.file()).await?;
        let extend = || self.file().extend(size);
        let extended = data.cache.outages.wait_out(extend).await;
        let mut state = data.state.lock();
        state.drop_ahead(&(0..u64::MAX));
        match extended {
            Ok(()) => state.grown_to(self.number(), size),
            Err(_) => state.ends.known = None,
        }
        Ok(extended?)
    }

    /// Copies bytes of another open file to this one, as far as that one reaches; returns how many.
    /// By the servers, but for files so small that their bytes lie with their metadata: `None`,
    /// they are to be read and written.
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
        if length <= INLINE_MAX as u64 {
            return Ok(None);
        }
        // First: what has grown beyond a small file's size goes to the cells with it.
        from.send().await;
        if !matches!(from.data().state.lock().home, Home::Cells) {
            return Ok(None);
        }
        self.flush().await?;
        let data = self.data();
        let _turn = data.turn().await;
        let _hold = data.rest(self.file()).await?;
        from.data().to_cells(from.file()).await?;
        let (at, to) = (FileOffset(from_offset), FileOffset(offset));
        let copy = || self.file().copy_range(from.file(), at, to, length);
        let copied = data.cache.outages.wait_out(copy).await;
        let mut state = data.state.lock();
        state.drop_ahead(&(offset..offset.saturating_add(length)));
        match copied {
            Ok(0) => Ok(Some(0)),
            Ok(copied) => {
                state.grown_to(self.number(), offset + copied);
                Ok(Some(copied))
            }
            Err(gave_up) => {
                state.ends.known = None;
                Err(gave_up.into())
            }
        }
    }

    /// The file's bytes are with its metadata, or were when it was opened: the cells tell nothing
    /// of them.
    pub fn may_be_inline(&self) -> bool {
        let inline = !matches!(self.data().state.lock().home, Home::Cells);
        inline || self.file().inline_data().is_some()
    }

    /// Everything written is sent; what could not be is told by the next [`OpenData::flush`].
    pub async fn send(&self) {
        self.data().flush().await;
    }

    /// Forgets whatever is clean: another mount may have written the file, and what it has written
    /// is to be seen.
    pub async fn see_others(&self) -> Result<(), DataError> {
        let data = self.data();
        if self.may_be_inline() {
            // In the cells nobody's copy of the whole content goes over another's.
            let _turn = data.turn().await;
            data.rest(self.file()).await?;
        }
        data.invalidate();
        Ok(())
    }
}
