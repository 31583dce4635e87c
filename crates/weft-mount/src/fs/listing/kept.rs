//! Listings of complete directories: no other client changes their names before this mount has
//! heard of it, and changes of the files in them are in the change log. So walking a tree a second
//! time costs no call.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_client::Listed;

use crate::fs::caller::Caller;
use crate::fs::metadata::AskedAt;
use crate::limits::KEPT_LISTED_MAX;

/// All names of a directory, as the service answered.
#[derive(Debug)]
pub(super) struct WholeListing {
    pub(super) asked: AskedAt,
    pub(super) parent: u64,
    pub(super) entries: Vec<Listed>,
}

/// See the module. A listing that is found may be overtaken.
#[derive(Debug, Default)]
pub(in crate::fs) struct KeptListings(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// By directory: who was permitted to list it, and what it had.
    listings: HashMap<u64, (Permitted, Arc<WholeListing>)>,
    /// Names of all.
    names: usize,
}

/// User and group. The kernel has checked further groups when it opened the directory.
type Permitted = (u32, u32);

impl KeptListings {
    /// What the service answered to this user before.
    pub(super) fn find(&self, caller: Caller, directory: u64) -> Option<Arc<WholeListing>> {
        let table = self.0.lock();
        let (permitted, listing) = table.listings.get(&directory)?;
        (*permitted == (caller.uid, caller.gid)).then(|| listing.clone())
    }

    /// Keeps a listing. When there are too many names, all earlier ones go.
    pub(super) fn keep(&self, caller: Caller, directory: u64, listing: Arc<WholeListing>) {
        let mut table = self.0.lock();
        table.forget(directory);
        let names = listing.entries.len() + 1;
        if table.names + names > KEPT_LISTED_MAX {
            *table = Table::default();
        }
        if names <= KEPT_LISTED_MAX {
            table.names += names;
            let permitted = (caller.uid, caller.gid);
            table.listings.insert(directory, (permitted, listing));
        }
    }

    /// It is overtaken.
    pub(super) fn forget(&self, directory: u64) {
        self.0.lock().forget(directory);
    }
}

impl Table {
    fn forget(&mut self, directory: u64) {
        if let Some((_, listing)) = self.listings.remove(&directory) {
            self.names -= listing.entries.len() + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(names: usize) -> Arc<WholeListing> {
        Arc::new(WholeListing {
            asked: AskedAt::default(),
            parent: 1,
            entries: vec![Listed::default(); names],
        })
    }

    fn caller(uid: u32, pid: u32) -> Caller {
        Caller { uid, gid: 7, pid }
    }

    #[test]
    fn a_listing_is_found_by_the_user_who_made_it_and_memory_is_bounded() {
        let kept = KeptListings::default();
        kept.keep(caller(0, 1), 50, listing(3));
        assert!(kept.find(caller(0, 2), 50).is_some());
        assert!(kept.find(caller(9, 1), 50).is_none());
        kept.keep(caller(9, 1), 50, listing(2));
        assert!(kept.find(caller(0, 1), 50).is_none());
        assert_eq!(kept.0.lock().names, 3);
        kept.forget(50);
        assert_eq!(kept.0.lock().names, 0);
        kept.keep(caller(0, 1), 51, listing(KEPT_LISTED_MAX));
        assert!(kept.find(caller(0, 1), 51).is_none(), "it is too long");
        for directory in 0..1000 {
            kept.keep(caller(0, 1), directory, listing(KEPT_LISTED_MAX / 100));
            assert!(kept.0.lock().names <= KEPT_LISTED_MAX);
        }
        assert!(kept.find(caller(0, 1), 999).is_some());
    }
}
