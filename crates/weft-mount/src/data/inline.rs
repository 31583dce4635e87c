//! Small files whose bytes lie with their metadata: they are stored whole, or moved to the cells
//! once they grow.

use bytes::Bytes;
use weft_client::{File, Store};
use weft_proto::Code;
use weft_proto::limits::INLINE_MAX;

use super::DataError;
use super::extents::Batch;
use super::file::FileData;
use super::state::{Home, State};
use crate::outage::GaveUp;

/// What an inline file with dirty bytes needs next.
pub(super) enum Inlined {
    /// All its content stored, as written at this time; the batch is what changed of it.
    Store(Batch, Bytes, i64),
    /// Its bytes moved to the cells.
    Move,
    /// Its content asked for again, before what is dirty goes over it.
    Ask,
}

impl State {
    /// Takes off with all dirty bytes of an inline file, if they are due or do not fit any more.
    pub(super) fn take_inline(&mut self) -> Option<Inlined> {
        let Home::Inline(content) = &self.home else {
            return None;
        };
        let oldest = self.extents.oldest()?;
        if self.flights > 0 {
            return None;
        }
        if self.extents.end() > INLINE_MAX as u64 {
            self.home = Home::Moving(content.clone());
            return Some(Inlined::Move);
        }
        if oldest >= self.due {
            return None;
        }
        if self.is_doubtful() {
            return Some(Inlined::Ask);
        }
        let content = content.clone();
        let batch = self.extents.take_all()?;
        let mut whole = Vec::from(content);
        for run in &batch.runs {
            let mut at = run.offset as usize;
            for part in &run.parts {
                let end = at + part.len();
                whole.resize(whole.len().max(end), 0);
                whole[at..end].copy_from_slice(part);
                at = end;
            }
        }
        Some(Inlined::Store(batch, whole.into(), self.written))
    }
}

impl FileData {
    /// Makes sure that views of this attachment work. No message unless the file is inline.
    pub(super) async fn to_cells(&self, file: &File) -> Result<(), DataError> {
        if file.inline_data().is_some() {
            self.cache.outages.wait_out(|| file.spill()).await?;
        }
        Ok(())
    }

    /// Asks again for the content of an inline file, if others may have changed it. One request
    /// then.
    pub(super) async fn ask_again(&self, file: &File) -> Result<(), GaveUp> {
        while self.state.lock().is_doubtful() {
            let asked = self.cache.now();
            let now = self.cache.outages.wait_out(|| file.ask_inline()).await?;
            if self.state.lock().learn_home(asked, now) {
                break;
            }
        }
        Ok(())
    }

    /// As [`FileData::ask_again`], for bytes that are lost if it is given up.
    pub(super) async fn learn_again(&self, file: &File) -> Result<(), GaveUp> {
        while self.state.lock().is_doubtful() {
            let asked = self.cache.now();
            let now = self.cache.outages.wait_out(|| file.ask_inline()).await?;
            if self.state.lock().learn_home(asked, now) {
                break;
            }
        }
        Ok(())
    }

    /// Stores all content; false if the file's bytes have moved to the cells meanwhile.
    pub(super) async fn store(
        &self,
        file: &File,
        content: &Bytes,
        written: i64,
    ) -> Result<bool, GaveUp> {
        let began = self.cache.now();
        let how = Store {
            modified: written,
            ..Store::default()
        };
        let store = || file.store_inline_with(content.clone(), &how);
        let stored = self.cache.outages.wait_out(store).await;
        match stored {
            Ok(attributes) => {
                let mut state = self.state.lock();
                state.stored = Some((written, attributes));
                state.changed = self.cache.tick();
                if matches!(state.home, Home::Inline(_)) {
                    state.home = Home::Inline(content.clone());
                    if state.heard > began {
                        // Somebody else may have stored after this, and the answer to a question
                        // have told it already.
                        state.doubted = self.cache.tick();
                    }
                }
                Ok(true)
            }
            Err(gave_up) if gave_up.error.code() == Code::Spilled => {
                self.state.lock().home = Home::Cells;
                Ok(false)
            }
            Err(gave_up) => Err(gave_up),
        }
    }

    /// Moves the content to the cells.
    pub(super) async fn spill(&self, file: &File) -> Result<(), GaveUp> {
        let moved = self.cache.outages.wait_out(|| file.spill()).await;
        let mut state = self.state.lock();
        if let Home::Moving(content) = &state.home {
            state.home = match moved {
                Ok(()) => Home::Cells,
                Err(_) => Home::Inline(content.clone()),
            };
        }
        moved
    }
}
