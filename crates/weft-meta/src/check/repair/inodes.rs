//! Repairs of inodes that are missing or contradictory.

use std::ops::ControlFlow;

use weft_kv::scan_prefix;
use weft_proto::fsck::Finding;
use weft_proto::meta::{FileKind, ROOT};

use super::lost_found::{default_inode, recreate_inode, some_layout};
use super::outcome::{RepairResult, done, obsolete};
use super::scans::{count_entries, inline_bytes, names_by_scan};
use super::set::change;
use crate::check::contradiction::contradiction;
use crate::error::MetaError;
use crate::records::keys::{CHECKPOINTS, ENTRIES, INLINE, INODES, XATTRS, readable, with_name};
use crate::records::record::InodeRecord;
use crate::tx::{Tx, Volume};

/// The kind of an inode according to its entries.
pub(super) fn kind_by_names(tx: &Tx<'_, '_>, file: u64) -> Result<FileKind, MetaError> {
    if file == ROOT || count_entries(tx, file)?.entries > 0 {
        return Ok(FileKind::Directory);
    }
    let names = names_by_scan(tx, file)?;
    let kind = names.first().and_then(|n| FileKind::try_from(n.kind).ok());
    Ok(kind.unwrap_or(FileKind::Regular))
}

/// A new inode with what other records say about it.
pub(super) fn empty_inode(
    volume: &Volume,
    tx: &Tx<'_, '_>,
    file: u64,
    kind: FileKind,
    now: i64,
) -> Result<InodeRecord, MetaError> {
    let kind = if kind == FileKind::Directory {
        kind
    } else {
        FileKind::Regular
    };
    let mut inode = default_inode(kind, now);
    if kind == FileKind::Regular {
        inode.layout = Some(some_layout(volume, file, now)?);
        let bytes = inline_bytes(tx, file)?;
        inode.inline = true;
        inode.size = bytes.map_or(0, |bytes| bytes.len() as u64);
    }
    Ok(inode)
}

pub(super) fn no_inode(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    finding: &Finding,
    now: i64,
) -> RepairResult {
    let file = finding.file;
    if tx.reader().get(INODES, &file.to_be_bytes())?.is_some() {
        return Ok(obsolete());
    }
    let names = names_by_scan(tx, file)?;
    let kind = kind_by_names(tx, file)?;
    let mut evidence = !names.is_empty();
    for space in [ENTRIES, XATTRS, INLINE, CHECKPOINTS] {
        scan_prefix(tx.reader(), space, &file.to_be_bytes(), &mut |_, _| {
            evidence = true;
            ControlFlow::Break(())
        })?;
    }
    if !evidence {
        return Ok(obsolete());
    }
    if !names.is_empty() && !matches!(kind, FileKind::Regular | FileKind::Directory) {
        for name in names {
            tx.delete(ENTRIES, &with_name(name.parent, &name.name));
            if let Some(inode) = readable(tx.reader(), name.parent)? {
                let inode = tx.change(name.parent, &inode);
                inode.size = inode.size.saturating_sub(1);
            }
        }
        return Ok(done("removed: only its name was left".to_owned()));
    }
    let inode = empty_inode(volume, tx, file, kind, now)?;
    let known = format!("inode {file} was missing; owner, mode and times are unknown");
    Ok(done(recreate_inode(tx, file, inode, &known, now)?))
}

pub(super) fn no_layout(volume: &Volume, tx: &mut Tx<'_, '_>, file: u64, now: i64) -> RepairResult {
    let layout = some_layout(volume, file, now)?;
    change(tx, file, |tx, node| {
        let known = node
            .inode
            .layout
            .as_ref()
            .map(weft_proto::meta::Layout::from);
        if known.is_some_and(|known| weft_layout::Layout::try_from(&known).is_ok()) {
            return Ok(false);
        }
        tx.change(file, &node.inode).layout = Some(layout);
        Ok(true)
    })
}

/// Removes the contradictions of an inode. One with attributes that only files have becomes a file;
/// else its names determine its kind.
pub(super) fn make_consistent(tx: &mut Tx<'_, '_>, file: u64, by_names: FileKind) -> RepairResult {
    change(tx, file, |tx, node| {
        if contradiction(&node.inode).is_none() {
            return Ok(false);
        }
        let inode = tx.change(file, &node.inode);
        if inode.layout.is_some() || inode.inline {
            inode.kind = FileKind::Regular as i32;
        } else if matches!(
            FileKind::try_from(inode.kind),
            Err(_) | Ok(FileKind::Unspecified)
        ) {
            inode.kind = by_names as i32;
        }
        if !inode.is(FileKind::Regular) || inode.inline {
            inode.truncate = 0;
            inode.truncate_raced = false;
        }
        inode.size_exact = inode.truncate == 0 && (inode.inline || inode.size_exact);
        Ok(true)
    })
}
