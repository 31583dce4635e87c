//! Sizes that the servers have set, and whether a writer may have changed them since.

use super::transaction::Tx;
use crate::error::MetaError;
use crate::records::{Node, keys};

impl Tx<'_, '_> {
    /// Whether a client has this file open for writing, or may have without having told yet.
    pub(crate) fn may_be_written(&mut self, id: u64) -> bool {
        self.state().grace().may_hold(id) || self.open_files().has_writer(id)
    }

    /// The servers have set a file's size: removes the intent, and sets the size as far as it is
    /// certain. Answers the file, if it still exists.
    pub(crate) fn sized(
        &mut self,
        number: u64,
        id: u64,
        size: u64,
        now: i64,
    ) -> Result<Option<Node>, MetaError> {
        self.settle(number)?;
        self.cut(number, id, size, now)
    }

    /// As [`Tx::sized`], of one file of several that an intent is about.
    pub(crate) fn cut(
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
        // A writer may have written behind it; after a restart, also one that has not told yet that
        // it has the file open, or that died with the service.
        let written_to = self.may_be_written(id) || self.state().grace().owed_before(number);
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
            // Its writers may have gone before.
            self.state().unsettled().note(id);
        }
        if !known {
            // The stored size is older: a writer that detaches without having written must not make
            // it exact.
            self.open_files().wrote(id);
        }
        Ok(Some(Node { id, inode }))
    }
}
