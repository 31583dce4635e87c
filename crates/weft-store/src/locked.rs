//! The state while somebody works on it.

use std::ops::{Deref, DerefMut};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::error::StoreError;
use crate::state::State;

/// The state, for whoever holds its lock.
///
/// Who panics meanwhile may leave it changed in part: then the store is closed, to reads, too, and whoever waits for room is told.
/// What the log has is whole, so opening the store anew repairs it.
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
            self.state.torn = true;
            self.state.failed.get_or_insert_with(panicked);
            self.room.notify_waiters();
        }
    }
}

/// Closes the store to writes if whoever has taken frames from the state panics: they are in no log.
pub(crate) struct Taken<'a>(pub(crate) &'a Mutex<State>);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().failed.get_or_insert_with(panicked);
        }
    }
}

/// What a store says from then on.
fn panicked() -> StoreError {
    StoreError::SyncFailed {
        doing: "work on its state",
        reason: "a panic interrupted it; the server's log says where".into(),
    }
}
