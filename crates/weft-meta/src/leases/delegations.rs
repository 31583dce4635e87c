//! Delegations: directories in which one client changes names and reports the changes later.
//!
//! The namespace lacks unreported changes, so other clients must not read it there: an operation of
//! another client that reads the directory fails with
//! [`MetaError::Delegated`](crate::MetaError::Delegated), the directory is recalled from its
//! holder, and the operation runs again when the holder has returned it. A holder that does not
//! respond loses all its delegations.
//!
//! In memory only: a service that restarts has none. A holder then reports its unreported changes.
//!
//! Invariant: a delegation is granted inside a transaction that has read the directory, so every
//! later commit of another client conflicts with it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::limits::{DELEGATIONS_MAX, NEW_DELEGATIONS_MAX};

/// The holder of each directory.
pub(crate) type Holders = Arc<HashMap<u64, u64>>;

/// All delegations.
#[derive(Debug, Default)]
pub struct Delegations {
    /// How many there are, readable without the lock.
    count: AtomicUsize,
    table: Mutex<DelegationTable>,
    /// Held while directories that exist are delegated.
    granting: Mutex<()>,
}

#[derive(Debug, Default)]
struct DelegationTable {
    holders: Holders,
    recalled: BTreeSet<u64>,
    /// Clients that have lost their delegations and may not know it.
    revoked: BTreeSet<u64>,
}

impl Delegations {
    /// Held from before a grant until it is certain that it stays.
    pub(crate) fn granting(&self) -> MutexGuard<'_, ()> {
        self.granting.lock()
    }

    /// Delegates a directory to a client, unless another client has it. Returns whether it did.
    pub(crate) fn grant(&self, client: u64, directory: u64) -> bool {
        let mut table = self.table.lock();
        let holder = table.holders.get(&directory).copied();
        if holder.is_some_and(|holder| holder != client)
            || (holder.is_none() && table.holders.len() >= DELEGATIONS_MAX)
        {
            return false;
        }
        Arc::make_mut(&mut table.holders).insert(directory, client);
        self.count.store(table.holders.len(), Ordering::Release);
        true
    }

    /// Delegates a directory to the client that makes it: no other client knows it yet, and its
    /// maker has used it already. Returns whether it did.
    pub(crate) fn grant_new(&self, client: u64, directory: u64) -> bool {
        let mut table = self.table.lock();
        if table.holders.len() >= NEW_DELEGATIONS_MAX {
            return false;
        }
        Arc::make_mut(&mut table.holders).insert(directory, client);
        self.count.store(table.holders.len(), Ordering::Release);
        true
    }

    /// The holders, where another client than `client` may have a delegation. Client 0 stands for
    /// the service, which conflicts with no delegation.
    pub(crate) fn conflicts_for(&self, client: u64) -> Option<Holders> {
        if client == 0 || self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        Some(self.table.lock().holders.clone())
    }

    /// Whether a directory is delegated to this client.
    pub fn holds(&self, client: u64, directory: u64) -> bool {
        self.table.lock().holders.get(&directory) == Some(&client)
    }

    /// Whether no client has a directory.
    pub(crate) fn is_free(&self, directory: u64) -> bool {
        !self.table.lock().holders.contains_key(&directory)
    }

    /// All delegated directories.
    pub fn all(&self) -> Vec<u64> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        self.table.lock().holders.keys().copied().collect()
    }

    /// Recalls these directories from their holders.
    pub fn recall(&self, directories: &[u64]) {
        let mut table = self.table.lock();
        for directory in directories {
            if table.holders.contains_key(directory) {
                table.recalled.insert(*directory);
            }
        }
    }

    /// The directories that this client must return.
    pub fn recalled_from(&self, client: u64) -> Vec<u64> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let table = self.table.lock();
        let wanted = table.recalled.iter().copied();
        wanted
            .filter(|directory| table.holders.get(directory) == Some(&client))
            .collect()
    }

    /// Whether one of these was recalled and is not returned.
    pub fn are_outstanding(&self, directories: &[u64]) -> bool {
        let table = self.table.lock();
        directories
            .iter()
            .any(|directory| table.recalled.contains(directory))
    }

    /// A client returns directories, or loses them.
    pub fn end(&self, client: u64, directories: &[u64]) {
        self.retain(|directory, holder| holder != client || !directories.contains(&directory));
    }

    /// A directory was removed.
    pub(crate) fn directory_removed(&self, directory: u64) {
        if self.count.load(Ordering::Acquire) > 0 {
            self.retain(|held, _| held != directory);
        }
    }

    /// A client has ended, starts over, or does not respond: it loses all its delegations.
    pub fn client_ended(&self, client: u64) {
        self.table.lock().revoked.remove(&client);
        if self.count.load(Ordering::Acquire) > 0 {
            self.retain(|_, holder| holder != client);
        }
    }

    /// The clients that have yet to return some of these directories.
    pub fn holders_of(&self, directories: &[u64]) -> BTreeSet<u64> {
        let table = self.table.lock();
        let holders = directories.iter().filter_map(|d| table.holders.get(d));
        holders.copied().collect()
    }

    /// A client does not respond: it loses all its delegations, and is told so if it lives.
    pub fn revoke(&self, client: u64) {
        self.table.lock().revoked.insert(client);
        self.retain(|_, holder| holder != client);
    }

    /// Whether a client has lost its delegations since it was last told so.
    pub fn take_revoked(&self, client: u64) -> bool {
        self.table.lock().revoked.remove(&client)
    }

    fn retain(&self, keep: impl Fn(u64, u64) -> bool) {
        let mut table = self.table.lock();
        let table = &mut *table;
        Arc::make_mut(&mut table.holders).retain(|directory, holder| keep(*directory, *holder));
        let holders = &table.holders;
        table
            .recalled
            .retain(|directory| holders.contains_key(directory));
        self.count.store(table.holders.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_belongs_to_one_client_until_it_is_returned_or_revoked() {
        let all = Delegations::default();
        assert!(all.conflicts_for(2).is_none());
        assert!(all.grant(1, 50) && all.grant(1, 50) && !all.grant(2, 50));
        assert!(
            all.conflicts_for(0).is_none(),
            "the service itself has no conflicts"
        );
        assert_eq!(all.conflicts_for(2).unwrap().get(&50), Some(&1));
        assert!(!all.are_outstanding(&[50]), "no delegation is recalled");
        all.recall(&[50, 51]);
        assert_eq!(all.recalled_from(1), [50]);
        assert!(
            all.recalled_from(2).is_empty()
                && all.are_outstanding(&[50])
                && !all.are_outstanding(&[51])
        );
        all.end(2, &[50]);
        assert!(all.are_outstanding(&[50]), "another client has it");
        all.end(1, &[50]);
        assert!(!all.are_outstanding(&[50]) && all.grant(2, 50));
        all.grant(2, 52);
        all.recall(&[50]);
        assert_eq!(all.holders_of(&[50]), [2].into());
        all.revoke(2);
        assert!(
            all.conflicts_for(1).is_none(),
            "the unresponsive client has lost its delegations"
        );
        assert!(all.take_revoked(2) && !all.take_revoked(2) && !all.take_revoked(1));
    }
}
