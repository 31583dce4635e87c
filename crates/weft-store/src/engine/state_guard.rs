//! The lock of the state.

use std::ops::{Deref, DerefMut};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::error::StoreError;
use crate::log::{FrameQueue, FrameSource};
use crate::state::StoreState;

/// The locked state.
///
/// A thread that panics while it holds the lock may leave the state half changed: the guard then
/// closes the store, to reads as well, and wakes the calls that wait. What is in the log is whole,
/// so opening the store again repairs it.
pub(crate) struct StateGuard<'a> {
    state: MutexGuard<'a, StoreState>,
    waiting_calls: &'a Notify,
    /// The thread was unwinding when it took the lock: the cause of that panic was not the state.
    unwinding: bool,
}

impl<'a> StateGuard<'a> {
    /// Waits for the lock; `waiting_calls` are woken if the state is closed.
    pub(super) fn lock(state: &'a Mutex<StoreState>, waiting_calls: &'a Notify) -> Self {
        StateGuard {
            state: state.lock(),
            waiting_calls,
            unwinding: std::thread::panicking(),
        }
    }
}

impl Deref for StateGuard<'_> {
    type Target = StoreState;
    #[inline]
    fn deref(&self) -> &StoreState {
        &self.state
    }
}

impl DerefMut for StateGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut StoreState {
        &mut self.state
    }
}

impl Drop for StateGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() && !self.unwinding {
            self.state.tear(StoreError::panicked());
            self.waiting_calls.notify_waiters();
        }
    }
}

impl FrameSource for Mutex<StoreState> {
    fn take(&self, frames: &mut FrameQueue) -> Result<u64, StoreError> {
        let mut state = self.lock();
        state.check_failed()?;
        Ok(state.take_frames(frames))
    }

    fn last(&self) -> u64 {
        self.lock().sequence()
    }

    fn fail(&self, error: StoreError) {
        self.lock().fail(error);
    }
}
