//! Repairs: one transaction each, which first looks whether the finding still holds.

use std::ops::{Bound, ControlFlow};

use prost::Message;
use weft_kv::{Reader, Space, scan_prefix};
use weft_proto::fsck::{Fault, FileState, Finding, RepairNamespaceReply};
use weft_proto::meta::{FileKind, ROOT};

use super::lost::{
    KNOWN, RECORD, bare, count_entries, done, gone, inline_bytes, names_by_scan, nothing,
    put_known, put_lost, revive, some_layout, xattr_bytes,
};
use super::pass::contradiction;
use super::removed::{id_removed, removed};
use crate::error::MetaError;
use crate::intents::{Intent, is_tree};
use crate::quota::{corrected, count_usage, stored_records};
use crate::records::Node;
use crate::records::keys::{
    self, CHECKPOINTS, ENTRIES, INLINE, INODES, INTENTS, ORPHANS, QUOTAS, TREE_FILES, XATTRS,
    readable, with_name,
};
use crate::records::record::{
    CHECKPOINT_THERE, CheckpointRecord, EntryRecord, InlineRecord, InodeRecord, IntentRecord,
    OrphanRecord, XattrRecord,
};
use crate::tx::{Tx, Volume};

/// Entries that one repair moves.
const MOVES_MAX: usize = 1000;

pub(super) type Outcome = Result<RepairNamespaceReply, MetaError>;

pub(crate) fn repair(
    volume: &Volume,
    now: i64,
    finding: &Finding,
    seen: Option<&FileState>,
) -> Outcome {
    volume.transact(|tx| {
        tx.force();
        let file = finding.file;
        match Fault::try_from(finding.fault) {
            Ok(Fault::Removed) => removed(volume, tx, file, seen, now),
            Ok(Fault::IdRemoved) => id_removed(volume, tx, file, seen, now),
            _ => repair_in(volume, tx, now, finding),
        }
    })
}

fn repair_in(volume: &Volume, tx: &mut Tx<'_, '_>, now: i64, finding: &Finding) -> Outcome {
    let file = finding.file;
    match Fault::try_from(finding.fault) {
        Ok(Fault::Record) => damaged_record(volume, tx, finding, now),
        Ok(Fault::NoInode) => no_inode(volume, tx, finding, now),
        Ok(Fault::EntryKind) => entry_kind(tx, finding),
        Ok(Fault::SecondName) => second_name(tx, file, now),
        Ok(Fault::NoDirectory) => no_directory(tx, file, now),
        Ok(Fault::NoName) => no_name(tx, file, now),
        Ok(Fault::Links) => links(tx, file),
        Ok(Fault::Entries) => change(tx, file, |tx, node| {
            let entries = count_entries(tx, file)?.entries;
            Ok(set(&mut tx.change(file, &node.inode).size, entries))
        }),
        Ok(Fault::Parent) => parent(tx, file),
        Ok(Fault::Circle) => circle(tx, file, now),
        Ok(Fault::Orphan) => orphan(tx, file),
        Ok(Fault::XattrBytes) => change(tx, file, |tx, node| {
            let bytes = xattr_bytes(tx, file)?;
            Ok(set(&mut tx.change(file, &node.inode).xattr_bytes, bytes))
        }),
        Ok(Fault::InlineBytes) => inline_bytes_of_cells(volume, tx, file, now),
        Ok(Fault::InlineSize) => change(tx, file, |tx, node| {
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
        }),
        Ok(Fault::DeleteOwed) => delete_owed(tx, finding),
        Ok(Fault::TruncateLost) => truncate_lost(tx, finding),
        Ok(Fault::Refused) => Ok(match tx.withdraw(finding.expected)? {
            Some(what) => done(what.to_owned()),
            None if keys::intent(tx.reader(), finding.expected)?.is_some() => nothing(),
            None => gone(),
        }),
        Ok(Fault::Counter) => counter(tx),
        Ok(Fault::Usage) => usage(tx),
        Ok(Fault::NoLayout) => no_layout(volume, tx, file, now),
        Ok(Fault::Short | Fault::Long) => size(tx, finding),
        Ok(Fault::ForkBytes) => fork_bytes(tx, finding),
        Ok(Fault::CheckpointUnknown) => checkpoint_unknown(tx, finding, now),
        _ => Ok(nothing()),
    }
}

fn damaged_record(volume: &Volume, tx: &mut Tx<'_, '_>, finding: &Finding, now: i64) -> Outcome {
    let (key, file) = (&finding.name, finding.file);
    let named = finding.text.split(':').next().unwrap_or_default();
    let spaces = [
        INODES,
        ENTRIES,
        XATTRS,
        INLINE,
        CHECKPOINTS,
        ORPHANS,
        INTENTS,
    ];
    let Some(space) = spaces.into_iter().find(|space| space.0 == named) else {
        return Ok(nothing());
    };
    let Some(bytes) = tx.reader().get(space, key)? else {
        return Ok(gone());
    };
    if space == INODES && InodeRecord::decode(bytes.as_slice()).is_ok() {
        let kind = kind_by_names(tx, file)?;
        return straighten(tx, file, kind);
    }
    if can_be_read(tx.reader(), space, &bytes) {
        return Ok(gone());
    }
    tx.delete(space, key);
    if space == INODES {
        let kind = kind_by_names(tx, file)?;
        let inode = empty_inode(volume, tx, file, kind, now)?;
        // It was counted: what is made anew counts once more.
        let counters = tx.counters()?;
        counters.files = counters.files.saturating_sub(1);
        let known = format!("the inode of {file} could not be read");
        let what = revive(tx, file, inode, &known, now)?;
        put_known(tx, file, RECORD, &bytes)?;
        return Ok(done(what));
    }
    let Some(inode) = readable(tx.reader(), file)?.filter(|_| space != INTENTS) else {
        return Ok(done("removed".to_owned()));
    };
    let inode = tx.change(file, &inode);
    if space == ENTRIES {
        inode.size = inode.size.saturating_sub(1);
        return Ok(done(
            "removed; what it named is found without it".to_owned(),
        ));
    }
    if inode.is(FileKind::Regular) || inode.is_directory() {
        put_known(tx, file, RECORD, &bytes)?;
    }
    Ok(done(
        "removed; its bytes are in user.weft.lost.record".to_owned(),
    ))
}

/// The kind by which the entries of an inode know it.
fn kind_by_names(tx: &Tx<'_, '_>, file: u64) -> Result<FileKind, MetaError> {
    if file == ROOT || count_entries(tx, file)?.entries > 0 {
        return Ok(FileKind::Directory);
    }
    let names = names_by_scan(tx, file)?;
    let kind = names.first().and_then(|n| FileKind::try_from(n.kind).ok());
    Ok(kind.unwrap_or(FileKind::Regular))
}

/// An inode with what other records of it say.
fn empty_inode(
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
    let mut inode = bare(kind, now);
    if kind == FileKind::Regular {
        inode.layout = Some(some_layout(volume, file, now)?);
        let bytes = inline_bytes(tx, file)?;
        inode.inline = true;
        inode.size = bytes.map_or(0, |bytes| bytes.len() as u64);
    }
    Ok(inode)
}

fn no_inode(volume: &Volume, tx: &mut Tx<'_, '_>, finding: &Finding, now: i64) -> Outcome {
    let file = finding.file;
    if tx.reader().get(INODES, &file.to_be_bytes())?.is_some() {
        return Ok(gone());
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
        return Ok(gone());
    }
    if !names.is_empty() && !matches!(kind, FileKind::Regular | FileKind::Directory) {
        for name in names {
            tx.delete(ENTRIES, &with_name(name.parent, &name.name));
            if let Some(inode) = readable(tx.reader(), name.parent)? {
                let inode = tx.change(name.parent, &inode);
                inode.size = inode.size.saturating_sub(1);
            }
        }
        return Ok(done(
            "removed: nothing but the name was left of it".to_owned(),
        ));
    }
    let inode = empty_inode(volume, tx, file, kind, now)?;
    let known = format!("inode {file} was not there; owner, mode and times are not known");
    Ok(done(revive(tx, file, inode, &known, now)?))
}

fn no_layout(volume: &Volume, tx: &mut Tx<'_, '_>, file: u64, now: i64) -> Outcome {
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

fn inline_bytes_of_cells(volume: &Volume, tx: &mut Tx<'_, '_>, file: u64, now: i64) -> Outcome {
    let Some(inode) = readable(tx.reader(), file)?.filter(|inode| !inode.inline) else {
        return Ok(gone());
    };
    let Some(data) = inline_bytes(tx, file)? else {
        return Ok(gone());
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
        ..bare(FileKind::Regular, now)
    };
    let wish = format!("file-{file}.inline");
    let (_, path) = put_lost(tx, id, FileKind::Regular as i32, wish.as_bytes(), now)?;
    tx.create(id, found)?;
    let known = format!("inline bytes of file {file}, which has cells");
    put_known(tx, id, KNOWN, known.as_bytes())?;
    Ok(done(format!("moved to {}", String::from_utf8_lossy(&path))))
}

/// Changes an inode, if there is something to change.
fn change(
    tx: &mut Tx<'_, '_>,
    file: u64,
    work: impl FnOnce(&mut Tx<'_, '_>, &Node) -> Result<bool, MetaError>,
) -> Outcome {
    let Some(inode) = readable(tx.reader(), file)? else {
        return Ok(gone());
    };
    let changed = work(tx, &Node { id: file, inode })?;
    Ok(if changed {
        done("set right".to_owned())
    } else {
        gone()
    })
}

/// Makes an inode say what can be so. What only files have says that it is a file; else its names say what it is.
fn straighten(tx: &mut Tx<'_, '_>, file: u64, by_names: FileKind) -> Outcome {
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

/// Sets a number; whether that changed it.
fn set<T: PartialEq>(place: &mut T, value: T) -> bool {
    let changed = *place != value;
    *place = value;
    changed
}

fn can_be_read(reader: &dyn Reader, space: Space, bytes: &[u8]) -> bool {
    match space {
        INODES => InodeRecord::decode(bytes).is_ok(),
        ENTRIES => keys::entry_in(0, bytes).is_ok(),
        XATTRS => XattrRecord::decode(bytes).is_ok(),
        INLINE => InlineRecord::decode(bytes).is_ok(),
        CHECKPOINTS => CheckpointRecord::decode(bytes).is_ok(),
        ORPHANS => OrphanRecord::decode(bytes).is_ok(),
        _ => IntentRecord::decode(bytes).is_ok_and(|r| Intent::from_record(reader, 0, &r).is_ok()),
    }
}

fn entry_kind(tx: &mut Tx<'_, '_>, finding: &Finding) -> Outcome {
    let key = with_name(finding.parent, &finding.name);
    let Some(entry) = keys::entry(tx.reader(), finding.parent, &finding.name)? else {
        return Ok(gone());
    };
    let inode = readable(tx.reader(), entry.id)?;
    let Some(inode) = inode.filter(|inode| inode.kind != entry.kind) else {
        return Ok(gone());
    };
    let kind = inode.kind;
    tx.put(ENTRIES, &key, &EntryRecord { kind, ..entry });
    Ok(done("set right".to_owned()))
}

/// Takes one entry of a directory away, whatever it names.
fn drop_name(tx: &mut Tx<'_, '_>, parent: u64, name: &[u8], now: i64) -> Result<(), MetaError> {
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

fn second_name(tx: &mut Tx<'_, '_>, file: u64, now: i64) -> Outcome {
    let names = names_by_scan(tx, file)?;
    let inode = readable(tx.reader(), file)?.filter(InodeRecord::is_directory);
    if inode.is_some() && file == ROOT && !names.is_empty() {
        for name in &names {
            drop_name(tx, name.parent, &name.name, now)?;
        }
        return Ok(done("all names of the root removed".to_owned()));
    }
    let Some(inode) = inode.filter(|_| names.len() > 1) else {
        return Ok(gone());
    };
    let keep = names.iter().position(|n| n.parent == inode.parent);
    let keep = keep.unwrap_or(0);
    for (_, name) in names.iter().enumerate().filter(|(at, _)| *at != keep) {
        drop_name(tx, name.parent, &name.name, now)?;
    }
    let name = String::from_utf8_lossy(&names[keep].name).into_owned();
    Ok(done(format!("all names but {name} removed")))
}

fn no_directory(tx: &mut Tx<'_, '_>, file: u64, now: i64) -> Outcome {
    let inode = readable(tx.reader(), file)?;
    if inode.is_none_or(|inode| inode.is_directory()) {
        return Ok(gone());
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
        return Ok(gone());
    }
    let count = entries.len();
    for (key, record) in entries {
        tx.delete(ENTRIES, &key);
        let Some(record) = record else { continue };
        let Some(inode) = readable(tx.reader(), record.id)? else {
            continue;
        };
        let wish = [format!("file-{file}.").as_bytes(), &key[8..]].concat();
        let (parent, _) = put_lost(tx, record.id, inode.kind, &wish, now)?;
        if inode.is_directory() {
            tx.change(record.id, &inode).parent = parent;
        }
    }
    Ok(done(format!("{count} of them put into /lost+found")))
}

fn no_name(tx: &mut Tx<'_, '_>, file: u64, now: i64) -> Outcome {
    let Some(inode) = readable(tx.reader(), file)? else {
        return Ok(gone());
    };
    let orphan = tx.reader().get(ORPHANS, &file.to_be_bytes())?.is_some();
    if orphan || file == ROOT || !names_by_scan(tx, file)?.is_empty() {
        return Ok(gone());
    }
    let wish = format!("file-{file}");
    let (parent, path) = put_lost(tx, file, inode.kind, wish.as_bytes(), now)?;
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

fn links(tx: &mut Tx<'_, '_>, file: u64) -> Outcome {
    change(tx, file, |tx, node| {
        let links = if node.inode.is_directory() {
            2 + count_entries(tx, file)?.directories
        } else {
            names_by_scan(tx, file)?.len() as u32
        };
        Ok(set(&mut tx.change(file, &node.inode).links, links))
    })
}

fn parent(tx: &mut Tx<'_, '_>, file: u64) -> Outcome {
    change(tx, file, |tx, node| {
        let names = names_by_scan(tx, file)?;
        let parent = match names.first() {
            _ if file == ROOT => ROOT,
            Some(name) if names.len() == 1 => name.parent,
            _ => return Ok(false),
        };
        Ok(set(&mut tx.change(file, &node.inode).parent, parent))
    })
}

fn circle(tx: &mut Tx<'_, '_>, file: u64, now: i64) -> Outcome {
    let Some(inode) = readable(tx.reader(), file)?.filter(InodeRecord::is_directory) else {
        return Ok(gone());
    };
    let (mut at, mut steps) = (inode.parent, 0_u64);
    let bound = tx.counters()?.files + 1;
    while at != file {
        steps += 1;
        match readable(tx.reader(), at)? {
            Some(inode) if at != ROOT && steps <= bound => at = inode.parent,
            _ => return Ok(gone()),
        }
    }
    for name in names_by_scan(tx, file)? {
        drop_name(tx, name.parent, &name.name, now)?;
    }
    let wish = format!("file-{file}");
    let (parent, path) = put_lost(tx, file, inode.kind, wish.as_bytes(), now)?;
    tx.change(file, &inode).parent = parent;
    let path = String::from_utf8_lossy(&path).into_owned();
    Ok(done(format!("named {path}")))
}

fn orphan(tx: &mut Tx<'_, '_>, file: u64) -> Outcome {
    let key = file.to_be_bytes();
    let there = tx.reader().get(ORPHANS, &key)?.is_some();
    let inode = readable(tx.reader(), file)?;
    if !there || (inode.is_some() && names_by_scan(tx, file)?.is_empty()) {
        return Ok(gone());
    }
    tx.delete(ORPHANS, &key);
    Ok(done("removed".to_owned()))
}

fn delete_owed(tx: &mut Tx<'_, '_>, finding: &Finding) -> Outcome {
    let Some(intent) = keys::intent(tx.reader(), finding.expected)? else {
        return Ok(gone());
    };
    let named = tx.reader().get(INODES, &intent.file.to_be_bytes())?;
    if intent.delete.is_none() || named.is_none() {
        return Ok(gone());
    }
    tx.settle(finding.expected)?;
    Ok(done("dropped; the file stays".to_owned()))
}

fn truncate_lost(tx: &mut Tx<'_, '_>, finding: &Finding) -> Outcome {
    change(tx, finding.file, |tx, node| {
        let number = node.inode.truncate;
        let owed = keys::intent(tx.reader(), number)?;
        if number == 0 || owed.is_some_and(|owed| owed.file == node.id || is_tree(&owed)) {
            return Ok(false);
        }
        let inode = tx.change(node.id, &node.inode);
        inode.truncate = 0;
        inode.truncate_raced = false;
        inode.size_exact = inode.inline;
        if !inode.inline {
            // The stored size is older: a writer who goes without having written must not make it exact.
            tx.open_files().wrote(node.id);
            tx.state().unsettled().note(node.id);
        }
        Ok(true)
    })
}

fn counter(tx: &mut Tx<'_, '_>) -> Outcome {
    let count = |space| -> Result<(u64, u64), MetaError> {
        let (mut count, mut last) = (0, 0);
        let all = (Bound::Unbounded, Bound::Unbounded);
        tx.reader().scan(space, all.0, all.1, &mut |key, _| {
            count += 1;
            last = keys::number(key).unwrap_or(0);
            ControlFlow::Continue(())
        })?;
        Ok((count, last))
    };
    let ((inodes, last_inode), (intents, last_intent)) = (count(INODES)?, count(INTENTS)?);
    let counters = tx.counters()?;
    let before = *counters;
    counters.files = inodes;
    counters.intents = intents;
    counters.next_id = counters.next_id.max(last_inode + 1);
    counters.next_intent = counters.next_intent.max(last_intent + 1);
    Ok(if before == *counters {
        gone()
    } else {
        done("set right".to_owned())
    })
}

/// Counts anew what everybody uses.
fn usage(tx: &mut Tx<'_, '_>) -> Outcome {
    let used = count_usage(tx.reader())?;
    let (records, damaged) = stored_records(tx.reader())?;
    let wrong = corrected(records, &used);
    let right = wrong.is_empty() && damaged.is_empty();
    for (key, _) in damaged {
        tx.delete_unseen(QUOTAS, &key);
    }
    for (payer, record) in &wrong {
        tx.put_quota(*payer, record);
    }
    Ok(if right {
        gone()
    } else {
        done("counted anew".to_owned())
    })
}

/// A size that the cells do not bear out is no longer called exact: whoever wants it asks the servers.
fn size(tx: &mut Tx<'_, '_>, finding: &Finding) -> Outcome {
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

/// What is charged for other forks is what the servers have.
fn fork_bytes(tx: &mut Tx<'_, '_>, finding: &Finding) -> Outcome {
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

fn checkpoint_unknown(tx: &mut Tx<'_, '_>, finding: &Finding, now: i64) -> Outcome {
    let (file, number) = (finding.file, finding.expected);
    let Some(inode) = readable(tx.reader(), file)?.filter(|i| i.is(FileKind::Regular)) else {
        return Ok(gone());
    };
    let mut listed = false;
    scan_prefix(
        tx.reader(),
        CHECKPOINTS,
        &file.to_be_bytes(),
        &mut |_, value| {
            let record = keys::decode::<CheckpointRecord>("checkpoint of", file, value);
            listed |= record.is_ok_and(|record| record.number == number);
            ControlFlow::Continue(())
        },
    )?;
    listed |= tx
        .reader()
        .get(TREE_FILES, &keys::pair(number, file))?
        .is_some();
    if listed || keys::intent(tx.reader(), number)?.is_some() {
        return Ok(gone());
    }
    let name = format!("lost-{number}");
    let record = CheckpointRecord {
        number,
        made: now,
        size: inode.size,
        state: CHECKPOINT_THERE,
        ..CheckpointRecord::default()
    };
    tx.put(CHECKPOINTS, &with_name(file, name.as_bytes()), &record);
    let counters = tx.counters()?;
    counters.next_intent = counters.next_intent.max(number + 1);
    Ok(done(format!("listed as {name}")))
}
