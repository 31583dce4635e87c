//! Changes that need the file at rest: no batch in flight, and none sent meanwhile.

use std::sync::Arc;

use weft_client::File;

use super::file_data::{FileData, Hold};
use crate::data::error::DataError;
use crate::data::state::{FileState, Truncated};

impl FileData {
    /// Sets the size by a call that is made while the file is at rest: one of the attachment
    /// `attached`, or another.
    pub(in crate::data) async fn truncate<E>(
        self: &Arc<Self>,
        attached: Option<&File>,
        size: u64,
        truncate: impl Future<Output = Result<(), E>>,
    ) -> Result<(), E> {
        let _turn = self.turn().await;
        let _hold = Hold::new(self);
        self.wait_until(FileState::is_idle).await;
        let done = truncate.await;
        let clock = self.resources().clock();
        let mut state = self.state();
        if done.is_err() {
            state.truncation_failed(clock);
            return done;
        }
        let by = match attached {
            Some(file) => Truncated::Here {
                inline: file.inline_data().is_some(),
            },
            None => Truncated::Elsewhere,
        };
        state.truncated(size, by, clock);
        Ok(())
    }

    /// While the result lives, the file is at rest and its bytes are in the cells. The caller must
    /// have flushed.
    pub(in crate::data) async fn quiesce(
        self: &Arc<Self>,
        file: &File,
    ) -> Result<Hold<'_>, DataError> {
        let hold = Hold::new(self);
        self.wait_until(FileState::is_idle).await;
        self.require_cells(file).await?;
        self.state().begin_server_side_change();
        Ok(hold)
    }
}
