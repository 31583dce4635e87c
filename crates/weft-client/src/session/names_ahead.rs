//! What this client has changed ahead of the service in directories that it holds.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use super::name_table::Table;

/// A change that was acknowledged here and that the service has refused, or could not be told.
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

/// What a client has done ahead.
#[derive(Default)]
pub(crate) struct Ahead {
    table: Mutex<Table>,
    /// One batch at a time.
    turn: tokio::sync::Mutex<()>,
    /// Changes that are not told yet, to be looked at without the lock.
    waiting: AtomicU64,
    refused: OnceLock<OnRefused>,
}

impl Ahead {
    /// Looks at the table, or changes it.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.table.lock();
        let value = work(&mut table);
        self.waiting
            .store(table.noted - table.told, Ordering::Release);
        value
    }

    /// Sets the hearer of refused changes, once.
    pub(crate) fn hear(&self, hear: OnRefused) {
        let _ = self.refused.set(hear);
    }

    /// Tells the hearer of refused changes.
    pub(crate) fn tell_refused(&self, refused: &[Refused]) {
        if let Some(hear) = self.refused.get()
            && !refused.is_empty()
        {
            hear(refused);
        }
    }

    /// Whether changes wait that the service was not told of.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Held while a batch is told: one at a time.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// A file that the service does not know yet is closed. Whether it was one.
    pub(crate) fn close(&self, file: u64) -> bool {
        self.has_waiting() && self.with(|table| table.close(file))
    }

    /// The service may have forgotten what this client holds.
    pub(crate) fn forget(&self) {
        self.with(Table::forget);
    }
}
