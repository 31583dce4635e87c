//! Small files whose bytes lie with their metadata: they are stored whole, or moved to the cells
//! once they grow.

use bytes::Bytes;
use weft_client::{File, Store};
use weft_proto::Code;

use super::file_data::FileData;
use crate::data::error::DataError;
use crate::outage::CallFailure;

impl FileData {
    /// Makes sure that views of this attachment work. No message unless the file is inline.
    pub(in crate::data) async fn require_cells(&self, file: &File) -> Result<(), DataError> {
        if file.inline_data().is_some() {
            self.resources().outages().retry(|| file.spill()).await?;
        }
        Ok(())
    }

    /// Asks again for the content of an inline file, if another client may have changed it. One
    /// request then.
    pub(in crate::data) async fn refresh_content(&self, file: &File) -> Result<(), CallFailure> {
        while self.state().is_doubtful() {
            let asked = self.resources().clock().now();
            let outages = self.resources().outages();
            let inline = outages.retry(|| file.ask_inline()).await?;
            if self.state().learn_content(asked, inline) {
                break;
            }
        }
        Ok(())
    }

    /// Stores all content; false if the file's bytes have moved to the cells meanwhile.
    pub(super) async fn store_inline(
        &self,
        file: &File,
        content: &Bytes,
        written: i64,
    ) -> Result<bool, CallFailure> {
        let clock = self.resources().clock();
        let began = clock.now();
        let how = Store {
            modified: written,
            ..Store::default()
        };
        let store = || file.store_inline_with(content.clone(), &how);
        match self.resources().outages().retry(store).await {
            Ok(attributes) => {
                let mut state = self.state();
                state.stored(content, written, attributes, began, clock);
                Ok(true)
            }
            Err(failure) if failure.error.code() == Code::Spilled => {
                self.state().set_in_cells();
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Moves the content to the cells.
    pub(super) async fn move_to_cells(&self, file: &File) -> Result<(), CallFailure> {
        let moved = self.resources().outages().retry(|| file.spill()).await;
        self.state().end_move(moved.is_ok());
        moved
    }
}
