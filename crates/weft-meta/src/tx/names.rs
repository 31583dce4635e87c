//! Names: adding and removing one, and what follows when a file loses its last.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use weft_kv::scan_prefix;
use weft_proto::meta::FileKind;

use super::transaction::Tx;
use crate::checkpoints::has_checkpoints;
use crate::error::{MetaError, text};
use crate::records::Node;
use crate::records::keys::{self, ENTRIES, HELD, INLINE, ORPHANS, XATTRS, content};
use crate::records::record::{
    DeleteRecord, EntryRecord, IntentRecord, OrphanRecord, TruncateRecord,
};

impl Tx<'_, '_> {
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

    /// Refuses to go on with a directory that has checkpoints, those being made or dropped
    /// included: they would be left without a name. Call it before [`Tx::unname`] of what may be a
    /// directory.
    pub(crate) fn need_no_checkpoints(&self, node: &Node, path: &[u8]) -> Result<(), MetaError> {
        if node.inode.is_directory() && has_checkpoints(self.reader(), node.id)? {
            return Err(MetaError::HasCheckpoints { path: text(path) });
        }
        Ok(())
    }

    /// Removes one name of a file, or the only one of a directory. Answers how many are left.
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
            let recovering = self.state().grace().is_active();
            if recovering || self.open_files().is_open(node.id) {
                let record = OrphanRecord { since: now };
                self.put(ORPHANS, &node.id.to_be_bytes(), &record);
            } else {
                self.bury(node)?;
            }
        }
        Ok(links)
    }

    /// Removes an inode that has no name and that no client has open, and owes the servers the
    /// rest.
    pub(crate) fn bury(&mut self, node: &Node) -> Result<(), MetaError> {
        let known = self.remove(node)?;
        if known.xattr_bytes > 0 {
            let mut names = Vec::new();
            let prefix = node.id.to_be_bytes();
            scan_prefix(self.reader(), XATTRS, &prefix, &mut |key, _| {
                names.push(key.to_vec());
                ControlFlow::Continue(())
            })?;
            for key in names {
                self.delete(XATTRS, &key);
            }
        }
        // The cells of an inline file are empty, unless it is being spilled.
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
            // Checkpoints of trees need its cells: only its own data is removed.
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

    /// Removes a file if it is an orphan.
    pub(crate) fn reap(&mut self, id: u64) -> Result<bool, MetaError> {
        let key = id.to_be_bytes();
        if self.reader().get(ORPHANS, &key)?.is_none() {
            return Ok(false);
        }
        let inode = keys::named_inode(self.reader(), id)?;
        self.delete(ORPHANS, &key);
        self.bury(&Node { id, inode })?;
        Ok(true)
    }
}
