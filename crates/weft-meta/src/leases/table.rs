//! Leases: directories all of whose names one client knows, because it made them. A change by
//! another client is answered only after the holder was notified.
//!
//! A client that has made a directory decides locally that a name does not exist there, which saves
//! a request for each name that it makes. When another client makes a name, the lease ends with
//! that change, and that client is answered after the holder acknowledged the change with the
//! cursor of its next watch. So a lease costs others one delay for each directory, and nothing
//! where clients do not share.
//!
//! In memory only: a service that restarts has no leases, and clients drop their caches when they
//! notice the restart.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::change::Change;
use crate::limits::LEASES_MAX;

/// All leases, and the changes that their holders must acknowledge.
#[derive(Debug, Default)]
pub struct Leases(Mutex<LeaseTable>);

#[derive(Debug, Default)]
struct LeaseTable {
    holders: HashMap<u64, u64>,
    recalls: Vec<Recall>,
}

/// A holder must acknowledge the changes up to this one.
#[derive(Clone, Copy, Debug)]
struct Recall {
    holder: u64,
    by: u64,
    change: u64,
}

impl Leases {
    /// Grants a client the lease of a directory that it has made. Returns whether it did: the
    /// caller then checks that the directory is still empty.
    pub fn grant(&self, client: u64, directory: u64) -> bool {
        let mut table = self.0.lock();
        let granted = table.holders.len() < LEASES_MAX;
        if granted {
            table.holders.insert(directory, client);
        }
        granted
    }

    /// Whether a client has the lease of a directory.
    pub fn holds(&self, client: u64, directory: u64) -> bool {
        self.0.lock().holders.get(&directory) == Some(&client)
    }

    /// Ends a lease without a notification: the directory was removed, or the client never got the
    /// lease.
    pub fn end(&self, directory: u64) {
        self.0.lock().holders.remove(&directory);
    }

    /// Ends the leases of the directories in which `origin` made these changes; `number` is that of
    /// the last change.
    pub(crate) fn changed(&self, origin: u64, changes: &[Change], number: u64) {
        let mut table = self.0.lock();
        if table.holders.is_empty() {
            return;
        }
        for change in changes {
            let Change::Entry(entry) = change else {
                continue;
            };
            let Some(holder) = table.holders.get(&entry.parent).copied() else {
                continue;
            };
            if holder != origin {
                table.holders.remove(&entry.parent);
                table.recalls.push(Recall {
                    holder,
                    by: origin,
                    change: number,
                });
            }
        }
    }

    /// A client acknowledges the changes up to this one. Returns whether another client may wait
    /// for that.
    pub fn acknowledge(&self, client: u64, change: u64) -> bool {
        let mut table = self.0.lock();
        let before = table.recalls.len();
        table
            .recalls
            .retain(|recall| recall.holder != client || recall.change > change);
        before != table.recalls.len()
    }

    /// Whether a holder has yet to acknowledge a change by this client.
    pub fn are_recalled_by(&self, client: u64) -> bool {
        let table = self.0.lock();
        table.recalls.iter().any(|recall| recall.by == client)
    }

    /// Holders that have not acknowledged the changes by this client lose all their leases.
    pub fn revoke_unresponsive(&self, client: u64) {
        let mut table = self.0.lock();
        let silent = table.recalls.iter().filter(|recall| recall.by == client);
        let silent: Vec<u64> = silent.map(|recall| recall.holder).collect();
        table.holders.retain(|_, holder| !silent.contains(holder));
        table
            .recalls
            .retain(|recall| !silent.contains(&recall.holder));
    }

    /// A client has ended or starts over: it loses all its leases. Returns whether another client
    /// may have waited for it.
    pub fn client_ended(&self, client: u64) -> bool {
        let mut table = self.0.lock();
        table.holders.retain(|_, holder| *holder != client);
        let before = table.recalls.len();
        table.recalls.retain(|recall| recall.holder != client);
        before != table.recalls.len()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use weft_proto::coord::ChangedEntry;

    use super::*;

    fn entry(parent: u64) -> Vec<Change> {
        let name = Bytes::from_static(b"n");
        vec![
            Change::File(parent),
            Change::Entry(ChangedEntry { parent, name }),
        ]
    }

    #[test]
    fn a_change_waits_for_one_acknowledgement_of_the_lease_holder() {
        let leases = Leases::default();
        assert!(leases.grant(1, 50));
        leases.changed(1, &entry(50), 7);
        assert!(!leases.are_recalled_by(1), "the holder made the change");
        leases.changed(2, &entry(51), 8);
        assert!(
            !leases.are_recalled_by(2),
            "no client has a lease of that directory"
        );
        leases.changed(2, &entry(50), 9);
        assert!(leases.are_recalled_by(2));
        assert!(!leases.acknowledge(1, 8) && leases.are_recalled_by(2));
        assert!(leases.acknowledge(1, 9) && !leases.are_recalled_by(2));
        leases.changed(2, &entry(50), 10);
        assert!(!leases.are_recalled_by(2), "the lease has ended");
    }

    #[test]
    fn a_change_does_not_wait_for_an_ended_or_unresponsive_lease_holder() {
        let leases = Leases::default();
        leases.grant(1, 50);
        leases.grant(1, 51);
        leases.changed(2, &entry(50), 9);
        leases.revoke_unresponsive(2);
        assert!(!leases.are_recalled_by(2));
        leases.changed(2, &entry(51), 10);
        assert!(
            !leases.are_recalled_by(2),
            "the unresponsive client has lost its leases"
        );
        leases.grant(3, 52);
        leases.changed(2, &entry(52), 11);
        assert!(leases.client_ended(3) && !leases.are_recalled_by(2));
    }
}
