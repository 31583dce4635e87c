//! Leases: directories all of whose names one client knows, because it made them, and small files
//! whose bytes clients keep. A change by another client is answered only after the holders were
//! notified.
//!
//! A client that has made a directory decides locally that a name does not exist there, which saves
//! a request for each name that it makes. When another client makes a name, the lease ends with
//! that change, and that client is answered after the holder acknowledged the change with the
//! cursor of its next watch. So a lease costs others one delay for each directory, and nothing
//! where clients do not share.
//!
//! A small file may be leased to any number of clients. Each opens it again without asking, and who
//! changes it is answered when none of them does so any more: close-to-open holds.
//!
//! A client that gathers what programs write is asked in the same way when another opens a file
//! that it has open for writing: its acknowledgement says that it has sent the bytes.
//!
//! In memory only: a service that restarts has no leases, and clients drop their caches when they
//! notice the restart.

use std::collections::{BTreeSet, HashMap, HashSet};

use parking_lot::Mutex;

use super::change::{Change, Opened};
use crate::limits::{FILE_LEASES_MAX, LEASES_MAX};

/// All leases, and the changes that their holders must acknowledge.
#[derive(Debug, Default)]
pub struct Leases(Mutex<LeaseTable>);

#[derive(Debug, Default)]
struct LeaseTable {
    holders: HashMap<u64, u64>,
    /// Those of small files.
    files: HashMap<u64, Vec<u64>>,
    /// The clients that gather what programs write.
    gatherers: HashSet<u64>,
    recalls: Vec<Recall>,
}

/// What a client was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileLease {
    /// The lease, which it did not have.
    New,
    /// It had the lease.
    Held,
    /// Nothing: there are too many.
    Refused,
}

/// A holder must acknowledge the changes up to this one: its lease of this directory or file has
/// ended, or another client waits for what it has gathered of the file.
#[derive(Clone, Copy, Debug)]
struct Recall {
    leased: u64,
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

    /// Grants a client the lease of a file; the caller then reads the file: a change from here on
    /// ends the lease.
    pub(crate) fn grant_file(&self, client: u64, file: u64) -> FileLease {
        let mut table = self.0.lock();
        if table.files.len() >= FILE_LEASES_MAX {
            return FileLease::Refused;
        }
        let holders = table.files.entry(file).or_default();
        if holders.contains(&client) {
            return FileLease::Held;
        }
        holders.push(client);
        FileLease::New
    }

    /// A client does not keep a file any more.
    pub(crate) fn end_file(&self, client: u64, file: u64) {
        let mut table = self.0.lock();
        if let Some(holders) = table.files.get_mut(&file) {
            holders.retain(|holder| *holder != client);
            if holders.is_empty() {
                table.files.remove(&file);
            }
        }
    }

    /// Whether a client has the lease of a file.
    pub fn holds_file(&self, client: u64, file: u64) -> bool {
        let table = self.0.lock();
        let holders = table.files.get(&file);
        holders.is_some_and(|holders| holders.contains(&client))
    }

    /// Whether another client has the lease of a file.
    pub(crate) fn is_held_elsewhere(&self, client: u64, file: u64) -> bool {
        let table = self.0.lock();
        let holders = table.files.get(&file);
        holders.is_some_and(|holders| holders.iter().any(|holder| *holder != client))
    }

    /// A client gathers what programs write, until it ends.
    pub fn gathers(&self, client: u64) {
        self.0.lock().gatherers.insert(client);
    }

    /// Those of these clients that gather.
    pub(crate) fn gatherers_among(&self, clients: &[u64]) -> Vec<u64> {
        let table = self.0.lock();
        let gathers = |client: &&u64| table.gatherers.contains(client);
        clients.iter().filter(gathers).copied().collect()
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

    /// Ends the leases of what `origin` has changed; `number` is that of the last change. Where
    /// another change has ended a lease and the holder has not acknowledged that one yet, `origin`
    /// waits for it, too.
    pub(crate) fn changed(&self, origin: u64, changes: &[Change], number: u64) {
        let mut table = self.0.lock();
        for change in changes {
            match change {
                Change::Entry(entry) => {
                    table.wait_for_earlier(origin, entry.parent);
                    table.recall_directory(origin, entry.parent, number);
                }
                Change::File(file) => {
                    table.wait_for_earlier(origin, *file);
                    table.recall_file(origin, *file, number);
                }
                Change::Opened(opened) => table.recall_gathered(origin, opened, number),
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

    /// Whether a client may not know yet that its lease of this directory has ended.
    pub(crate) fn is_recalled_from(&self, client: u64, directory: u64) -> bool {
        let table = self.0.lock();
        let mut recalls = table.recalls.iter();
        recalls.any(|recall| recall.holder == client && recall.leased == directory)
    }

    /// The holders that have yet to acknowledge changes by this client.
    pub fn recalled_by(&self, client: u64) -> BTreeSet<u64> {
        let table = self.0.lock();
        let recalls = table.recalls.iter().filter(|recall| recall.by == client);
        recalls.map(|recall| recall.holder).collect()
    }

    /// A client has ended or starts over: it loses all its leases. Returns whether another client
    /// may have waited for it.
    pub fn client_ended(&self, client: u64) -> bool {
        let mut table = self.0.lock();
        table.holders.retain(|_, holder| *holder != client);
        table.retain_file_holders(|holder| holder != client);
        table.gatherers.remove(&client);
        let before = table.recalls.len();
        table.recalls.retain(|recall| recall.holder != client);
        before != table.recalls.len()
    }
}

impl LeaseTable {
    fn recall_directory(&mut self, by: u64, leased: u64, change: u64) {
        let holder = self.holders.get(&leased).copied();
        if let Some(holder) = holder.filter(|holder| *holder != by) {
            self.holders.remove(&leased);
            self.recalls.push(Recall {
                leased,
                holder,
                by,
                change,
            });
        }
    }

    fn recall_file(&mut self, by: u64, leased: u64, change: u64) {
        let Some(holders) = self.files.get_mut(&leased) else {
            return;
        };
        let others = holders.extract_if(.., |holder| *holder != by);
        self.recalls.extend(others.map(|holder| Recall {
            leased,
            holder,
            by,
            change,
        }));
        if holders.is_empty() {
            self.files.remove(&leased);
        }
    }

    fn recall_gathered(&mut self, by: u64, opened: &Opened, change: u64) {
        let gatherers = opened.gatherers.iter();
        self.recalls.extend(gatherers.map(|holder| Recall {
            leased: opened.file,
            holder: *holder,
            by,
            change,
        }));
    }

    /// Holders whose lease others have ended may not know that yet.
    fn wait_for_earlier(&mut self, by: u64, leased: u64) {
        let (own, others): (Vec<Recall>, Vec<Recall>) = self
            .recalls
            .iter()
            .filter(|recall| recall.leased == leased && recall.holder != by)
            .partition(|recall| recall.by == by);
        let mut awaited: Vec<u64> = own.iter().map(|recall| recall.holder).collect();
        for earlier in others {
            if !awaited.contains(&earlier.holder) {
                awaited.push(earlier.holder);
                self.recalls.push(Recall { by, ..earlier });
            }
        }
    }

    fn retain_file_holders(&mut self, keep: impl Fn(u64) -> bool) {
        self.files.retain(|_, holders| {
            holders.retain(|holder| keep(*holder));
            !holders.is_empty()
        });
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
    fn a_change_waits_for_a_holder_whose_lease_an_earlier_change_has_ended() {
        let leases = Leases::default();
        assert_eq!(leases.grant_file(1, 50), FileLease::New);
        assert_eq!(leases.grant_file(2, 50), FileLease::New);
        // The service moves its bytes, then client 2 changes them.
        leases.changed(0, &[Change::File(50)], 7);
        leases.changed(2, &[Change::File(50)], 8);
        leases.changed(2, &[Change::File(50)], 9);
        assert_eq!(leases.0.lock().recalls.len(), 3);
        assert!(leases.are_recalled_by(2), "client 1 may still believe it");
        leases.acknowledge(2, 7);
        assert!(leases.are_recalled_by(2), "its own lease is not in the way");
        leases.acknowledge(1, 7);
        assert!(!leases.are_recalled_by(2) && !leases.are_recalled_by(0));
        assert!(leases.grant(1, 60));
        leases.changed(2, &entry(60), 10);
        leases.changed(3, &entry(60), 11);
        assert!(leases.are_recalled_by(3), "client 1 may not know the name");
        leases.acknowledge(1, 10);
        assert!(!leases.are_recalled_by(3));
    }

    #[test]
    fn a_change_does_not_wait_for_an_ended_or_unresponsive_lease_holder() {
        let leases = Leases::default();
        leases.grant(1, 50);
        leases.grant(1, 51);
        leases.changed(2, &entry(50), 9);
        assert_eq!(leases.recalled_by(2), [1].into());
        leases.client_ended(1);
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
