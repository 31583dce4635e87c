//! Whether a store may be used.

use crate::error::StoreError;

/// What closes a store: a failure, a panic, its owner.
#[derive(Debug, Default)]
pub(super) struct Health {
    failed: Option<StoreError>,
    /// A panic left the state changed in part.
    torn: bool,
    closed: bool,
}

impl Health {
    pub(super) fn failure(&self) -> Option<&StoreError> {
        self.failed.as_ref()
    }

    pub(super) fn is_torn(&self) -> bool {
        self.torn
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Closes the store to writes; the first failure stays, and is returned.
    pub(super) fn fail(&mut self, error: StoreError) -> StoreError {
        self.failed.get_or_insert(error).clone()
    }

    /// Closes the store to reads as well.
    pub(super) fn tear(&mut self, error: StoreError) {
        self.torn = true;
        self.fail(error);
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }
}
