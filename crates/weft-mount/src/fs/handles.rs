//! What is open, by the number that the door gives out for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use rustix::io::Errno;

use super::error::FsError;

/// Open things by number. Numbers are never used again.
#[derive(Debug)]
pub(super) struct Table<T> {
    next: AtomicU64,
    open: RwLock<HashMap<u64, Arc<T>>>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table {
            next: AtomicU64::new(1),
            open: RwLock::default(),
        }
    }
}

impl<T> Table<T> {
    pub(super) fn insert(&self, thing: Arc<T>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.write().insert(number, thing);
        number
    }

    pub(super) fn get(&self, number: u64) -> Result<Arc<T>, FsError> {
        let found = self.open.read().get(&number).cloned();
        found.ok_or(FsError::refused("this handle is not open", Errno::BADF))
    }

    pub(super) fn remove(&self, number: u64) -> Option<Arc<T>> {
        self.open.write().remove(&number)
    }

    pub(super) fn drain(&self) -> Vec<Arc<T>> {
        self.open.write().drain().map(|(_, thing)| thing).collect()
    }
}
