//! Sizes that servers have set, and whether a writer may have changed them since.

use super::transaction::Tx;
use crate::error::MetaError;
use crate::records::{Node, keys};

impl Tx<'_, '_> {
    /// Whether a client has this file open for writing, or may have and has not reported that yet.
    pub(crate) fn may_be_written(&mut self, id: u64) -> bool {
        self.state().grace().may_hold(id) || self.open_files().has_writer(id)
    }

    /// Completes an intent by which the servers have set a file's size: removes the intent, and
    /// sets the size as far as it is certain. Returns the file, if it still exists.
    pub(crate) fn complete_truncate(
        &mut self,
        number: u64,
        id: u64,
        size: u64,
        now: i64,
    ) -> Result<Option<Node>, MetaError> {
        self.complete_intent(number)?;
        self.apply_truncate(number, id, size, now)
    }

    /// As [`Tx::complete_truncate`], for one of several files of an intent, which stays.
    pub(crate) fn apply_truncate(
        &mut self,
        number: u64,
        id: u64,
        size: u64,
        now: i64,
    ) -> Result<Option<Node>, MetaError> {
        self.force();
        let Some(inode) = keys::inode(self.reader(), id)? else {
            return Ok(None);
        };
        // A writer may have written after it: one that has the file open, one that has not reported
        // that yet after a restart, or one that ended while the service was down.
        let written_to = self.may_be_written(id) || self.state().grace().was_pending(number);
        let inode = self.change(id, &inode);
        let known = !inode.truncate_raced;
        if known {
            inode.size = size;
        }
        inode.note_write(now);
        if inode.truncate == number {
            inode.truncate = 0;
            inode.truncate_raced = false;
            inode.size_exact = known && !written_to && !inode.forks_changed;
        }
        let inode = inode.clone();
        if !inode.size_exact {
            // Its writers may have detached before.
            self.state().unknown_sizes().note(id);
        }
        if !known {
            // The stored size is older: a writer that detaches without a write must not make it
            // exact.
            self.open_files().wrote(id);
        }
        Ok(Some(Node { id, inode }))
    }
}
