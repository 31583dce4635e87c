//! Repairs of names: entries, links, parents, orphans.

use std::ops::ControlFlow;

use weft_kv::scan_prefix;
use weft_proto::fsck::Finding;
use weft_proto::meta::ROOT;

use super::lost_found::name_in_lost_found;
use super::outcome::{RepairResult, done, obsolete};
use super::scans::{count_entries, names_by_scan};
use super::set::{change, set};
use crate::error::MetaError;
use crate::limits::MOVES_MAX;
use crate::records::keys::{self, ENTRIES, ORPHANS, readable, with_name};
use crate::records::record::{EntryRecord, InodeRecord};
use crate::tx::Tx;

pub(super) fn entry_kind(tx: &mut Tx<'_, '_>, finding: &Finding) -> RepairResult {
    let key = with_name(finding.parent, &finding.name);
    let Some(entry) = keys::entry(tx.reader(), finding.parent, &finding.name)? else {
        return Ok(obsolete());
    };
    let inode = readable(tx.reader(), entry.id)?;
    let Some(inode) = inode.filter(|inode| inode.kind != entry.kind) else {
        return Ok(obsolete());
    };
    let kind = inode.kind;
    tx.put(ENTRIES, &key, &EntryRecord { kind, ..entry });
    Ok(done("corrected".to_owned()))
}

/// Removes one entry of a directory, whatever it names.
pub(super) fn drop_name(
    tx: &mut Tx<'_, '_>,
    parent: u64,
    name: &[u8],
    now: i64,
) -> Result<(), MetaError> {
    tx.delete(ENTRIES, &with_name(parent, name));
    if let Some(inode) = readable(tx.reader(), parent)? {
        let inode = tx.change(parent, &inode);
        inode.size = inode.size.saturating_sub(1);
        inode.links = inode.links.saturating_sub(1).max(2);
        inode.modified = now;
        inode.changed = now;
    }
    Ok(())
}

pub(super) fn second_name(tx: &mut Tx<'_, '_>, file: u64, now: i64) -> RepairResult {
    let names = names_by_scan(tx, file)?;
    let inode = readable(tx.reader(), file)?.filter(InodeRecord::is_directory);
    if inode.is_some() && file == ROOT && !names.is_empty() {
        for name in &names {
            drop_name(tx, name.parent, &name.name, now)?;
        }
        return Ok(done("all names of the root removed".to_owned()));
    }
    let Some(inode) = inode.filter(|_| names.len() > 1) else {
        return Ok(obsolete());
    };
    let keep = names.iter().position(|n| n.parent == inode.parent);
    let keep = keep.unwrap_or(0);
    for (_, name) in names.iter().enumerate().filter(|(at, _)| *at != keep) {
        drop_name(tx, name.parent, &name.name, now)?;
    }
    let name = String::from_utf8_lossy(&names[keep].name).into_owned();
    Ok(done(format!("all names but {name} removed")))
}

pub(super) fn no_directory(tx: &mut Tx<'_, '_>, file: u64, now: i64) -> RepairResult {
    let inode = readable(tx.reader(), file)?;
    if inode.is_none_or(|inode| inode.is_directory()) {
        return Ok(obsolete());
    }
    let mut entries = Vec::new();
    scan_prefix(
        tx.reader(),
        ENTRIES,
        &file.to_be_bytes(),
        &mut |key, value| {
            let record = keys::entry_in(file, value);
            entries.push((key.to_vec(), record.ok()));
            if entries.len() < MOVES_MAX {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        },
    )?;
    if entries.is_empty() {
        return Ok(obsolete());
    }
    let count = entries.len();
    for (key, record) in entries {
        tx.delete(ENTRIES, &key);
        let Some(record) = record else { continue };
        let Some(inode) = readable(tx.reader(), record.id)? else {
            continue;
        };
        let wanted = [format!("file-{file}.").as_bytes(), &key[8..]].concat();
        let (parent, _) = name_in_lost_found(tx, record.id, inode.kind, &wanted, now)?;
        if inode.is_directory() {
            tx.change(record.id, &inode).parent = parent;
        }
    }
    Ok(done(format!("{count} of them moved to /lost+found")))
}

pub(super) fn no_name(tx: &mut Tx<'_, '_>, file: u64, now: i64) -> RepairResult {
    let Some(inode) = readable(tx.reader(), file)? else {
        return Ok(obsolete());
    };
    let orphan = tx.reader().get(ORPHANS, &file.to_be_bytes())?.is_some();
    if orphan || file == ROOT || !names_by_scan(tx, file)?.is_empty() {
        return Ok(obsolete());
    }
    let wanted = format!("file-{file}");
    let (parent, path) = name_in_lost_found(tx, file, inode.kind, wanted.as_bytes(), now)?;
    let inside = count_entries(tx, file)?;
    let inode = tx.change(file, &inode);
    inode.changed = now;
    inode.links = 1;
    if inode.is_directory() {
        inode.parent = parent;
        inode.links = 2 + inside.directories;
    }
    let path = String::from_utf8_lossy(&path).into_owned();
    Ok(done(format!("named {path}")))
}

pub(super) fn links(tx: &mut Tx<'_, '_>, file: u64) -> RepairResult {
    change(tx, file, |tx, node| {
        let links = if node.inode.is_directory() {
            2 + count_entries(tx, file)?.directories
        } else {
            names_by_scan(tx, file)?.len() as u32
        };
        Ok(set(&mut tx.change(file, &node.inode).links, links))
    })
}

pub(super) fn parent(tx: &mut Tx<'_, '_>, file: u64) -> RepairResult {
    change(tx, file, |tx, node| {
        let names = names_by_scan(tx, file)?;
        let parent = match names.first() {
            _ if file == ROOT => ROOT,
            Some(name) if names.len() == 1 => name.parent,
            Some(_) | None => return Ok(false),
        };
        Ok(set(&mut tx.change(file, &node.inode).parent, parent))
    })
}

pub(super) fn circle(tx: &mut Tx<'_, '_>, file: u64, now: i64) -> RepairResult {
    let Some(inode) = readable(tx.reader(), file)?.filter(InodeRecord::is_directory) else {
        return Ok(obsolete());
    };
    let (mut at, mut steps) = (inode.parent, 0_u64);
    let bound = tx.counters()?.files + 1;
    while at != file {
        steps += 1;
        match readable(tx.reader(), at)? {
            Some(inode) if at != ROOT && steps <= bound => at = inode.parent,
            _ => return Ok(obsolete()),
        }
    }
    for name in names_by_scan(tx, file)? {
        drop_name(tx, name.parent, &name.name, now)?;
    }
    let wanted = format!("file-{file}");
    let (parent, path) = name_in_lost_found(tx, file, inode.kind, wanted.as_bytes(), now)?;
    tx.change(file, &inode).parent = parent;
    let path = String::from_utf8_lossy(&path).into_owned();
    Ok(done(format!("named {path}")))
}

pub(super) fn orphan(tx: &mut Tx<'_, '_>, file: u64) -> RepairResult {
    let key = file.to_be_bytes();
    let there = tx.reader().get(ORPHANS, &key)?.is_some();
    let inode = readable(tx.reader(), file)?;
    if !there || (inode.is_some() && names_by_scan(tx, file)?.is_empty()) {
        return Ok(obsolete());
    }
    tx.delete(ORPHANS, &key);
    Ok(done("removed".to_owned()))
}

/// Corrects a directory's count of entries.
pub(super) fn entries(tx: &mut Tx<'_, '_>, file: u64) -> RepairResult {
    change(tx, file, |tx, node| {
        let entries = count_entries(tx, file)?.entries;
        Ok(set(&mut tx.change(file, &node.inode).size, entries))
    })
}
