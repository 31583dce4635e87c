//! `/lost+found`, and new inodes for records that have lost theirs.

use weft_proto::meta::{FileKind, ROOT};

use super::scans::{count_entries, names_by_scan, xattr_bytes};
use crate::error::MetaError;
use crate::limits::KNOWN_MAX;
use crate::records::Node;
use crate::records::keys::{self, ENTRIES, ORPHANS, XATTRS, readable};
use crate::records::record::{InodeRecord, LayoutRecord, XattrRecord};
use crate::servers::placement;
use crate::tx::{Tx, Volume};

/// The directory for files that have no place.
pub(super) const LOST_AND_FOUND: &[u8] = b"lost+found";
/// What is known of a file that was found.
pub(super) const KNOWN: &[u8] = b"user.weft.lost";
/// The bytes of a record that cannot be read.
pub(super) const RECORD: &[u8] = b"user.weft.lost.record";

/// Sets an attribute of an inode that this transaction changes or makes.
pub(super) fn put_known(
    tx: &mut Tx<'_, '_>,
    id: u64,
    name: &[u8],
    value: &[u8],
) -> Result<(), MetaError> {
    let value = value[..value.len().min(KNOWN_MAX)].to_vec();
    tx.put(XATTRS, &keys::with_name(id, name), &XattrRecord { value });
    let bytes = xattr_bytes(tx, id)?;
    // The inode is among those that were changed: the default is not used.
    tx.change(id, &InodeRecord::default()).xattr_bytes = bytes;
    Ok(())
}

/// The directory for files that have no place; made if there is none.
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
                ..bare(FileKind::Directory, now)
            };
            let kind = FileKind::Directory as i32;
            tx.enter(&root, &name, (id, kind), now);
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

/// Names an inode in `/lost+found`; returns the path. The caller counts its links.
pub(super) fn put_lost(
    tx: &mut Tx<'_, '_>,
    id: u64,
    kind: i32,
    wish: &[u8],
    now: i64,
) -> Result<(u64, Vec<u8>), MetaError> {
    let directory = lost_and_found(tx, now)?;
    let mut name = wish[..wish.len().min(200)].to_vec();
    let mut attempt = 0;
    while tx
        .reader()
        .get(ENTRIES, &keys::with_name(directory.id, &name))?
        .is_some()
    {
        attempt += 1;
        name.truncate(wish.len().min(200));
        name.extend_from_slice(format!(".{attempt}").as_bytes());
    }
    tx.enter(&directory, &name, (id, kind), now);
    if kind == FileKind::Directory as i32 {
        tx.change(directory.id, &directory.inode).links += 1;
    }
    Ok((directory.id, [b"/lost+found/", &name[..]].concat()))
}

/// Makes a new inode, under the old id, for which other records exist. Its names reach it again;
/// without any it is put into `/lost+found`. Answers where it is.
pub(super) fn revive(
    tx: &mut Tx<'_, '_>,
    id: u64,
    mut inode: InodeRecord,
    known: &str,
    now: i64,
) -> Result<String, MetaError> {
    // First of all: files made below must not get its id.
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
        let wish = format!("file-{id}");
        let (parent, path) = put_lost(tx, id, inode.kind, wish.as_bytes(), now)?;
        if directory {
            inode.parent = parent;
        }
        shown = String::from_utf8_lossy(&path).into_owned();
    }
    if tx.reader().get(ORPHANS, &id.to_be_bytes())?.is_some() {
        tx.delete(ORPHANS, &id.to_be_bytes());
    }
    tx.create(id, inode)?;
    put_known(tx, id, KNOWN, known.as_bytes())?;
    Ok(format!("made anew, {shown}"))
}

/// An inode of which nothing is known: only root may use it.
pub(super) fn bare(kind: FileKind, now: i64) -> InodeRecord {
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

/// A layout for a file that has no cells.
pub(super) fn some_layout(volume: &Volume, id: u64, now: i64) -> Result<LayoutRecord, MetaError> {
    placement::choose(&volume.state().servers().pool(now), id, None, None, b"")
}
