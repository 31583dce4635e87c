//! Reads that notice when they meet a directory that another client has delegated: what they read
//! may be old.
//!
//! Every operation reads through this, so none can be forgotten. An operation goes on to its end
//! with what it read, so that all directories in its way are known at once; then its outcome is
//! dropped.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use weft_kv::{KvError, Reader, Space, Transaction};

use super::delegations::Held;
use crate::error::MetaError;
use crate::records::keys::{ENTRIES, INODES, number};

/// What is read on behalf of a client.
pub(crate) struct Watched<'a, T: ?Sized> {
    inner: &'a mut T,
    held: Option<Held>,
    client: u64,
    met: RefCell<BTreeSet<u64>>,
}

impl<'a, T: ?Sized> Watched<'a, T> {
    /// `held` is as it was before `inner` was opened.
    pub(crate) fn new(inner: &'a mut T, held: Option<Held>, client: u64) -> Self {
        Watched {
            inner,
            held,
            client,
            met: RefCell::default(),
        }
    }

    fn look(&self, space: Space, key: &[u8]) {
        let Some(held) = &self.held else { return };
        if space != INODES && space != ENTRIES {
            return;
        }
        if let Some(directory) = number(key)
            && held.get(&directory).is_some_and(|h| *h != self.client)
        {
            self.met.borrow_mut().insert(directory);
        }
    }

    /// The outcome, unless the reads met a directory that another client has delegated.
    pub(crate) fn verdict<V>(self, outcome: Result<V, MetaError>) -> Result<V, MetaError> {
        let met = self.met.into_inner();
        if met.is_empty() {
            return outcome;
        }
        let directories = met.into_iter().collect();
        Err(MetaError::Delegated { directories })
    }
}

impl<T: Reader + ?Sized> Reader for Watched<'_, T> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        self.look(space, key);
        self.inner.get(space, key)
    }

    fn scan(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), KvError> {
        if space == ENTRIES
            && let Bound::Included(key) | Bound::Excluded(key) = from
        {
            self.look(space, key);
        }
        self.inner.scan(space, from, to, visit)
    }
}

impl<T: Transaction + ?Sized> Transaction for Watched<'_, T> {
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) {
        self.inner.put(space, key, value);
    }

    fn delete(&mut self, space: Space, key: &[u8]) {
        self.inner.delete(space, key);
    }
}
