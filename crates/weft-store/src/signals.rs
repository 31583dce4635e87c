//! What wakes the background task and the calls that wait for it.

use std::sync::atomic::{AtomicBool, AtomicU64};

use tokio::sync::Notify;

/// Wakes the background task and those who wait for it.
#[derive(Default)]
pub(crate) struct Signals {
    pub(crate) work: Notify,
    pub(crate) room: Notify,
    /// Passes of the background task that have ended.
    pub(crate) passes: AtomicU64,
    pub(crate) apply: AtomicBool,
    pub(crate) stop: AtomicBool,
}
