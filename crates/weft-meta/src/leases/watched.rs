//! Reads that detect directories delegated to another client: what they return may be outdated.
//!
//! Every operation reads through this, so none can be forgotten. An operation with a conflict runs
//! to its end, so that all conflicting directories are known at once; then its outcome is dropped.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use weft_kv::{KvError, Reader, Space, Transaction};

use super::delegations::Holders;
use crate::error::MetaError;
use crate::records::keys::{ENTRIES, INODES, number};

/// Reads on behalf of a client.
pub(crate) struct Watched<'a, T: ?Sized> {
    inner: &'a mut T,
    holders: Option<Holders>,
    client: u64,
    conflicts: RefCell<BTreeSet<u64>>,
}

impl<'a, T: ?Sized> Watched<'a, T> {
    /// `holders` are those from before `inner` was opened.
    pub(crate) fn new(inner: &'a mut T, holders: Option<Holders>, client: u64) -> Self {
        Watched {
            inner,
            holders,
            client,
            conflicts: RefCell::default(),
        }
    }

    fn check(&self, space: Space, key: &[u8]) {
        let Some(holders) = &self.holders else { return };
        if space != INODES && space != ENTRIES {
            return;
        }
        if let Some(directory) = number(key)
            && holders
                .get(&directory)
                .is_some_and(|holder| *holder != self.client)
        {
            self.conflicts.borrow_mut().insert(directory);
        }
    }

    /// The outcome, unless a read met a directory that another client has delegated.
    pub(crate) fn finish<V>(self, outcome: Result<V, MetaError>) -> Result<V, MetaError> {
        let conflicts = self.conflicts.into_inner();
        if conflicts.is_empty() {
            return outcome;
        }
        let directories = conflicts.into_iter().collect();
        Err(MetaError::Delegated { directories })
    }
}

impl<T: Reader + ?Sized> Reader for Watched<'_, T> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        self.check(space, key);
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
            self.check(space, key);
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
