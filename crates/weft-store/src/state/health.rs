//! Whether a store can be used.

use crate::error::StoreError;

/// The reasons to refuse calls: a failure, a panic, or a close.
#[derive(Debug, Default)]
pub(super) struct Health {
    failed: Option<StoreError>,
    /// A panic left the state half changed.
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

    /// Closes the store to writes; keeps and returns the first failure.
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
