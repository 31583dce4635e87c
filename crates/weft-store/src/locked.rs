//! The state while somebody works on it.

use std::ops::{Deref, DerefMut};

use parking_lot::MutexGuard;
use tokio::sync::Notify;

use crate::error::StoreError;
use crate::state::State;

/// The state, for whoever holds its lock.
///
/// Who panics meanwhile may leave it changed in part: then the store is closed to writes, as after a failed sync, and whoever
/// waits for room is told. What the log has is whole, so opening the store anew repairs it.
pub(crate) struct Locked<'a> {
    pub(crate) state: MutexGuard<'a, State>,
    pub(crate) room: &'a Notify,
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
        if std::thread::panicking() {
            self.state.failed.get_or_insert_with(panicked);
            self.room.notify_waiters();
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
