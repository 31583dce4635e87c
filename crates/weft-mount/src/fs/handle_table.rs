//! Open files, directories and views by their handle numbers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use rustix::io::Errno;

use crate::fs::error::FsError;

/// Open handles by number. Numbers are never reused.
#[derive(Debug)]
pub(in crate::fs) struct HandleTable<T> {
    next: AtomicU64,
    open: RwLock<HashMap<u64, Arc<T>>>,
}

impl<T> Default for HandleTable<T> {
    fn default() -> HandleTable<T> {
        HandleTable {
            next: AtomicU64::new(1),
            open: RwLock::default(),
        }
    }
}

impl<T> HandleTable<T> {
    pub(in crate::fs) fn insert(&self, handle: Arc<T>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.write().insert(number, handle);
        number
    }

    pub(in crate::fs) fn get(&self, number: u64) -> Result<Arc<T>, FsError> {
        let found = self.open.read().get(&number).cloned();
        found.ok_or(FsError::refused("the handle is not open", Errno::BADF))
    }

    pub(in crate::fs) fn remove(&self, number: u64) -> Option<Arc<T>> {
        self.open.write().remove(&number)
    }

    pub(in crate::fs) fn drain(&self) -> Vec<Arc<T>> {
        self.open
            .write()
            .drain()
            .map(|(_, handle)| handle)
            .collect()
    }
}
