//! The file's size: known, asked, grown by writes.

use tokio::time::Instant;
use weft_client::File;

use super::DataError;
use super::file::FileData;
use super::state::{Home, State};
use crate::limits::{SIZE_QUERIES_MAX, SIZE_VALID};

/// A question to the servers whose answer tells the size; under way until it is answered or
/// dropped.
#[must_use = "dropped, the question counts as given up"]
pub struct Asking<'a> {
    data: &'a FileData,
    generation: u64,
    losses: u64,
    number: u64,
}

/// Nobody waits for the answer any more: whoever asked was interrupted.
impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.data.state.lock().ends.asking -= 1;
    }
}

impl Asking<'_> {
    /// What the servers said, `None` if nothing. Returns the end as known now. Of two answers that
    /// arrive in the other order the later question's stays: what a program has seen of a growing
    /// file never goes back.
    pub fn answered(self, size: Option<u64>) -> u64 {
        let mut state = self.data.state.lock();
        let ends = &mut state.ends;
        if let Some(size) = size
            && ends.generation == self.generation
            && ends.losses == self.losses
            && ends.answered <= self.number
        {
            ends.answered = self.number;
            ends.end = size.max(ends.grown);
            ends.known = Some(Instant::now());
        }
        ends.asking -= 1;
        // Later news may have taken back what was known since: who asked before them goes by this
        // answer all the same.
        let end = match size {
            Some(size) if ends.known.is_none() && ends.generation == self.generation => {
                size.max(ends.grown)
            }
            _ => ends.end,
        };
        drop(state);
        // It is counted down already, under the same lock.
        std::mem::forget(self);
        end
    }
}

impl FileData {
    /// The size, if it can be told without asking.
    pub(super) fn fresh_end(&self, state: &State) -> Option<u64> {
        if !matches!(state.home, Home::Cells) {
            return Some(state.ends.end);
        }
        let fresh = state.ends.known.is_some_and(|at| at.elapsed() < SIZE_VALID);
        (fresh && self.cache.config.write_behind).then_some(state.ends.end)
    }

    /// The size; one request to each server unless it is known.
    pub(super) async fn size(&self, file: &File) -> Result<u64, DataError> {
        self.ask_again(file).await?;
        let fresh = self.fresh_end(&self.state.lock());
        match fresh {
            Some(end) => Ok(end),
            None => self.ask_size(file).await,
        }
    }

    /// One request to each server; again where something was lost meanwhile: what the answer was
    /// taken to lack is not to come.
    pub(super) async fn ask_size(&self, file: &File) -> Result<u64, DataError> {
        self.to_cells(file).await?;
        let mut tries = 0;
        loop {
            tries += 1;
            let asking = self.begin_asking();
            let losses = asking.losses;
            let answer = self.cache.outages.wait_out(|| file.size()).await;
            let end = asking.answered(answer.as_ref().ok().copied());
            answer?;
            if tries == SIZE_QUERIES_MAX || self.state.lock().ends.losses == losses {
                return Ok(end);
            }
        }
    }

    /// Must come before the question is sent: what is on its way now, or is written until the
    /// answer is here, the answer may or may not tell of.
    pub(super) fn begin_asking(&self) -> Asking<'_> {
        let mut state = self.state.lock();
        let unsent = state.extents.end();
        let ends = &mut state.ends;
        if ends.asking == 0 {
            ends.grown = 0;
        }
        ends.grown = ends.grown.max(unsent);
        ends.asking += 1;
        ends.asked += 1;
        Asking {
            data: self,
            generation: ends.generation,
            losses: ends.losses,
            number: ends.asked,
        }
    }
}
