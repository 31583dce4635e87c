//! Repairs of sizes, inline bytes, truncates and deletes.

use weft_proto::fsck::Finding;
use weft_proto::meta::FileKind;

use super::lost_found::{KNOWN, default_inode, name_in_lost_found, set_attribute, some_layout};
use super::outcome::{RepairResult, done, not_repaired, obsolete};
use super::scans::{inline_bytes, xattr_bytes};
use super::set::{change, set};
use crate::intents::is_tree;
use crate::records::keys::{self, INLINE, INODES, readable};
use crate::records::record::InodeRecord;
use crate::tx::{Tx, Volume};

pub(super) fn inline_bytes_of_cells(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    file: u64,
    now: i64,
) -> RepairResult {
    let Some(inode) = readable(tx.reader(), file)?.filter(|inode| !inode.inline) else {
        return Ok(obsolete());
    };
    let Some(data) = inline_bytes(tx, file)? else {
        return Ok(obsolete());
    };
    let id = tx.next_id()?;
    let bytes = data.len() as u64;
    tx.delete(INLINE, &file.to_be_bytes());
    tx.put_content(id, &data);
    let found = InodeRecord {
        layout: Some(some_layout(volume, id, now)?),
        inline: true,
        size: bytes,
        uid: inode.uid,
        gid: inode.gid,
        mode: inode.mode,
        ..default_inode(FileKind::Regular, now)
    };
    let wanted = format!("file-{file}.inline");
    let (_, path) = name_in_lost_found(tx, id, FileKind::Regular as i32, wanted.as_bytes(), now)?;
    tx.create(id, found)?;
    let known = format!("inline bytes of file {file}, which has cells");
    set_attribute(tx, id, KNOWN, known.as_bytes())?;
    Ok(done(format!("moved to {}", String::from_utf8_lossy(&path))))
}

pub(super) fn stray_delete(tx: &mut Tx<'_, '_>, finding: &Finding) -> RepairResult {
    let Some(intent) = keys::intent(tx.reader(), finding.expected)? else {
        return Ok(obsolete());
    };
    let named = tx.reader().get(INODES, &intent.file.to_be_bytes())?;
    if intent.delete.is_none() || named.is_none() {
        return Ok(obsolete());
    }
    tx.complete_intent(finding.expected)?;
    Ok(done("dropped; the file stays".to_owned()))
}

pub(super) fn truncate_lost(tx: &mut Tx<'_, '_>, finding: &Finding) -> RepairResult {
    change(tx, finding.file, |tx, node| {
        let number = node.inode.truncate;
        let intent = keys::intent(tx.reader(), number)?;
        let is_pending = intent.is_some_and(|of| of.file == node.id || is_tree(&of));
        if number == 0 || is_pending {
            return Ok(false);
        }
        let inode = tx.change(node.id, &node.inode);
        inode.truncate = 0;
        inode.truncate_raced = false;
        inode.size_exact = inode.inline;
        if !inode.inline {
            // The stored size is older: a writer that detaches without a write must not make it
            // exact.
            tx.open_files().wrote(node.id);
            tx.state().unknown_sizes().note(node.id);
        }
        Ok(true)
    })
}

/// Makes a size inexact that the cells do not confirm, so that readers ask the servers.
pub(super) fn size(tx: &mut Tx<'_, '_>, finding: &Finding) -> RepairResult {
    let file = finding.file;
    let written_to = tx.may_be_written(file);
    change(tx, file, |tx, node| {
        let known = &node.inode;
        if written_to || !known.size_exact || known.inline || known.size != finding.found {
            return Ok(false);
        }
        let inode = tx.change(file, known);
        inode.size_exact = false;
        inode.size = finding.expected;
        Ok(true)
    })
}

/// Charges other forks with the bytes that the servers have.
pub(super) fn fork_bytes(tx: &mut Tx<'_, '_>, finding: &Finding) -> RepairResult {
    let file = finding.file;
    let written_to = tx.may_be_written(file);
    change(tx, file, |tx, node| {
        let known = &node.inode;
        if written_to || !known.size_exact || known.inline || known.fork_bytes != finding.found {
            return Ok(false);
        }
        tx.change(file, known).fork_bytes = finding.expected;
        Ok(true)
    })
}

/// Corrects an inode's count of bytes of extended attributes.
pub(super) fn attribute_bytes(tx: &mut Tx<'_, '_>, file: u64) -> RepairResult {
    change(tx, file, |tx, node| {
        let bytes = xattr_bytes(tx, file)?;
        Ok(set(&mut tx.change(file, &node.inode).xattr_bytes, bytes))
    })
}

/// Sets the size of an inline file to the length of its bytes.
pub(super) fn inline_size(tx: &mut Tx<'_, '_>, file: u64) -> RepairResult {
    change(tx, file, |tx, node| {
        if !node.inode.inline {
            return Ok(false);
        }
        let data = inline_bytes(tx, file)?;
        let bytes = data.as_ref().map_or(0, |b| b.len() as u64);
        // An empty file has no record.
        let empty = data.is_some_and(|data| data.is_empty());
        if empty {
            tx.delete(INLINE, &file.to_be_bytes());
        }
        let inode = tx.change(file, &node.inode);
        inode.size_exact = true;
        Ok(set(&mut inode.size, bytes) || empty)
    })
}

/// Cancels an intent that a server refuses permanently.
pub(super) fn refused(tx: &mut Tx<'_, '_>, number: u64) -> RepairResult {
    Ok(match tx.withdraw(number)? {
        Some(what) => done(what.to_owned()),
        None if keys::intent(tx.reader(), number)?.is_some() => not_repaired(),
        None => obsolete(),
    })
}
