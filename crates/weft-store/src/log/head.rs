//! The head of the log: frames that wait to be appended, and the progress of each later stage.
//!
//! Invariants:
//! 1. Sequences count frames without a gap; `pending` holds the last of them, in order.
//! 2. `settled <= indexed <= logged`: the index's journal has all that its tables have, and the log
//!    had all that the journal has.
//! 3. While a frame is open, no other is queued, so that none gets ahead of it.

use super::queue::{FrameQueue, OpenFrame};

/// The head of a store's log.
#[derive(Debug, Default)]
pub(crate) struct LogHead {
    sequence: u64,
    last_change: u64,
    pending: FrameQueue,
    open: bool,
    durable: u64,
    /// The newest `Synced` record: its sequence, and the last frame that it covers.
    synced: Option<(u64, u64)>,
    logged: u64,
    indexed: u64,
    settled: u64,
}

impl LogHead {
    /// The head of a log that recovery replayed up to frame `sequence` at this cost.
    pub(crate) fn recovered(sequence: u64, cost: u64) -> Self {
        Self {
            sequence,
            last_change: sequence,
            // The log has the replayed frames until the next application.
            logged: cost,
            ..Self::default()
        }
    }

    /// The last frame's sequence.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The last frame with a change that callers see.
    pub(crate) fn last_change(&self) -> u64 {
        self.last_change
    }

    /// Queues a frame with a change; returns its sequence.
    pub(crate) fn append(&mut self, body: &[u8]) -> u64 {
        self.logged += 1 + body.len() as u64 / 4;
        self.append_note(body);
        self.last_change = self.sequence;
        self.sequence
    }

    /// Queues a frame without a change that callers see.
    pub(crate) fn append_note(&mut self, body: &[u8]) {
        self.queue(false, body);
    }

    /// Queues a `Synced` frame, which says that everything up to frame `through` is on stable
    /// storage.
    pub(crate) fn append_synced(&mut self, through: u64, body: &[u8]) {
        self.queue(true, body);
        self.synced = Some((self.sequence, through));
    }

    fn queue(&mut self, synced: bool, body: &[u8]) {
        assert!(!self.open, "frames are queued one at a time");
        self.sequence += 1;
        self.pending.append(self.sequence, synced, body);
    }

    /// Begins a frame at the end of the queue, so that its items need not be copied.
    pub(crate) fn begin(&mut self, modified: i64) -> OpenFrame {
        assert!(!self.open, "frames are queued one at a time");
        self.open = true;
        std::mem::take(&mut self.pending).begin(modified)
    }

    /// Queues the frame that was begun; returns its sequence.
    pub(crate) fn end(&mut self, frame: OpenFrame) -> u64 {
        self.open = false;
        self.sequence += 1;
        self.last_change = self.sequence;
        self.pending = frame.finish(self.sequence);
        self.sequence
    }

    /// Swaps the waiting frames with `frames`, which is empty; returns the sequence of the last
    /// one.
    pub(crate) fn take(&mut self, frames: &mut FrameQueue) -> u64 {
        std::mem::swap(&mut self.pending, frames);
        self.sequence
    }

    /// Everything up to frame `through` is on stable storage. Returns the last frame that a durable
    /// `Synced` record covers: blocks freed up to there can be reused.
    pub(crate) fn synced(&mut self, through: u64) -> Option<u64> {
        self.durable = self.durable.max(through);
        let covering = self.synced.filter(|(own, _)| *own <= through);
        covering.map(|(_, covers)| covers)
    }

    /// Whether everything up to a frame is on stable storage.
    pub(crate) fn is_durable(&self, sequence: u64) -> bool {
        self.durable >= sequence
    }

    /// Adds to the cost of replaying the log, in units of about 100 ns.
    pub(crate) fn charge(&mut self, cost: u64) {
        self.logged += cost;
    }

    /// The cost of replaying everything ever logged.
    pub(crate) fn logged(&self) -> u64 {
        self.logged
    }

    /// The part of that cost that the index has.
    pub(crate) fn indexed(&self) -> u64 {
        self.indexed
    }

    /// The index has everything that was logged up to this cost.
    pub(crate) fn applied(&mut self, logged: u64) {
        self.indexed = logged;
    }

    /// The index's tables have everything up to this cost. Another application may have ended
    /// meanwhile.
    pub(crate) fn settled(&mut self, indexed: u64) {
        self.settled = self.settled.max(indexed);
    }

    /// The cost of replaying what the index does not have.
    pub(crate) fn to_replay(&self) -> u64 {
        self.logged.saturating_sub(self.indexed)
    }

    /// The additional cost of a replay if the index lost its journal.
    pub(crate) fn unsettled(&self) -> u64 {
        self.indexed.saturating_sub(self.settled)
    }
}
