//! `/lost+found`, and new inodes for records whose inode is lost.

use weft_proto::meta::{FileKind, ROOT};

use super::scans::{count_entries, names_by_scan, xattr_bytes};
use crate::error::MetaError;
use crate::limits::{LOST_NAME_MAX, LOST_NOTE_MAX};
use crate::records::Node;
use crate::records::keys::{self, ENTRIES, ORPHANS, XATTRS, readable};
use crate::records::record::{InodeRecord, LayoutRecord, XattrRecord};
use crate::servers::placement;
use crate::tx::{Tx, Volume};

/// The directory for files without a name.
pub(super) const LOST_AND_FOUND: &[u8] = b"lost+found";
/// The extended attribute with what is known about a recovered file.
pub(super) const KNOWN: &[u8] = b"user.weft.lost";
/// The extended attribute with the bytes of an unreadable record.
pub(super) const RECORD: &[u8] = b"user.weft.lost.record";

/// Sets an extended attribute of an inode that this transaction changes or makes.
pub(super) fn set_attribute(
    tx: &mut Tx<'_, '_>,
    id: u64,
    name: &[u8],
    value: &[u8],
) -> Result<(), MetaError> {
    let value = value[..value.len().min(LOST_NOTE_MAX)].to_vec();
    tx.put(XATTRS, &keys::with_name(id, name), &XattrRecord { value });
    let bytes = xattr_bytes(tx, id)?;
    // The transaction has changed the inode, so the default is not used.
    tx.change(id, &InodeRecord::default()).xattr_bytes = bytes;
    Ok(())
}

/// The directory for files without a name; made if there is none.
fn lost_and_found(tx: &mut Tx<'_, '_>, now: i64) -> Result<Node, MetaError> {
    let root = Node {
        id: ROOT,
        inode: keys::named_inode(tx.reader(), ROOT)?,
    };
    for attempt in 0_u32.. {
        let mut name = LOST_AND_FOUND.to_vec();
        if attempt > 0 {
            name.extend_from_slice(format!(".{attempt}").as_bytes());
        }
        let found = match keys::entry(tx.reader(), ROOT, &name) {
            Err(MetaError::Corrupt { .. }) => continue,
            found => found?,
        };
        let Some(entry) = found else {
            let id = tx.next_id()?;
            let inode = InodeRecord {
                parent: ROOT,
                tree: root.inode.tree,
                ..default_inode(FileKind::Directory, now)
            };
            let kind = FileKind::Directory as i32;
            tx.add_entry(&root, &name, (id, kind), now);
            tx.change(ROOT, &root.inode).links += 1;
            tx.create(id, inode.clone())?;
            return Ok(Node { id, inode });
        };
        if let Some(inode) = readable(tx.reader(), entry.id)?
            && inode.is_directory()
        {
            return Ok(Node {
                id: entry.id,
                inode,
            });
        }
    }
    unreachable!("an unbounded range does not end")
}

/// Names an inode in `/lost+found`. Returns the id of that directory and the path. The caller
/// counts the inode's links.
pub(super) fn name_in_lost_found(
    tx: &mut Tx<'_, '_>,
    id: u64,
    kind: i32,
    wanted: &[u8],
    now: i64,
) -> Result<(u64, Vec<u8>), MetaError> {
    let directory = lost_and_found(tx, now)?;
    let wanted = &wanted[..wanted.len().min(LOST_NAME_MAX)];
    let mut name = wanted.to_vec();
    let mut attempt = 0;
    while tx
        .reader()
        .get(ENTRIES, &keys::with_name(directory.id, &name))?
        .is_some()
    {
        attempt += 1;
        name.truncate(wanted.len());
        name.extend_from_slice(format!(".{attempt}").as_bytes());
    }
    tx.add_entry(&directory, &name, (id, kind), now);
    if kind == FileKind::Directory as i32 {
        tx.change(directory.id, &directory.inode).links += 1;
    }
    Ok((directory.id, [b"/lost+found/", &name[..]].concat()))
}

/// Makes a new inode under an id for which other records exist. Its names reach it again; without
/// any it gets one in `/lost+found`. Returns where it is, in words.
pub(super) fn recreate_inode(
    tx: &mut Tx<'_, '_>,
    id: u64,
    mut inode: InodeRecord,
    known: &str,
    now: i64,
) -> Result<String, MetaError> {
    // This comes first: files made below must not get its id.
    let counters = tx.counters()?;
    counters.next_id = counters.next_id.max(id + 1);
    let names = names_by_scan(tx, id)?;
    let directory = inode.is_directory();
    if directory {
        let inside = count_entries(tx, id)?;
        inode.size = inside.entries;
        inode.links = 2 + inside.directories;
    } else {
        inode.links = (names.len() as u32).max(1);
    }
    inode.xattr_bytes = xattr_bytes(tx, id)?;
    let mut shown = String::from("reached by its name again");
    if id == ROOT {
        inode.parent = ROOT;
        "the root again".clone_into(&mut shown);
    } else if let Some(name) = names.first() {
        if directory {
            inode.parent = name.parent;
        }
    } else {
        let wanted = format!("file-{id}");
        let (parent, path) = name_in_lost_found(tx, id, inode.kind, wanted.as_bytes(), now)?;
        if directory {
            inode.parent = parent;
        }
        shown = String::from_utf8_lossy(&path).into_owned();
    }
    if tx.reader().get(ORPHANS, &id.to_be_bytes())?.is_some() {
        tx.delete(ORPHANS, &id.to_be_bytes());
    }
    tx.create(id, inode)?;
    set_attribute(tx, id, KNOWN, known.as_bytes())?;
    Ok(format!("made again, {shown}"))
}

/// An inode with defaults, which only root may use.
pub(super) fn default_inode(kind: FileKind, now: i64) -> InodeRecord {
    let directory = kind == FileKind::Directory;
    InodeRecord {
        kind: kind as i32,
        mode: if directory { 0o700 } else { 0o600 },
        links: if directory { 2 } else { 1 },
        size_exact: true,
        accessed: now,
        modified: now,
        changed: now,
        created: now,
        ..InodeRecord::default()
    }
}

/// A layout for a file without cells.
pub(super) fn some_layout(volume: &Volume, id: u64, now: i64) -> Result<LayoutRecord, MetaError> {
    placement::choose(&volume.state().servers().pool(now), id, None, None, b"")
}
