//! Leases: directories all of whose names one client knows, because it has made them. The client is
//! told before others that change them are answered.
//!
//! A client that has made a directory answers by itself that a name does not exist, which saves a
//! request for each name that it makes. When another client makes a name, the lease ends with that
//! change, and the other client is answered when the holder has said, by the cursor of its next
//! watch, that it has heard of it. So a lease costs others one delay for each directory, and costs
//! nothing where clients do not share.
//!
//! In memory only: a service that restarts has no leases, and clients drop what they know when they
//! hear of the restart.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::change::Change;
use crate::limits::LEASES_MAX;

/// All leases, and what their holders have to hear.
#[derive(Debug, Default)]
pub struct Leases(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    holders: HashMap<u64, u64>,
    recalls: Vec<Recall>,
}

/// A holder has to hear of the changes up to this one.
#[derive(Clone, Copy, Debug)]
struct Recall {
    holder: u64,
    by: u64,
    change: u64,
}

impl Leases {
    /// Gives a client the lease of a directory that it has made. Whether it could: the caller looks
    /// afterwards whether the directory is empty still.
    pub fn grant(&self, client: u64, directory: u64) -> bool {
        let mut table = self.0.lock();
        let room = table.holders.len() < LEASES_MAX;
        if room {
            table.holders.insert(directory, client);
        }
        room
    }

    /// A lease ends without a word: the directory is gone, or the lease was never told.
    pub fn end(&self, directory: u64) {
        self.0.lock().holders.remove(&directory);
    }

    /// `origin` has changed this, and the last of it has this number.
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

    /// A client has heard of the changes up to this one. Answers whether another client may wait
    /// for that.
    pub fn acknowledge(&self, client: u64, change: u64) -> bool {
        let mut table = self.0.lock();
        let before = table.recalls.len();
        table
            .recalls
            .retain(|recall| recall.holder != client || recall.change > change);
        before != table.recalls.len()
    }

    /// Whether some holder has to hear of what this client has changed.
    pub fn are_recalled_by(&self, client: u64) -> bool {
        let table = self.0.lock();
        table.recalls.iter().any(|recall| recall.by == client)
    }

    /// Holders that do not answer this client lose all they have.
    pub fn revoke_unresponsive(&self, client: u64) {
        let mut table = self.0.lock();
        let silent = table.recalls.iter().filter(|recall| recall.by == client);
        let silent: Vec<u64> = silent.map(|recall| recall.holder).collect();
        table.holders.retain(|_, holder| !silent.contains(holder));
        table
            .recalls
            .retain(|recall| !silent.contains(&recall.holder));
    }

    /// A client is gone, or starts over: it knows nothing. Answers whether another client may have
    /// waited for it.
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
    fn a_holder_must_hear_before_others_go_on_and_only_once() {
        let leases = Leases::default();
        assert!(leases.grant(1, 50));
        leases.changed(1, &entry(50), 7);
        assert!(!leases.are_recalled_by(1), "it is its own");
        leases.changed(2, &entry(51), 8);
        assert!(!leases.are_recalled_by(2), "nobody has a lease of that");
        leases.changed(2, &entry(50), 9);
        assert!(leases.are_recalled_by(2));
        assert!(!leases.acknowledge(1, 8) && leases.are_recalled_by(2));
        assert!(leases.acknowledge(1, 9) && !leases.are_recalled_by(2));
        leases.changed(2, &entry(50), 10);
        assert!(!leases.are_recalled_by(2), "the lease has ended");
    }

    #[test]
    fn no_client_waits_for_one_that_is_gone_or_silent() {
        let leases = Leases::default();
        leases.grant(1, 50);
        leases.grant(1, 51);
        leases.changed(2, &entry(50), 9);
        leases.revoke_unresponsive(2);
        assert!(!leases.are_recalled_by(2));
        leases.changed(2, &entry(51), 10);
        assert!(!leases.are_recalled_by(2), "the silent one has lost all");
        leases.grant(3, 52);
        leases.changed(2, &entry(52), 11);
        assert!(leases.client_ended(3) && !leases.are_recalled_by(2));
    }
}
