//! One transaction of the namespace: inodes are read once, changed in place, written at the end.
//!
//! An operation that uses the same directory twice (rename within it) changes one copy, and the
//! counters are read and written only by operations that use them.

use std::collections::BTreeMap;

use parking_lot::MutexGuard;
use prost::Message;
use weft_kv::{Reader, Transaction};
use weft_proto::meta::Attributes;

use crate::error::MetaError;
use crate::leases::{Change, entry_change};
use crate::open::OpenFiles;
use crate::quota::{Bounds, Payer, charge};
use crate::records::keys::{
    self, COUNTERS_KEY, ENTRIES, INODES, QUOTAS, VOLUME, WITH_PARITY, XATTRS,
};
use crate::records::record::{CountersRecord, InodeRecord, ParityRecord, QuotaRecord};
use crate::records::{Node, attributes};
use crate::state::VolumeState;

/// Spaces that fill an engine: each name and attribute is a record here. An operation that adds
/// other permanent records calls [`Tx::grow`].
const GROWING: [weft_kv::Space; 2] = [ENTRIES, XATTRS];

/// An inode that a transaction changes.
struct ChangedInode {
    /// As it was; `None`: it is new.
    before: Option<InodeRecord>,
    now: InodeRecord,
}

impl ChangedInode {
    /// Whether the change is legal: of an image, only the place of its bytes may change.
    fn is_allowed(&self) -> bool {
        let Some(before) = &self.before else {
            return true;
        };
        let gets_cells = self.now.has_own_cells() && !before.has_own_cells();
        before.frozen.is_none() || *before == self.now || gets_cells
    }
}

/// A running transaction.
pub(crate) struct Tx<'t, 'n> {
    state: &'n VolumeState,
    txn: &'t mut dyn Transaction,
    /// Locked from the first access until the commit, so that no client attaches in between.
    open: &'t mut Option<MutexGuard<'n, OpenFiles>>,
    inodes: BTreeMap<u64, ChangedInode>,
    /// Inodes that this transaction removes, as they were.
    removed: Vec<InodeRecord>,
    /// The change has happened already: quotas cannot refuse it.
    forced: bool,
    counters: Option<CountersRecord>,
    /// Permanent records that it adds, less those that it deletes.
    grown: i64,
    /// The changes to publish after the commit.
    changes: Vec<Change>,
}

impl<'t, 'n> Tx<'t, 'n> {
    pub(crate) fn new(
        state: &'n VolumeState,
        txn: &'t mut dyn Transaction,
        open: &'t mut Option<MutexGuard<'n, OpenFiles>>,
    ) -> Self {
        Tx {
            state,
            txn,
            open,
            inodes: BTreeMap::new(),
            removed: Vec::new(),
            forced: false,
            counters: None,
            grown: 0,
            changes: Vec::new(),
        }
    }

    /// Reads of the state before this transaction's changes of inodes and counters.
    pub(crate) fn reader(&self) -> &dyn Reader {
        &*self.txn
    }

    /// The change has happened already: it is charged without regard to bounds.
    pub(crate) fn force(&mut self) {
        self.forced = true;
    }

    /// The namespace grows by more than names and attributes.
    pub(crate) fn grow(&mut self) {
        self.grown += 1;
    }

    /// The state of the volume that it changes.
    pub(crate) fn state(&self) -> &'n VolumeState {
        self.state
    }

    /// The open files, locked: no client attaches or detaches until this transaction has ended.
    pub(crate) fn open_files(&mut self) -> &mut OpenFiles {
        let state = self.state;
        self.open.get_or_insert_with(|| state.open_files())
    }

    pub(crate) fn put(&mut self, space: weft_kv::Space, key: &[u8], record: &impl Message) {
        self.note(space, key);
        self.grown += i64::from(GROWING.contains(&space));
        self.txn.put(space, key, &record.encode_to_vec());
    }

    /// As [`Tx::put`], of a record that no client has seen.
    pub(crate) fn put_unseen(&mut self, space: weft_kv::Space, key: &[u8], record: &impl Message) {
        self.txn.put(space, key, &record.encode_to_vec());
    }

    /// As [`Tx::delete`], of a record that no client has seen.
    pub(crate) fn delete_unseen(&mut self, space: weft_kv::Space, key: &[u8]) {
        self.txn.delete(space, key);
    }

    pub(crate) fn delete(&mut self, space: weft_kv::Space, key: &[u8]) {
        self.note(space, key);
        self.grown -= i64::from(GROWING.contains(&space));
        self.txn.delete(space, key);
    }

    /// Notes a change of an entry or an inode for watchers.
    fn note(&mut self, space: weft_kv::Space, key: &[u8]) {
        if space == ENTRIES {
            self.changes.extend(entry_change(key));
        } else if space == INODES {
            self.changes.extend(keys::number(key).map(Change::File));
        }
    }

    pub(crate) fn counters(&mut self) -> Result<&mut CountersRecord, MetaError> {
        if self.counters.is_none() {
            self.counters = Some(keys::counters(&*self.txn)?);
        }
        Ok(self.counters.as_mut().expect("just read"))
    }

    /// The inode as this transaction changes it; `known` is the inode that it read.
    pub(crate) fn change(&mut self, id: u64, known: &InodeRecord) -> &mut InodeRecord {
        let changed = self.inodes.entry(id).or_insert_with(|| ChangedInode {
            before: Some(known.clone()),
            now: known.clone(),
        });
        &mut changed.now
    }

    /// The attributes of a file as this transaction leaves it.
    pub(crate) fn attributes(&mut self, known: &Node) -> Attributes {
        let inode = self.change(known.id, &known.inode).clone();
        let id = known.id;
        attributes(&Node { id, inode })
    }

    /// Adds a new inode.
    pub(crate) fn create(&mut self, id: u64, inode: InodeRecord) -> Result<(), MetaError> {
        self.counters()?.files += 1;
        let changed = ChangedInode {
            before: None,
            now: inode,
        };
        self.inodes.insert(id, changed);
        Ok(())
    }

    /// Removes an inode. Returns it as this transaction had changed it.
    pub(crate) fn remove(&mut self, node: &Node) -> Result<InodeRecord, MetaError> {
        let last = self.change(node.id, &node.inode).clone();
        let removed = self.inodes.remove(&node.id);
        self.removed
            .extend(removed.and_then(|changed| changed.before));
        self.delete(INODES, &node.id.to_be_bytes());
        if node.inode.has_parity() {
            self.delete_unseen(WITH_PARITY, &node.id.to_be_bytes());
        }
        let counters = self.counters()?;
        counters.files = counters.files.saturating_sub(1);
        Ok(last)
    }

    /// Allocates the next id, which is never reused.
    pub(crate) fn next_id(&mut self) -> Result<u64, MetaError> {
        let counters = self.counters()?;
        let id = counters.next_id;
        counters.next_id += 1;
        Ok(id)
    }

    /// Whether this id was allocated before, and has no inode.
    pub(crate) fn is_free_id(&mut self, id: u64) -> Result<bool, MetaError> {
        let given = id < self.counters()?.next_id;
        Ok(given && !self.inodes.contains_key(&id) && keys::inode(self.reader(), id)?.is_none())
    }

    /// Charges and writes what was changed in memory. Returns the changes for watchers.
    ///
    /// # Errors
    /// [`weft_kv::KvError::NoSpace`] where the namespace would grow and its engine has no space.
    pub(crate) fn finish(mut self) -> Result<Vec<Change>, MetaError> {
        if self.grown > 0 && !self.forced {
            self.state.kv().check_space()?;
        }
        let inodes = std::mem::take(&mut self.inodes);
        let bounds = if self.forced {
            Bounds::Ignored
        } else {
            Bounds::Enforced(self.state.growth())
        };
        let changes = inodes.values().map(|c| (c.before.as_ref(), &c.now));
        for (payer, record) in charge(self.reader(), changes, &self.removed, bounds)? {
            self.put_quota(payer, &record);
        }
        for (id, changed) in inodes {
            if !changed.is_allowed() {
                return Err(MetaError::ReadOnly { id });
            }
            let had = changed.before.as_ref().is_some_and(InodeRecord::has_parity);
            match (had, changed.now.has_parity()) {
                (false, true) => {
                    self.put_unseen(WITH_PARITY, &id.to_be_bytes(), &ParityRecord::default());
                }
                (true, false) => self.delete_unseen(WITH_PARITY, &id.to_be_bytes()),
                _ => {}
            }
            self.put(INODES, &id.to_be_bytes(), &changed.now);
        }
        if let Some(counters) = self.counters.take() {
            self.put(VOLUME, COUNTERS_KEY, &counters);
        }
        Ok(self.changes)
    }

    /// Stores a quota record, or deletes one without usage and bounds.
    pub(crate) fn put_quota(&mut self, payer: Payer, record: &QuotaRecord) {
        if record.is_void(payer) {
            self.delete_unseen(QUOTAS, &payer.key());
        } else {
            self.put_unseen(QUOTAS, &payer.key(), record);
        }
    }
}
