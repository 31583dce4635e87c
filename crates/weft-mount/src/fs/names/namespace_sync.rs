//! How far this mount's changes of the namespace survive power loss, and whether one was refused
//! after it was acknowledged.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Durable and refused changes of the namespace.
#[derive(Debug, Default)]
pub(in crate::fs) struct NamespaceSync {
    /// How many of this mount's changes survive power loss for certain.
    synced: AtomicU64,
    /// The errno of an unreported change that the service refused; no sync has reported it yet.
    refused: Mutex<Option<i32>>,
}

impl NamespaceSync {
    /// Whether the first `changes` changes survive power loss.
    pub(super) fn is_synced(&self, changes: u64) -> bool {
        self.synced.load(Ordering::Acquire) >= changes
    }

    pub(super) fn note_synced(&self, changes: u64) {
        self.synced.fetch_max(changes, Ordering::AcqRel);
    }

    /// A change that was acknowledged to a program was refused.
    pub(super) fn note_refused(&self, errno: i32) {
        *self.refused.lock() = Some(errno);
    }

    /// The errno of a refused change; once.
    pub(super) fn take_refused(&self) -> Option<i32> {
        self.refused.lock().take()
    }
}
