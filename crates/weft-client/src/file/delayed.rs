//! The queue of writes that a policy delays (CAPFS §3.6, `delay_commit`); `commit.rs` says when
//! they leave.

use std::any::Any;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::Error;
use crate::limits::{DELAYED_BYTES_MAX, DELAYED_WRITES_MAX};

/// A write that waits. It keeps its file attached.
pub(crate) trait Waiting: Any + Send {
    /// How many bytes of memory it holds, about.
    fn bytes(&self) -> u64;
    /// Takes over one that follows it directly; gives it back otherwise.
    fn join(&mut self, next: Box<dyn Waiting>) -> Option<Box<dyn Waiting>>;
    /// Leaves.
    fn send(self: Box<Self>) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;
}

/// The writes of one attachment that wait.
#[derive(Default)]
pub(crate) struct Delayed {
    pub(super) queue: parking_lot::Mutex<Queue>,
    /// Held while they leave, so that none overtakes another.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// One was added while another one's time was waited for.
    pub(super) earlier: tokio::sync::Notify,
}

/// Writes leave as long as it lives.
pub(super) struct Sending<'a>(&'a Delayed);

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().sending -= 1;
    }
}

impl Delayed {
    pub(super) fn sending(&self, queue: &mut Queue) -> Sending<'_> {
        queue.sending += 1;
        Sending(self)
    }
}

#[derive(Default)]
pub(super) struct Queue {
    pub(super) writes: Vec<Box<dyn Waiting>>,
    pub(super) bytes: u64,
    /// When the oldest leaves.
    pub(super) leave: Option<Instant>,
    /// How many calls send what waited.
    pub(super) sending: usize,
    /// A task waits for the oldest.
    pub(super) timed: bool,
    /// Of writes that left by themselves.
    pub(super) failed: Option<Error>,
}

impl Queue {
    pub(super) fn push(&mut self, write: Box<dyn Waiting>, delay: Duration) {
        self.bytes += write.bytes();
        let left = match self.writes.last_mut() {
            Some(last) => last.join(write),
            None => Some(write),
        };
        self.writes.extend(left);
        let leave = Instant::now() + delay;
        self.leave = Some(self.leave.map_or(leave, |earlier| earlier.min(leave)));
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= DELAYED_BYTES_MAX || self.writes.len() >= DELAYED_WRITES_MAX
    }
}
