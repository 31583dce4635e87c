//! Log frames: every change of the state queues one under the same lock.

use super::StoreState;
use crate::error::StoreError;
use crate::log::{FrameQueue, LogHead, OpenFrame};
use crate::record::{ItemRecord, new_body};

impl StoreState {
    /// The log was recovered up to frame `sequence`, for this replay cost.
    pub(crate) fn recovered(&mut self, sequence: u64, cost: u64) {
        self.head = LogHead::recovered(sequence, cost);
    }

    /// The last frame's sequence.
    pub(crate) fn sequence(&self) -> u64 {
        self.head.sequence()
    }

    /// The sequence of the next frame.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.head.sequence() + 1
    }

    /// The head of the log, with the progress of the later stages.
    pub(crate) fn head(&self) -> &LogHead {
        &self.head
    }

    /// Adds to the cost of replaying the log.
    pub(crate) fn charge_replay(&mut self, cost: u64) {
        self.head.charge(cost);
    }

    /// Queues a frame for the log; returns its sequence.
    pub(crate) fn log(&mut self, body: &[u8]) -> u64 {
        let sequence = self.head.append(body);
        self.frame_queued(body.len());
        sequence
    }

    /// Queues a frame whose items `fill` writes; returns its sequence. `fill` may split it by
    /// [`StoreState::next_frame`], but queues no other frame.
    pub(crate) fn log_with(
        &mut self,
        modified: i64,
        fill: impl FnOnce(&mut StoreState, &mut OpenFrame),
    ) -> u64 {
        let mut frame = self.head.begin(modified);
        fill(self, &mut frame);
        self.end_frame(frame)
    }

    /// Queues the open frame and begins another.
    pub(crate) fn next_frame(&mut self, frame: &mut OpenFrame) {
        let modified = frame.modified;
        let whole = std::mem::replace(frame, OpenFrame::empty());
        self.end_frame(whole);
        *frame = self.head.begin(modified);
    }

    fn end_frame(&mut self, frame: OpenFrame) -> u64 {
        let bytes = frame.bytes();
        let sequence = self.head.end(frame);
        self.frame_queued(bytes);
        sequence
    }

    /// After many frames since the last sync, a frame reports which forks they touched.
    fn frame_queued(&mut self, bytes: usize) {
        if self.touches().frame(bytes) {
            let mut body = new_body(0);
            self.append_touched(None, &mut body);
            self.head.append_note(&body);
        }
    }

    /// Swaps the frames that wait for the log with `frames`, which is empty; returns the sequence
    /// of the last one.
    pub(crate) fn take_frames(&mut self, frames: &mut FrameQueue) -> u64 {
        self.head.take(frames)
    }

    /// Everything up to frame `through` is on stable storage: frees the blocks that waited for
    /// that, and queues a `Synced` record, with the touched forks, for the segment where it will
    /// be.
    pub(crate) fn synced(&mut self, through: u64, segment: u64) {
        if let Some(covers) = self.head.synced(through) {
            self.space.release(covers);
        }
        let mut body = new_body(0);
        ItemRecord::Synced { through }.encode(&mut body);
        self.append_touched(Some(segment), &mut body);
        self.head.append_synced(through, &body);
    }

    /// The index has everything logged up to this replay cost.
    pub(crate) fn applied(&mut self, logged: u64) {
        self.head.applied(logged);
    }

    /// The index's tables have everything up to this replay cost.
    pub(crate) fn settled(&mut self, indexed: u64) {
        self.head.settled(indexed);
    }

    /// Closes the store to writes; keeps and returns the first failure.
    pub(crate) fn fail(&mut self, error: StoreError) -> StoreError {
        self.health.fail(error)
    }

    /// Closes the store to reads as well: its state is half changed.
    pub(crate) fn tear(&mut self, error: StoreError) {
        self.health.tear(error);
    }

    /// The failure that closed the store to writes.
    pub(crate) fn failure(&self) -> Option<&StoreError> {
        self.health.failure()
    }

    /// Closes the store at its owner's request.
    pub(crate) fn close(&mut self) {
        self.health.close();
    }

    /// Whether its owner closed the store.
    pub(crate) fn is_closed(&self) -> bool {
        self.health.is_closed()
    }

    /// Fails if the store failed.
    pub(crate) fn check_failed(&self) -> Result<(), StoreError> {
        self.health.failure().cloned().map_or(Ok(()), Err)
    }

    /// Fails if the store failed or was closed.
    pub(crate) fn check_writable(&self) -> Result<(), StoreError> {
        self.check_failed()?;
        if self.health.is_closed() {
            return Err(StoreError::Closed);
        }
        Ok(())
    }
}
