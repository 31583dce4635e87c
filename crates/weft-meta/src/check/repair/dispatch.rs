//! Dispatch of findings to the repair of their fault.

use weft_proto::fsck::{Fault, FileState, Finding};

use super::checkpoints::checkpoint_unknown;
use super::counters::{counter, usage};
use super::inodes::{no_inode, no_layout};
use super::names::{
    circle, entries, entry_kind, links, no_directory, no_name, orphan, parent, second_name,
};
use super::outcome::{RepairResult, not_repaired};
use super::records::damaged_record;
use super::removed::{id_removed, removed};
use super::sizes::{
    attribute_bytes, fork_bytes, inline_bytes_of_cells, inline_size, refused, size, stray_delete,
    truncate_lost,
};
use crate::tx::{Tx, Volume};

/// Repairs a finding in one transaction; see [`Namespace::repair`](crate::Namespace::repair).
pub(crate) fn repair(
    volume: &Volume,
    now: i64,
    finding: &Finding,
    seen: Option<&FileState>,
) -> RepairResult {
    let Ok(fault) = Fault::try_from(finding.fault) else {
        // A newer peer reported it.
        return Ok(not_repaired());
    };
    volume.transact(|tx| {
        tx.force();
        repair_fault(volume, tx, (fault, finding), seen, now)
    })
}

/// Lists every fault, so that a new one must get a repair, or none, here.
fn repair_fault(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    (fault, finding): (Fault, &Finding),
    seen: Option<&FileState>,
    now: i64,
) -> RepairResult {
    let file = finding.file;
    match fault {
        Fault::Record => damaged_record(volume, tx, finding, now),
        Fault::NoInode => no_inode(volume, tx, finding, now),
        Fault::EntryKind => entry_kind(tx, finding),
        Fault::SecondName => second_name(tx, file, now),
        Fault::NoDirectory => no_directory(tx, file, now),
        Fault::NoName => no_name(tx, file, now),
        Fault::Links => links(tx, file),
        Fault::Entries => entries(tx, file),
        Fault::Parent => parent(tx, file),
        Fault::Circle => circle(tx, file, now),
        Fault::Orphan => orphan(tx, file),
        Fault::XattrBytes => attribute_bytes(tx, file),
        Fault::InlineBytes => inline_bytes_of_cells(volume, tx, file, now),
        Fault::InlineSize => inline_size(tx, file),
        Fault::DeleteOwed => stray_delete(tx, finding),
        Fault::TruncateLost => truncate_lost(tx, finding),
        Fault::Refused => refused(tx, finding.expected),
        Fault::Counter => counter(tx),
        Fault::Usage => usage(tx),
        Fault::NoLayout => no_layout(volume, tx, file, now),
        Fault::Short | Fault::Long => size(tx, finding),
        Fault::ForkBytes => fork_bytes(tx, finding),
        Fault::CheckpointUnknown => checkpoint_unknown(tx, finding, now),
        Fault::Removed => removed(volume, tx, file, seen, now),
        Fault::IdRemoved => id_removed(volume, tx, file, seen, now),
        // Servers repair these, or nothing can.
        Fault::Unknown
        | Fault::LostCells
        | Fault::Misplaced
        | Fault::InlineCells
        | Fault::ChunkSize
        | Fault::CheckpointMissing
        | Fault::Emptied
        | Fault::PartRemoved
        | Fault::Entry
        | Fault::Beyond
        | Fault::Free
        | Fault::Twice
        | Fault::Inherited
        | Fault::Tree
        | Fault::Checksum
        | Fault::Unreadable
        | Fault::IndexRecord
        | Fault::Lost
        | Fault::Unproven => Ok(not_repaired()),
    }
}
