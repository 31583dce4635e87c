//! Spill: moves the bytes of a small file, which are stored with its metadata (*inline*), to its
//! cells.
//!
//! A file is inline from its creation until it is spilled, and never again. While it is inline the
//! record has the current bytes and the size is exact, whichever clients have it open; its cells
//! are empty, except while the record says that it is spilling.
//!
//! The caller carries out these steps, one file at a time:
//!
//! 1. [`begin_spill`] marks the record, then a sync: from here on nothing else changes the bytes.
//! 2. If the mark was there before, the cells are emptied: an earlier caller crashed in step 3.
//! 3. The bytes are written to the cells and synced.
//! 4. [`end_spill`] removes the record, then a sync, before any client learns that the bytes are in
//!    the cells.
//!
//! Where a server refuses step 3, for want of space say, the cells are emptied and [`undo_spill`]
//! removes the mark: the file is inline as before, and can be read.
//!
//! Meanwhile the file counts as open, so that its cells are not deleted before they are written.

use weft_layout::{FileId, Layout};

use crate::error::MetaError;
use crate::open::OpenMode;
use crate::records::keys::{self, INLINE, content};
use crate::records::record::InlineRecord;
use crate::records::{Node, layout_of};
use crate::tx::Volume;

/// The client that has a file open while it is spilled. Real clients have other, random numbers.
const SPILLER: u64 = 0;

/// The next step of a spill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spill {
    /// The file.
    pub file: FileId,
    /// Where its cells are.
    pub layout: Layout,
    /// Its bytes in canonical order.
    pub data: Vec<u8>,
    /// The cells may have some of the bytes: set their size to 0 first, under this operation
    /// number.
    pub empty_first: Option<u64>,
    /// The number of the operation that sets the cells' size, where writing the bytes does not.
    pub extend: u64,
    /// The number of the operation that sets it to 0 again, where the bytes are not written.
    pub undo: u64,
}

/// How a spill ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpillEnd {
    /// The bytes are on stable storage in the cells.
    Written,
    /// They are not: the record stays as it is.
    Failed,
}

pub(crate) fn begin_spill(volume: &Volume, file: u64) -> Result<Option<Spill>, MetaError> {
    volume.transact_then(
        |tx| {
            // No client attaches between the check for writers and the commit.
            tx.open_files();
            let inode = keys::inode(tx.reader(), file)?;
            let inode = inode.ok_or(MetaError::Stale { id: file })?;
            if !inode.inline || inode.has_own_cells() {
                return Ok(None);
            }
            let record = content(tx.reader(), file)?;
            if record.data.is_empty() && !record.spilling {
                tx.move_to_cells(&mut Node { id: file, inode }, &[]);
                return Ok(None);
            }
            let counters = tx.counters()?;
            let first = counters.next_intent;
            counters.next_intent += 3;
            let empty_first = record.spilling.then_some(first);
            if !record.spilling {
                let marked = InlineRecord {
                    spilling: true,
                    ..record.clone()
                };
                tx.put(INLINE, &file.to_be_bytes(), &marked);
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

pub(crate) fn undo_spill(volume: &Volume, file: u64) -> Result<bool, MetaError> {
    volume.transact(|tx| {
        let inode = keys::inode(tx.reader(), file)?;
        let record = content(tx.reader(), file)?;
        let inline = inode.is_some_and(|inode| inode.inline && inode.frozen.is_none());
        // After a restart there may be writers that have not reported yet that they have the file
        // open.
        let shared =
            volume.state().grace().is_active() || tx.open_files().has_several_writers(file);
        if !inline || !record.spilling || shared {
            return Ok(false);
        }
        tx.put_content(file, &record.data);
        Ok(true)
    })
}

pub(crate) fn end_spill(
    volume: &Volume,
    now: i64,
    file: u64,
    end: SpillEnd,
) -> Result<(), MetaError> {
    volume.transact_then(
        |tx| {
            let ended = tx.open_files().if_detached(SPILLER, file, OpenMode::Read);
            let inode = keys::inode(tx.reader(), file)?;
            let inode = inode.ok_or(MetaError::Stale { id: file })?;
            let mut node = Node { id: file, inode };
            if end == SpillEnd::Written && node.inode.inline {
                let data = content(tx.reader(), file)?.data;
                tx.move_to_cells(&mut node, &data);
                // The cells' time is that of the spill, which is no write by a client.
                let inode = tx.change(file, &node.inode);
                inode.modified_set = inode.modified_set.max(now);
            }
            let last =
                ended.is_some_and(|ended| ended.is_last()) && !volume.state().grace().is_active();
            if last && node.inode.links == 0 {
                tx.reap(file)?;
            }
            Ok(())
        },
        |open, ()| open.detach(SPILLER, file, OpenMode::Read),
    )
}
