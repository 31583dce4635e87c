//! Delegations: directories in which one client changes names by itself, ahead of the service.
//!
//! The namespace does not have the client's changes yet, so other clients may not look: an
//! operation of another client that reads the directory is not carried out
//! ([`MetaError::Delegated`](crate::MetaError::Delegated)), the holder is asked to give the
//! directory back, and the operation runs again when it has. A holder that does not answer loses
//! all its delegations.
//!
//! In memory only: a service that restarts has none. A holder then reports what it has not reported
//! yet.
//!
//! Invariant: a delegation is given inside a transaction that has read the directory, so that every
//! later commit of another client meets it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::limits::DELEGATIONS_MAX;

/// The holder of each directory.
pub(crate) type Held = Arc<HashMap<u64, u64>>;

/// All delegations.
#[derive(Debug, Default)]
pub struct Delegations {
    /// How many there are, to be looked at without the lock.
    count: AtomicUsize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    held: Held,
    recalled: BTreeSet<u64>,
}

impl Delegations {
    /// Delegates a directory to a client, unless another client has it. Answers whether it did.
    pub(crate) fn grant(&self, client: u64, directory: u64) -> bool {
        let mut table = self.table.lock();
        let holder = table.held.get(&directory).copied();
        if holder.is_some_and(|holder| holder != client)
            || (holder.is_none() && table.held.len() >= DELEGATIONS_MAX)
        {
            return false;
        }
        Arc::make_mut(&mut table.held).insert(directory, client);
        self.count.store(table.held.len(), Ordering::Release);
        true
    }

    /// The holders, where another client than `client` may have a delegation. Client 0 is no client
    /// and sees everything.
    pub(crate) fn in_the_way_of(&self, client: u64) -> Option<Held> {
        if client == 0 || self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        Some(self.table.lock().held.clone())
    }

    /// These directories are wanted back.
    pub fn recall(&self, directories: &[u64]) {
        let mut table = self.table.lock();
        for directory in directories {
            if table.held.contains_key(directory) {
                table.recalled.insert(*directory);
            }
        }
    }

    /// What this client is to give back.
    pub fn recalled_from(&self, client: u64) -> Vec<u64> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let table = self.table.lock();
        let wanted = table.recalled.iter().copied();
        wanted
            .filter(|directory| table.held.get(directory) == Some(&client))
            .collect()
    }

    /// Whether one of these is still delegated.
    pub fn are_outstanding(&self, directories: &[u64]) -> bool {
        let table = self.table.lock();
        directories
            .iter()
            .any(|directory| table.recalled.contains(directory))
    }

    /// A client gives directories back, or loses them.
    pub fn end(&self, client: u64, directories: &[u64]) {
        self.retain(|directory, holder| holder != client || !directories.contains(&directory));
    }

    /// A directory is gone.
    pub(crate) fn gone(&self, directory: u64) {
        if self.count.load(Ordering::Acquire) > 0 {
            self.retain(|held, _| held != directory);
        }
    }

    /// A client is gone, begins anew, or does not answer: it has nothing any more.
    pub fn client_ended(&self, client: u64) {
        if self.count.load(Ordering::Acquire) > 0 {
            self.retain(|_, holder| holder != client);
        }
    }

    /// The holders of these do not answer: they have nothing any more.
    pub fn revoke_holders(&self, directories: &[u64]) {
        let silent: BTreeSet<u64> = {
            let table = self.table.lock();
            let holders = directories.iter().filter_map(|d| table.held.get(d));
            holders.copied().collect()
        };
        self.retain(|_, holder| !silent.contains(&holder));
    }

    fn retain(&self, keep: impl Fn(u64, u64) -> bool) {
        let mut table = self.table.lock();
        let table = &mut *table;
        Arc::make_mut(&mut table.held).retain(|directory, holder| keep(*directory, *holder));
        let held = &table.held;
        table
            .recalled
            .retain(|directory| held.contains_key(directory));
        self.count.store(table.held.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_belongs_to_one_client_until_it_is_returned_or_revoked() {
        let all = Delegations::default();
        assert!(all.in_the_way_of(2).is_none());
        assert!(all.grant(1, 50) && all.grant(1, 50) && !all.grant(2, 50));
        assert!(all.in_the_way_of(0).is_none(), "the service sees all");
        assert_eq!(all.in_the_way_of(2).unwrap().get(&50), Some(&1));
        assert!(!all.are_outstanding(&[50]), "nobody has asked");
        all.recall(&[50, 51]);
        assert_eq!(all.recalled_from(1), [50]);
        assert!(
            all.recalled_from(2).is_empty()
                && all.are_outstanding(&[50])
                && !all.are_outstanding(&[51])
        );
        all.end(2, &[50]);
        assert!(all.are_outstanding(&[50]), "it is not that one's");
        all.end(1, &[50]);
        assert!(!all.are_outstanding(&[50]) && all.grant(2, 50));
        all.grant(2, 52);
        all.recall(&[50]);
        all.revoke_holders(&[50]);
        assert!(
            all.in_the_way_of(1).is_none(),
            "the silent one has lost all"
        );
    }
}
