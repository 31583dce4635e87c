//! The state while somebody works on it.

use std::ops::{Deref, DerefMut};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::error::StoreError;
use crate::log::{FrameSource, Queued};
use crate::state::State;

/// The state, for whoever holds its lock.
///
/// Who panics meanwhile may leave it changed in part: then the store is closed, to reads, too, and
/// whoever waits for room is told. What the log has is whole, so opening the store anew repairs it.
pub(crate) struct Locked<'a> {
    state: MutexGuard<'a, State>,
    room: &'a Notify,
    /// Whoever took the lock was being unwound: what it panicked of was not the state.
    unwinding: bool,
}

impl<'a> Locked<'a> {
    /// Waits for the lock.
    pub(crate) fn wait(state: &'a Mutex<State>, room: &'a Notify) -> Self {
        Locked {
            state: state.lock(),
            room,
            unwinding: std::thread::panicking(),
        }
    }
}

impl Deref for Locked<'_> {
    type Target = State;
    #[inline]
    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() && !self.unwinding {
            self.state.tear(StoreError::panicked());
            self.room.notify_waiters();
        }
    }
}

impl FrameSource for Mutex<State> {
    fn take(&self, frames: &mut Queued) -> Result<u64, StoreError> {
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
