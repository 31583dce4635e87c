//! The bytes of small files, which are stored with their metadata until they are spilled to cells.
//!
//! Invariants: `inline` implies that the inode's size is the record's length (no record: 0) and
//! exact; a record has an inode that says `inline`; a record that is spilling is not empty.

use super::transaction::Tx;
use crate::error::MetaError;
use crate::records::Node;
use crate::records::keys::{INLINE, content};
use crate::records::record::InlineRecord;

impl Tx<'_, '_> {
    /// Stores the bytes of an inline file.
    pub(crate) fn put_content(&mut self, id: u64, data: &[u8]) {
        if data.is_empty() {
            self.delete(INLINE, &id.to_be_bytes());
        } else {
            let record = InlineRecord {
                data: data.to_vec(),
                spilling: false,
            };
            self.put(INLINE, &id.to_be_bytes(), &record);
        }
    }

    /// Moves an inline file without bytes to its cells.
    ///
    /// # Errors
    /// [`MetaError::Inline`] where it has bytes and must be spilled first.
    pub(crate) fn require_cells(&mut self, node: &mut Node) -> Result<(), MetaError> {
        let record = content(self.reader(), node.id)?;
        if node.inode.has_own_cells() {
            return Ok(());
        }
        if record.spilling || !record.data.is_empty() {
            return Err(MetaError::Inline { id: node.id });
        }
        self.move_to_cells(node, &[]);
        Ok(())
    }

    /// As [`Tx::require_cells`], for a caller that cannot wait for a spill: it marks the file, and
    /// the next operation on the file waits instead.
    pub(crate) fn mark_spilling(&mut self, node: &mut Node) -> Result<(), MetaError> {
        let mut record = content(self.reader(), node.id)?;
        if record.data.is_empty() && !record.spilling {
            self.move_to_cells(node, &[]);
        } else if !record.spilling {
            // The mark hides that the cells are still empty: the spill empties them needlessly.
            record.spilling = true;
            self.put(INLINE, &node.id.to_be_bytes(), &record);
        }
        Ok(())
    }

    /// Ends that a file is inline: its `data` is in its cells. An image gets the cells beside its
    /// inline bytes.
    pub(crate) fn move_to_cells(&mut self, node: &mut Node, data: &[u8]) {
        if node.inode.frozen.is_some() {
            self.put_content(node.id, data);
            let inode = self.change(node.id, &node.inode);
            if let Some(frozen) = &mut inode.frozen {
                frozen.own_cells = true;
            }
            node.inode = inode.clone();
            return;
        }
        self.delete(INLINE, &node.id.to_be_bytes());
        let written_to = self.may_be_written(node.id);
        let inode = self.change(node.id, &node.inode);
        inode.inline = false;
        inode.size_exact &= !written_to;
        node.inode = inode.clone();
    }
}
