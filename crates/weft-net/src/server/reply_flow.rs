//! The flow control of one call's reply.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Semaphore;

/// The caller is gone or no longer wants the answer.
#[derive(Clone, Copy, Debug)]
pub struct Gone;

/// The window of a call's reply, and whether the caller still waits.
pub(super) struct ReplyFlow {
    /// What may still be sent; closed when the call is cancelled.
    window: Semaphore,
    cancelled: AtomicBool,
    long: AtomicBool,
    taken: AtomicU64,
}

impl ReplyFlow {
    pub(super) fn new(window: u32) -> Self {
        ReplyFlow {
            window: Semaphore::new(window as usize),
            cancelled: AtomicBool::new(false),
            long: AtomicBool::new(false),
            taken: AtomicU64::new(0),
        }
    }

    /// Gives the call a task of its own at its next wait.
    pub(super) fn become_long(&self) {
        self.long.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_long(&self) -> bool {
        self.long.load(Ordering::Relaxed)
    }

    pub(super) fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Window of the reply that the client has credited so far.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// Waits for window to send a frame.
    ///
    /// # Cancellation
    /// Safe: nothing is taken.
    pub(super) async fn acquire(&self, cost: u64) -> Result<(), Gone> {
        let permit = self.window.acquire_many(cost as u32).await;
        permit.map_err(|_| Gone)?.forget();
        Ok(())
    }

    /// Completes when the call is cancelled. Not for a reply that carries payload: this holds up
    /// its frames.
    pub(super) async fn ended(&self) {
        // The window is never that large: the semaphore can only close.
        let _ = self.window.acquire_many(u32::MAX).await;
    }

    /// The client has credited `bytes` of a window of `total`. Returns whether that many were in
    /// flight. Called by the connection's task only.
    pub(super) fn credit(&self, bytes: u32, total: u32) -> bool {
        if self.window.available_permits() + bytes as usize > total as usize {
            return false;
        }
        self.taken.fetch_add(bytes.into(), Ordering::AcqRel);
        self.window.add_permits(bytes as usize);
        true
    }

    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.window.close();
    }
}
