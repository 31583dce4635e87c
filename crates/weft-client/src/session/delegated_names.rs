//! Delegated directories and the changes in them that the service does not know yet.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use super::delegation_table::DelegationTable;

/// A change that this client acknowledged and that the service refused, or could not be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The directory.
    pub directory: u64,
    /// The name.
    pub name: Bytes,
    /// What was made, or lost its name.
    pub file: u64,
    /// Why, for a human.
    pub reason: String,
    /// The closest errno of Linux.
    pub errno: i32,
}

pub(crate) type OnRefused = Box<dyn Fn(&[Refused]) + Send + Sync>;
pub(crate) type OnUnleased = Box<dyn Fn(u64) + Send + Sync>;

/// Delegated directories of a client and their unreported changes.
#[derive(Default)]
pub(crate) struct DelegatedNames {
    table: Mutex<DelegationTable>,
    /// Held while a batch is reported.
    reporting: tokio::sync::Mutex<()>,
    /// Unreported changes, to be read without the lock.
    unreported: AtomicU64,
    /// Whether a directory is held, likewise.
    held: AtomicBool,
    refused: OnceLock<OnRefused>,
    unleased: OnceLock<OnUnleased>,
}

impl DelegatedNames {
    /// Looks at the table, or changes it.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut DelegationTable) -> T) -> T {
        let mut table = self.table.lock();
        let value = work(&mut table);
        self.unreported
            .store(table.noted - table.reported, Ordering::Release);
        self.held.store(table.has_held(), Ordering::Release);
        value
    }

    /// Sets the callback for refused changes, once.
    pub(crate) fn set_on_refused(&self, call: OnRefused) {
        let _ = self.refused.set(call);
    }

    /// Sets the callback for directories that are not leased, once.
    pub(crate) fn set_on_unleased(&self, call: OnUnleased) {
        let _ = self.unleased.set(call);
    }

    /// A directory that this client made is not leased.
    pub(crate) fn report_unleased(&self, directory: u64) {
        if let Some(call) = self.unleased.get() {
            call(directory);
        }
    }

    /// Calls it, if there are any.
    pub(crate) fn report_refused(&self, refused: &[Refused]) {
        if let Some(call) = self.refused.get()
            && !refused.is_empty()
        {
            call(refused);
        }
    }

    /// Whether there are unreported changes.
    pub(crate) fn has_unreported(&self) -> bool {
        self.unreported.load(Ordering::Acquire) > 0
    }

    /// Whether a directory is held.
    pub(crate) fn has_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Held while a batch is reported: one at a time.
    pub(crate) async fn reporting(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.reporting.lock().await
    }

    /// Closes a file that the service does not know yet; false if it knows it.
    pub(crate) fn close(&self, file: u64) -> bool {
        self.has_unreported() && self.with(|table| table.close(file))
    }

    /// The service may have forgotten what this client holds.
    pub(crate) fn forget(&self) {
        self.with(DelegationTable::forget);
    }
}
