//! Names: adding and removing them, and deleting a file that loses its last name.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use weft_kv::scan_prefix;
use weft_proto::meta::FileKind;

use super::transaction::Tx;
use crate::checkpoints::has_checkpoints;
use crate::error::{MetaError, text};
use crate::records::Node;
use crate::records::keys::{self, ENTRIES, HOLDS, INLINE, ORPHANS, XATTRS, content};
use crate::records::record::{
    DeleteRecord, EntryRecord, IntentRecord, OrphanRecord, TruncateRecord,
};

impl Tx<'_, '_> {
    /// Adds a name for a file and counts it in its directory.
    pub(crate) fn add_entry(&mut self, directory: &Node, name: &[u8], child: (u64, i32), now: i64) {
        let (id, kind) = child;
        let record = EntryRecord { id, kind };
        self.put(ENTRIES, &keys::with_name(directory.id, name), &record);
        let inode = self.change(directory.id, &directory.inode);
        inode.size += 1;
        inode.modified = now;
        inode.changed = now;
    }

    /// Removes a name and counts that in its directory; the file is not changed.
    pub(crate) fn remove_entry(&mut self, directory: &Node, name: &[u8], now: i64) {
        self.delete(ENTRIES, &keys::with_name(directory.id, name));
        let inode = self.change(directory.id, &directory.inode);
        inode.size = inode.size.saturating_sub(1);
        inode.modified = now;
        inode.changed = now;
    }

    /// Refuses to remove a directory that has checkpoints, including those being made or dropped:
    /// they would lose their name. Call it before [`Tx::unlink`] of a possible directory.
    pub(crate) fn need_no_checkpoints(&self, node: &Node, path: &[u8]) -> Result<(), MetaError> {
        if node.inode.is_directory() && has_checkpoints(self.reader(), node.id)? {
            return Err(MetaError::HasCheckpoints { path: text(path) });
        }
        Ok(())
    }

    /// Counts one name of a file less, or that of a directory, and deletes the file with its last
    /// name. Returns how many names are left.
    pub(crate) fn unlink(&mut self, node: &Node, now: i64) -> Result<u32, MetaError> {
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
                self.delete_inode(node)?;
            }
        }
        Ok(links)
    }

    /// Deletes an inode that has no name and that no client has open, and adds the intent to delete
    /// its cells.
    pub(crate) fn delete_inode(&mut self, node: &Node) -> Result<(), MetaError> {
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
            keys::hold(self.reader(), node.id)?
        } else {
            None
        };
        if let (None, Some(codings), Some(layout)) = (&held, &known.codings, &known.layout) {
            self.delete_parity(codings, layout)?;
        }
        let kept = held.as_ref().and(known.layout.as_ref());
        let pending = self.forget_checkpoints(node.id, kept)? || known.truncate != 0;
        if let Some(mut held) = held {
            // Checkpoints of trees need its cells: only its current data is removed.
            held.deleted = true;
            if known.codings.is_some() {
                held.codings.clone_from(&known.codings);
                held.layout.clone_from(&known.layout);
            }
            self.put(HOLDS, &node.id.to_be_bytes(), &held);
            self.add_intent(&IntentRecord {
                file: node.id,
                delete: None,
                truncate: Some(TruncateRecord {
                    layout: known.layout,
                    size: 0,
                }),
                checkpoint: None,
            })?;
        } else if known.is(FileKind::Regular) && has_cells {
            if pending {
                self.supersede(&BTreeSet::from([node.id]))?;
            }
            let servers = known.layout.map_or_else(Vec::new, |layout| layout.servers);
            self.add_intent(&IntentRecord {
                file: node.id,
                delete: Some(DeleteRecord { servers }),
                truncate: None,
                checkpoint: None,
            })?;
        }
        Ok(())
    }

    /// Deletes a file if it is an orphan.
    pub(crate) fn reap(&mut self, id: u64) -> Result<bool, MetaError> {
        let key = id.to_be_bytes();
        if self.reader().get(ORPHANS, &key)?.is_none() {
            return Ok(false);
        }
        let inode = keys::named_inode(self.reader(), id)?;
        self.delete(ORPHANS, &key);
        self.delete_inode(&Node { id, inode })?;
        Ok(true)
    }
}
