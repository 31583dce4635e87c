//! Files that their servers know to be removed, and that came back because the namespace is older.

use std::ops::ControlFlow;

use weft_kv::scan_prefix;
use weft_proto::fsck::FileState;

use super::outcome::{RepairResult, done, not_repaired, obsolete};
use super::scans::{NameOfInode, names_by_scan};
use crate::check::files::state_now;
use crate::error::MetaError;
use crate::limits::NAMES_SHOWN;
use crate::paths::path_of;
use crate::records::Node;
use crate::records::keys::{self, ENTRIES, XATTRS, content, readable, with_name};
use crate::records::record::{EntryRecord, InodeRecord, XattrRecord};
use crate::tx::{Tx, Volume};

/// Extended attributes by name.
type Attributes = Vec<(Vec<u8>, XattrRecord)>;

/// The inode of a file that has not changed since its servers were asked; else the outcome.
fn as_seen(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    file: u64,
    seen: Option<&FileState>,
) -> Result<Result<InodeRecord, RepairResult>, MetaError> {
    // No client attaches between this check and the commit.
    let open = tx.open_files().is_open(file) || volume.state().grace().may_hold(file);
    let now = state_now(tx.reader(), file, open)?;
    let Some(inode) = readable(tx.reader(), file)? else {
        return Ok(Err(Ok(obsolete())));
    };
    if now.owed || !now.there || seen != Some(&now) {
        return Ok(Err(Ok(not_repaired())));
    }
    Ok(Ok(inode))
}

/// Removes the names of a removed file, and with them the file: at once, or when the last client
/// closes it.
pub(super) fn removed(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    file: u64,
    seen: Option<&FileState>,
    now: i64,
) -> RepairResult {
    let inode = match as_seen(volume, tx, file, seen)? {
        Ok(inode) if !inode.inline => inode,
        Ok(_) => return Ok(not_repaired()),
        Err(outcome) => return outcome,
    };
    let names = names_by_scan(tx, file)?;
    let paths = shown_paths(tx, &names)?;
    for name in names {
        match readable(tx.reader(), name.parent)? {
            Some(inode) => {
                let id = name.parent;
                tx.remove_entry(&Node { id, inode }, &name.name, now);
            }
            None => tx.delete(ENTRIES, &with_name(name.parent, &name.name)),
        }
    }
    // The call below removes the last name, whatever the inode counted.
    tx.change(file, &inode).links = 1;
    tx.unlink(&Node { id: file, inode }, now)?;
    Ok(done(format!("removed: {paths}")))
}

/// Gives an inline file another id, which its servers do not know yet.
pub(super) fn id_removed(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    file: u64,
    seen: Option<&FileState>,
    now: i64,
) -> RepairResult {
    let inode = match as_seen(volume, tx, file, seen)? {
        Ok(inode) if inode.inline => inode,
        Ok(_) => return Ok(not_repaired()),
        Err(outcome) => return outcome,
    };
    // A client that has it open, and a checkpoint that keeps it, refer to it by its old id.
    let in_use = seen.is_some_and(|seen| seen.open || seen.held || !seen.checkpoints.is_empty());
    // So does a client of an earlier run that reconnects later.
    let in_use = in_use || volume.state().grace().is_active();
    let names = names_by_scan(tx, file)?;
    let (Ok(bytes), Some(attributes)) = (content(tx.reader(), file), attributes(tx, file)?) else {
        return Ok(not_repaired());
    };
    if in_use || names.is_empty() {
        return Ok(not_repaired());
    }
    let id = tx.next_id()?;
    for NameOfInode { parent, name, kind } in names {
        tx.put(
            ENTRIES,
            &with_name(parent, &name),
            &EntryRecord { id, kind },
        );
    }
    for (name, value) in attributes {
        tx.put(XATTRS, &with_name(id, &name), &value);
    }
    tx.put_content(id, &bytes.data);
    let renumbered = InodeRecord {
        changed: now,
        ..inode.clone()
    };
    tx.create(id, renumbered)?;
    tx.delete_inode(&Node { id: file, inode })?;
    Ok(done(format!("got another id, {id}")))
}

/// The paths of a file for a message.
fn shown_paths(tx: &Tx<'_, '_>, names: &[NameOfInode]) -> Result<String, MetaError> {
    let mut shown = Vec::new();
    for name in names.iter().take(NAMES_SHOWN) {
        let path = path_of(tx.reader(), name.parent, name.name.clone())?;
        shown.push(String::from_utf8_lossy(&path).escape_debug().to_string());
    }
    if names.len() > NAMES_SHOWN {
        shown.push(format!("and {} more names", names.len() - NAMES_SHOWN));
    }
    Ok(shown.join(", "))
}

/// The extended attributes of an inode; `None` where one cannot be read.
fn attributes(tx: &Tx<'_, '_>, file: u64) -> Result<Option<Attributes>, MetaError> {
    let (mut found, mut readable) = (Vec::new(), true);
    scan_prefix(
        tx.reader(),
        XATTRS,
        &file.to_be_bytes(),
        &mut |key, value| {
            match keys::decode::<XattrRecord>("attribute of", file, value) {
                Ok(record) => found.push((key[8..].to_vec(), record)),
                Err(_) => readable = false,
            }
            ControlFlow::Continue(())
        },
    )?;
    Ok(readable.then_some(found))
}
