//! The source of the log's frames.

use super::queue::FrameQueue;
use crate::error::StoreError;

/// The owner of the frames that wait to be appended.
pub(crate) trait FrameSource {
    /// Swaps the waiting frames with `frames`, which is empty; returns the sequence of the last
    /// one.
    ///
    /// # Errors
    /// The failure that closed the store to writes; the frames stay queued.
    fn take(&self, frames: &mut FrameQueue) -> Result<u64, StoreError>;

    /// The sequence of the last frame that was queued.
    fn last(&self) -> u64;

    /// Closes the store to writes: the log lacks frames that were taken.
    fn fail(&self, error: StoreError);
}

/// Guards frames that were taken and are not in the log yet: a panic meanwhile closes the store to
/// writes.
pub(super) struct TakenFrames<'a, S: FrameSource>(pub(super) &'a S);

impl<S: FrameSource> Drop for TakenFrames<'_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(StoreError::panicked());
        }
    }
}
