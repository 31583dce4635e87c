//! Whether the service has access control lists: the kernel asks for them before most permission
//! checks.

use std::sync::atomic::{AtomicBool, Ordering};

/// What earlier answers have shown.
#[derive(Debug, Default)]
pub(in crate::fs) struct AclSupport {
    missing: AtomicBool,
}

impl AclSupport {
    pub(super) fn is_missing(&self) -> bool {
        self.missing.load(Ordering::Relaxed)
    }

    pub(super) fn note_missing(&self) {
        self.missing.store(true, Ordering::Relaxed);
    }
}
