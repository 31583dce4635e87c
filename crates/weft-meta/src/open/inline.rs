//! Small files whose bytes lie with their metadata (*inline*), and their way to the cells (*spilling*).
//!
//! A file is inline from its creation until it is spilled, and never again. While it is inline the record is the truth
//! and its size is exact, whoever has it open; its cells are empty, except while the record says that it is spilling.
//!
//! To spill, the caller carries these steps through, one file at a time:
//!
//! 1. [`Namespace::begin_spill`] marks the record, then a sync: from here on nothing else happens to the bytes.
//! 2. If the mark was there before, the cells are emptied: somebody died in step 3.
//! 3. The bytes are written to the cells, with sync.
//! 4. [`Namespace::end_spill`] removes the record, then a sync, before anybody hears that the bytes are in the cells.
//!
//! Where a server refuses step 3, for want of space say, the cells are emptied and [`Namespace::undo_spill`] takes the mark back: the
//! file is inline as it was, and can be read.
//!
//! Meanwhile the file counts as open, so that nobody deletes its cells before they are written.
//!
//! Invariants: `inline` ⇒ the inode's size is the record's length (no record: 0), and it is exact; a record has an inode
//! that says `inline`; a record that is spilling is not empty.

use weft_layout::{FileId, Layout};

use super::sessions::reap;
use crate::edit::Edit;
use crate::error::MetaError;
use crate::namespace::Namespace;
use crate::records::keys::{self, INLINE, content};
use crate::records::record::InlineRecord;
use crate::records::{Node, layout_of};

/// Holds a file open that is being spilled: clients have random numbers other than this.
const SPILLER: u64 = 0;

/// What a file that is to be spilled needs next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spill {
    /// The file.
    pub file: FileId,
    /// Where its cells are.
    pub layout: Layout,
    /// Its bytes in canonical order.
    pub data: Vec<u8>,
    /// The cells may hold some of them: set their size to 0 first, under this operation's number.
    pub empty_first: Option<u64>,
    /// The operation that sets the cells' size to that of the bytes, where writing them does not.
    pub extend: u64,
    /// The operation that sets it to 0 again, where they are not written.
    pub undo: u64,
}

impl Edit<'_, '_> {
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

    /// From now on the bytes of this inline file are in its cells: done where it has none, else refused with
    /// [`MetaError::Inline`] until they were spilled.
    pub(crate) fn need_cells(&mut self, node: &mut Node) -> Result<(), MetaError> {
        let record = content(self.reader(), node.id)?;
        if node.inode.has_own_cells() {
            return Ok(());
        }
        if record.spilling || !record.data.is_empty() {
            return Err(MetaError::Inline { id: node.id });
        }
        self.leave_inline(node, &[]);
        Ok(())
    }

    /// As [`Edit::need_cells`], for whoever cannot wait: what comes next to the file waits instead.
    pub(crate) fn must_spill(&mut self, node: &mut Node) -> Result<(), MetaError> {
        let mut record = content(self.reader(), node.id)?;
        if record.data.is_empty() && !record.spilling {
            self.leave_inline(node, &[]);
        } else if !record.spilling {
            // That the cells hold nothing yet is forgotten with it: they will be emptied for nothing.
            record.spilling = true;
            self.put(INLINE, &node.id.to_be_bytes(), &record);
        }
        Ok(())
    }

    fn leave_inline(&mut self, node: &mut Node, data: &[u8]) {
        if node.inode.frozen.is_some() {
            // What a checkpoint keeps can be read from now on from cells as well.
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

impl Namespace {
    /// First step of a spill: nothing else happens to the bytes from here to [`Namespace::end_spill`], which must
    /// follow where an answer is [`Some`]. `None`: the bytes are in the cells.
    ///
    /// # Durability
    /// The caller syncs before the next step, and also before it tells anybody of a `None`.
    pub fn begin_spill(&self, file: u64) -> Result<Option<Spill>, MetaError> {
        self.edit_then(
            |edit| {
                // Nobody attaches between the look at the writers and the commit.
                edit.open_files();
                let inode = keys::inode(edit.reader(), file)?;
                let inode = inode.ok_or(MetaError::Stale { id: file })?;
                if !inode.inline || inode.has_own_cells() {
                    return Ok(None);
                }
                let record = content(edit.reader(), file)?;
                if record.data.is_empty() && !record.spilling {
                    edit.leave_inline(&mut Node { id: file, inode }, &[]);
                    return Ok(None);
                }
                let counters = edit.counters()?;
                let first = counters.next_intent;
                counters.next_intent += 3;
                let empty_first = record.spilling.then_some(first);
                if !record.spilling {
                    let marked = InlineRecord {
                        spilling: true,
                        ..record.clone()
                    };
                    edit.put(INLINE, &file.to_be_bytes(), &marked);
                }
                Ok(Some(Spill {
                    file: FileId(file),
                    layout: layout_of(file, &inode)?,
                    data: record.data,
                    empty_first,
                    extend: first + 1,
                    undo: first + 2,
                }))
            },
            |open, spill| {
                if spill.is_some() {
                    open.attach_reader(SPILLER, file);
                }
            },
        )
    }

    /// Takes back that a file's bytes are on their way to its cells, which are empty: it is inline as before, unless several clients
    /// write to it: those meet in its cells. Whether that was done. Before [`Namespace::end_spill`].
    ///
    /// # Durability
    /// As of any operation; until then the mark stays.
    pub fn undo_spill(&self, file: u64) -> Result<bool, MetaError> {
        self.edit(|edit| {
            let inode = keys::inode(edit.reader(), file)?;
            let record = content(edit.reader(), file)?;
            let inline = inode.is_some_and(|inode| inode.inline && inode.frozen.is_none());
            // After a restart there may be writers that have not told of themselves yet.
            let shared = self.recovering() || edit.open_files().has_several_writers(file);
            if !inline || !record.spilling || shared {
                return Ok(false);
            }
            edit.put_content(file, &record.data);
            Ok(true)
        })
    }

    /// Last step of a spill. `written`: the bytes survive power loss in the cells; else the record stays as it is.
    ///
    /// # Durability
    /// If `written`, the caller syncs before anybody hears that the bytes are in the cells.
    pub fn end_spill(&self, now: i64, file: u64, written: bool) -> Result<(), MetaError> {
        self.edit_then(
            |edit| {
                let ended = edit.open_files().if_detached(SPILLER, file, false);
                let inode = keys::inode(edit.reader(), file)?;
                let inode = inode.ok_or(MetaError::Stale { id: file })?;
                let mut node = Node { id: file, inode };
                if written && node.inode.inline {
                    let data = content(edit.reader(), file)?.data;
                    edit.leave_inline(&mut node, &data);
                    // The cells' time is that of the spill, which is nobody's write.
                    let inode = edit.change(file, &node.inode);
                    inode.modified_set = inode.modified_set.max(now);
                }
                let last = ended.is_some_and(|ended| ended.unused) && !self.recovering();
                if last && node.inode.links == 0 {
                    reap(edit, file)?;
                }
                Ok(())
            },
            |open, ()| open.detach(SPILLER, file, false),
        )
    }
}
