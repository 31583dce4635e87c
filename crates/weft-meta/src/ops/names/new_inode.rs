//! Steps that all operations that make a name share: checking that the name is free and that the
//! caller may write there, and choosing owner, group and mode of the new file.

use weft_proto::meta::{Credentials, FileKind, StatReply, Target};

use crate::access::{GROUP_EXEC, MODE, SETGID, STICKY, WRITE, in_group, is_root, need};
use crate::error::{MetaError, text};
use crate::paths::{Nameless, Slot, not_found, slot};
use crate::records::record::InodeRecord;
use crate::records::{Node, attributes};
use crate::tx::Tx;

/// The free name `target` for a new file of this kind. Only a directory may have a slash after its
/// name.
///
/// A path without a last name exists already; an empty path names nothing.
pub(super) fn free_slot(
    tx: &Tx<'_, '_>,
    who: &Credentials,
    target: &Target,
    kind: FileKind,
) -> Result<Box<Slot>, MetaError> {
    let path = &target.path;
    let slot = match slot(tx.reader(), who, target)? {
        Ok(slot) => slot,
        Err(Nameless::Empty) => return Err(not_found(path)),
        Err(_) => return Err(MetaError::Exists { path: text(path) }),
    };
    if slot.found().is_some() {
        return Err(MetaError::Exists { path: text(path) });
    }
    if slot.has_slash() && kind != FileKind::Directory {
        return Err(not_found(path));
    }
    writable(who, slot.directory(), path)?;
    Ok(slot)
}

/// Checks that the caller may make names in this directory, and that the directory itself still has
/// a name.
pub(crate) fn writable(who: &Credentials, directory: &Node, path: &[u8]) -> Result<(), MetaError> {
    if directory.inode.links == 0 {
        return Err(not_found(path));
    }
    need(who, &directory.inode, WRITE, path)
}

/// A new inode as its creator (mode and umask) and its directory determine it.
pub(crate) fn new_inode(
    who: &Credentials,
    directory: &Node,
    kind: FileKind,
    (mode, umask): (u32, u32),
    now: i64,
) -> InodeRecord {
    let inherits = directory.inode.mode & SETGID != 0;
    let gid = if inherits {
        directory.inode.gid
    } else {
        who.gid
    };
    let mut mode = mode & MODE;
    if kind == FileKind::Directory {
        if inherits {
            mode |= SETGID;
        }
    } else if mode & (SETGID | GROUP_EXEC) == SETGID | GROUP_EXEC
        && !is_root(who)
        && !in_group(who, gid)
    {
        mode &= !SETGID;
    }
    let mut inode = InodeRecord {
        kind: kind as i32,
        mode,
        uid: who.uid,
        gid,
        links: if kind == FileKind::Directory { 2 } else { 1 },
        size_exact: true,
        accessed: now,
        modified: now,
        changed: now,
        created: now,
        parent: if kind == FileKind::Directory {
            directory.id
        } else {
            0
        },
        tree: directory.inode.tree,
        ..InodeRecord::default()
    };
    if kind != FileKind::Symlink {
        inode.inherit(&directory.inode, umask);
    }
    if matches!(kind, FileKind::Directory | FileKind::Regular) {
        inode.policy.clone_from(&directory.inode.policy);
    }
    inode
}

/// The inode of a new directory; its files get the layouts that those of `parent` get.
pub(super) fn new_directory(
    who: &Credentials,
    parent: &Node,
    (mode, umask): (u32, u32),
    now: i64,
) -> InodeRecord {
    // As on Linux, set-id bits come from the parent and not from the caller.
    let mode = (mode & (0o777 | STICKY), umask);
    let mut inode = new_inode(who, parent, FileKind::Directory, mode, now);
    inode
        .layout_options
        .clone_from(&parent.inode.layout_options);
    inode
}

/// Adds a new inode with its name.
pub(crate) fn place(
    tx: &mut Tx<'_, '_>,
    slot: &Slot,
    id: u64,
    inode: InodeRecord,
    now: i64,
) -> Result<StatReply, MetaError> {
    tx.add_entry(slot.directory(), slot.name(), (id, inode.kind), now);
    let node = Node { id, inode };
    let attributes = attributes(&node);
    tx.create(id, node.inode)?;
    Ok(StatReply { attributes })
}
