//! One transaction of the namespace: inodes are read once, changed in place, written at the end.
//!
//! An operation that meets the same directory twice (rename within it) changes one copy, and the
//! counters are read and written only by operations that touch them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use parking_lot::MutexGuard;
use prost::Message;
use weft_kv::{Reader, Transaction, scan_prefix};
use weft_proto::meta::{Attributes, FileKind};

use super::error::{MetaError, text};
use super::namespace::Namespace;
use crate::checkpoints::has_checkpoints;
use crate::leases::{Change, entry_change};
use crate::open::OpenFiles;
use crate::records::keys::{
    self, COUNTERS_KEY, ENTRIES, HELD, INLINE, INODES, INTENTS, ORPHANS, VOLUME, XATTRS, content,
};
use crate::records::record::{
    CountersRecord, DeleteRecord, EntryRecord, InodeRecord, IntentRecord, OrphanRecord,
    TruncateRecord,
};
use crate::records::{Node, attributes};

/// What fills an engine: each name and attribute is a record here. Who adds anything else says so: [`Edit::grow`].
const GROWING: [weft_kv::Space; 2] = [ENTRIES, XATTRS];

/// An inode that a transaction changes.
pub(crate) struct Changed {
    /// As it was; `None`: it is new.
    pub(crate) before: Option<InodeRecord>,
    pub(crate) now: InodeRecord,
}

impl Changed {
    /// Of what a checkpoint keeps, only where its bytes lie may change.
    fn is_allowed(&self) -> bool {
        let Some(before) = &self.before else {
            return true;
        };
        let own = |inode: &InodeRecord| inode.frozen.is_some_and(|frozen| frozen.own_cells);
        before.frozen.is_none() || *before == self.now || own(&self.now) && !own(before)
    }
}

/// A transaction under way.
pub(crate) struct Edit<'t, 'n> {
    namespace: &'n Namespace,
    txn: &'t mut dyn Transaction,
    /// Held from the first look until the commit, so that no attachment slips in between.
    open: &'t mut Option<MutexGuard<'n, OpenFiles>>,
    inodes: BTreeMap<u64, Changed>,
    /// Inodes that were there and are removed, as they were.
    gone: Vec<InodeRecord>,
    /// What happens has happened already, whatever quotas say.
    forced: bool,
    counters: Option<CountersRecord>,
    /// Records that make the namespace larger for good, less those taken away.
    grown: i64,
    /// What watchers will be told, if it is committed.
    changes: Vec<Change>,
}

impl<'t, 'n> Edit<'t, 'n> {
    pub(crate) fn new(
        namespace: &'n Namespace,
        txn: &'t mut dyn Transaction,
        open: &'t mut Option<MutexGuard<'n, OpenFiles>>,
    ) -> Self {
        Edit {
            namespace,
            txn,
            open,
            inodes: BTreeMap::new(),
            gone: Vec::new(),
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

    /// What this transaction notes has happened already, and is counted whatever bounds there are.
    pub(crate) fn force(&mut self) {
        self.forced = true;
    }

    /// The namespace is larger after this transaction, by more than names and attributes.
    pub(crate) fn grow(&mut self) {
        self.grown += 1;
    }

    /// What it changes.
    pub(crate) fn namespace(&self) -> &'n Namespace {
        self.namespace
    }

    pub(crate) fn is_forced(&self) -> bool {
        self.forced
    }

    /// The inodes that this transaction removes, as they were before it.
    pub(crate) fn gone(&self) -> &[InodeRecord] {
        &self.gone
    }

    /// Who has what open; nobody attaches or detaches until this transaction has ended.
    pub(crate) fn open_files(&mut self) -> &mut OpenFiles {
        let namespace = self.namespace;
        self.open.get_or_insert_with(|| namespace.open_files.lock())
    }

    pub(crate) fn put(&mut self, space: weft_kv::Space, key: &[u8], record: &impl Message) {
        self.note(space, key);
        self.grown += i64::from(GROWING.contains(&space));
        self.txn.put(space, key, &record.encode_to_vec());
    }

    /// As [`Edit::put`], of something that nobody has been told of.
    pub(crate) fn put_unseen(&mut self, space: weft_kv::Space, key: &[u8], record: &impl Message) {
        self.txn.put(space, key, &record.encode_to_vec());
    }

    /// As [`Edit::delete`], of something that nobody has been told of.
    pub(crate) fn delete_unseen(&mut self, space: weft_kv::Space, key: &[u8]) {
        self.txn.delete(space, key);
    }

    pub(crate) fn delete(&mut self, space: weft_kv::Space, key: &[u8]) {
        self.note(space, key);
        self.grown -= i64::from(GROWING.contains(&space));
        self.txn.delete(space, key);
    }

    /// Every change of an entry and of an inode passes here, whatever operation makes it.
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

    /// The inode as this transaction changes it; `known` is what it read.
    pub(crate) fn change(&mut self, id: u64, known: &InodeRecord) -> &mut InodeRecord {
        let changed = self.inodes.entry(id).or_insert_with(|| Changed {
            before: Some(known.clone()),
            now: known.clone(),
        });
        &mut changed.now
    }

    /// What the wire says of a file as this transaction leaves it.
    pub(crate) fn attributes(&mut self, known: &Node) -> Attributes {
        let inode = self.change(known.id, &known.inode).clone();
        let id = known.id;
        attributes(&Node { id, inode })
    }

    /// A new inode with a new id.
    pub(crate) fn create(&mut self, id: u64, inode: InodeRecord) -> Result<(), MetaError> {
        self.counters()?.files += 1;
        let changed = Changed {
            before: None,
            now: inode,
        };
        self.inodes.insert(id, changed);
        Ok(())
    }

    /// Takes the next id; it is never given out again.
    pub(crate) fn next_id(&mut self) -> Result<u64, MetaError> {
        let counters = self.counters()?;
        let id = counters.next_id;
        counters.next_id += 1;
        Ok(id)
    }

    /// Whether this id was given out before, and names no inode.
    pub(crate) fn was_given_out(&mut self, id: u64) -> Result<bool, MetaError> {
        let given = id < self.counters()?.next_id;
        Ok(given && !self.inodes.contains_key(&id) && keys::inode(self.reader(), id)?.is_none())
    }

    /// Owes work to the I/O servers.
    pub(crate) fn owe(&mut self, intent: &IntentRecord) -> Result<u64, MetaError> {
        let counters = self.counters()?;
        let number = counters.next_intent;
        counters.next_intent += 1;
        counters.intents += 1;
        self.put(INTENTS, &number.to_be_bytes(), intent);
        Ok(number)
    }

    /// Somebody has this file open for writing, or may have without having told yet.
    pub(crate) fn may_be_written(&mut self, id: u64) -> bool {
        self.namespace.may_be_held(id) || self.open_files().has_writer(id)
    }

    /// Gives a name to a file and counts it in its directory.
    pub(crate) fn enter(&mut self, directory: &Node, name: &[u8], child: (u64, i32), now: i64) {
        let (id, kind) = child;
        let record = EntryRecord { id, kind };
        self.put(ENTRIES, &keys::with_name(directory.id, name), &record);
        let inode = self.change(directory.id, &directory.inode);
        inode.size += 1;
        inode.modified = now;
        inode.changed = now;
    }

    /// Takes a name away and counts it in its directory; the file is not touched.
    pub(crate) fn leave(&mut self, directory: &Node, name: &[u8], now: i64) {
        self.delete(ENTRIES, &keys::with_name(directory.id, name));
        let inode = self.change(directory.id, &directory.inode);
        inode.size = inode.size.saturating_sub(1);
        inode.modified = now;
        inode.changed = now;
    }

    /// Refuses to go on if this is a directory that has checkpoints, also such as are being made or dropped: they would be left without
    /// a name. Needed before [`Edit::unname`] of what may be a directory.
    pub(crate) fn need_no_checkpoints(&self, node: &Node, path: &[u8]) -> Result<(), MetaError> {
        if node.inode.is_directory() && has_checkpoints(self.reader(), node.id)? {
            return Err(MetaError::HasCheckpoints { path: text(path) });
        }
        Ok(())
    }

    /// One name less for a file; a directory loses its only one. Answers how many are left.
    pub(crate) fn unname(&mut self, node: &Node, now: i64) -> Result<u32, MetaError> {
        let inode = self.change(node.id, &node.inode);
        inode.changed = now;
        inode.links = if inode.is_directory() {
            0
        } else {
            inode.links.saturating_sub(1)
        };
        let links = inode.links;
        if links == 0 {
            let recovering = self.namespace.recovering();
            if recovering || self.open_files().is_open(node.id) {
                let record = OrphanRecord { since: now };
                self.put(ORPHANS, &node.id.to_be_bytes(), &record);
            } else {
                self.bury(node)?;
            }
        }
        Ok(links)
    }

    /// Removes an inode that has no name and that nobody has open, and owes the rest.
    pub(crate) fn bury(&mut self, node: &Node) -> Result<(), MetaError> {
        let known = self.change(node.id, &node.inode).clone();
        let removed = self.inodes.remove(&node.id);
        self.gone.extend(removed.and_then(|changed| changed.before));
        self.delete(INODES, &node.id.to_be_bytes());
        let counters = self.counters()?;
        counters.files = counters.files.saturating_sub(1);
        if known.xattr_bytes > 0 {
            let mut names = Vec::new();
            let prefix = node.id.to_be_bytes();
            scan_prefix(&*self.txn, XATTRS, &prefix, &mut |key, _| {
                names.push(key.to_vec());
                ControlFlow::Continue(())
            })?;
            for key in names {
                self.delete(XATTRS, &key);
            }
        }
        // The cells of an inline file are empty, unless somebody is filling them.
        let mut has_cells = true;
        if known.inline {
            has_cells = content(self.reader(), node.id)?.spilling;
            self.delete(INLINE, &node.id.to_be_bytes());
        }
        let held = if has_cells && known.is(FileKind::Regular) {
            keys::held(self.reader(), node.id)?
        } else {
            None
        };
        let kept = held.and(known.layout.as_ref());
        let owed = self.forget_checkpoints(node.id, kept)? || known.truncate != 0;
        if let Some(mut held) = held {
            // Checkpoints of trees need its cells: only what it has for itself goes.
            held.deleted = true;
            self.put(HELD, &node.id.to_be_bytes(), &held);
            self.owe(&IntentRecord {
                file: node.id,
                delete: None,
                truncate: Some(TruncateRecord {
                    layout: known.layout,
                    size: 0,
                }),
                checkpoint: None,
            })?;
        } else if known.is(FileKind::Regular) && has_cells {
            if owed {
                self.supersede(&BTreeSet::from([node.id]))?;
            }
            let servers = known.layout.map_or_else(Vec::new, |layout| layout.servers);
            self.owe(&IntentRecord {
                file: node.id,
                delete: Some(DeleteRecord { servers }),
                truncate: None,
                checkpoint: None,
            })?;
        }
        Ok(())
    }

    /// Writes what was changed in memory, and charges it. Answers what changes with the commit.
    ///
    /// # Errors
    /// [`weft_kv::KvError::NoSpace`] where the namespace would grow and its engine has no room to.
    pub(crate) fn finish(mut self) -> Result<Vec<Change>, MetaError> {
        if self.grown > 0 && !self.forced {
            self.namespace.kv.check_room()?;
        }
        let inodes = std::mem::take(&mut self.inodes);
        self.charge(&inodes)?;
        for (id, changed) in inodes {
            if !changed.is_allowed() {
                return Err(MetaError::ReadOnly { id });
            }
            self.put(INODES, &id.to_be_bytes(), &changed.now);
        }
        if let Some(counters) = self.counters.take() {
            self.put(VOLUME, COUNTERS_KEY, &counters);
        }
        Ok(self.changes)
    }
}
