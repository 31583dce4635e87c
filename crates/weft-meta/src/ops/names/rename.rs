//! Rename in every case of POSIX and Linux: to a free name, over a file, over an empty directory,
//! across directories, without replacing, and as an exchange.
//!
//! No case needs a scan: an empty directory has the `size` 0, and a walk from the new parent to the
//! root finds out whether a directory would move below itself.

use weft_proto::meta::{Credentials, FileKind, ROOT, RenameReply, RenameRequest, Target};

use super::new_inode::writable;
use crate::access::{WRITE, need, need_removable};
use crate::error::{MetaError, text};
use crate::paths::{Nameless, Slot, not_found, slot};
use crate::records::{Node, keys};
use crate::tx::{Tx, Volume};

pub(crate) fn rename(
    volume: &Volume,
    now: i64,
    request: &RenameRequest,
) -> Result<RenameReply, MetaError> {
    let who = &request.who;
    let (from_path, to_path) = (&request.source.path, &request.target.path);
    if request.no_replace && request.exchange {
        return Err(invalid(to_path, "an exchange needs the new name to exist"));
    }
    volume.transact(|tx| {
        let from = named(tx, who, &request.source)?;
        let to = named(tx, who, &request.target)?;
        let source = from.found().ok_or_else(|| not_found(from_path))?;
        let source_dir = source.inode.is_directory();
        if from.has_slash() && !source_dir {
            return Err(not_directory(from_path));
        }
        let old = to.found();
        if request.no_replace && old.is_some() {
            return Err(MetaError::Exists {
                path: text(to_path),
            });
        }
        if request.exchange && old.is_none() {
            return Err(not_found(to_path));
        }
        // The slash demands that the renamed file is a directory; in an exchange, the other file.
        let slashed = old.filter(|_| request.exchange).unwrap_or(source);
        if to.has_slash() && !slashed.inode.is_directory() {
            return Err(not_directory(to_path));
        }
        if old.is_some_and(|old| old.id == source.id) {
            return Ok(RenameReply::default());
        }
        need(who, &from.directory().inode, WRITE, from_path)?;
        need_removable(who, &from.directory().inode, &source.inode, from_path)?;
        writable(who, to.directory(), to_path)?;
        if let Some(old) = old {
            need_removable(who, &to.directory().inode, &old.inode, to_path)?;
        }
        let changes_parent = from.directory().id != to.directory().id;
        if changes_parent {
            needs_new_parent(tx, who, source, &to, to_path)?;
        }
        keeps_tree(source, &from, &to, to_path)?;
        match old {
            Some(old) if request.exchange => {
                keeps_tree(old, &to, &from, from_path)?;
                if changes_parent {
                    needs_new_parent(tx, who, old, &from, from_path)?;
                }
                exchange(tx, &from, source, &to, old, now);
            }
            _ => {
                replaceable(source, old, to_path)?;
                if let Some(old) = old {
                    tx.need_no_checkpoints(old, to_path)?;
                }
                replace(tx, &from, source, &to, now)?;
            }
        }
        Ok(RenameReply {
            file: source.id,
            other: old.map_or(0, |old| old.id),
        })
    })
}

/// The slot of a name that can be renamed.
fn named(tx: &Tx<'_, '_>, who: &Credentials, target: &Target) -> Result<Box<Slot>, MetaError> {
    let path = &target.path;
    match slot(tx.reader(), who, target)? {
        Ok(slot) => Ok(slot),
        Err(Nameless::Empty) => Err(not_found(path)),
        Err(Nameless::Root) => Err(invalid(path, "the root directory cannot be renamed")),
        Err(Nameless::Dot | Nameless::DotDot) => {
            Err(invalid(path, "the names . and .. cannot be renamed"))
        }
    }
}

/// Checks that a directory may get another parent: that changes its `..`, so the caller must be
/// able to write it, and it must not end up below itself.
fn needs_new_parent(
    tx: &Tx<'_, '_>,
    who: &Credentials,
    node: &Node,
    to: &Slot,
    path: &[u8],
) -> Result<(), MetaError> {
    if !node.inode.is_directory() {
        return Ok(());
    }
    let mut id = to.directory().id;
    let mut parent = to.directory().inode.parent;
    loop {
        if id == node.id {
            return Err(invalid(path, "a directory cannot move below itself"));
        }
        if id == ROOT || id == parent {
            break;
        }
        id = parent;
        parent = keys::named_inode(tx.reader(), id)?.parent;
    }
    need(who, &node.inode, WRITE, path)
}

/// Checks that a file may change its tree: only one with a single name may, and is then charged to
/// the other tree.
fn keeps_tree(node: &Node, from: &Slot, to: &Slot, path: &[u8]) -> Result<(), MetaError> {
    let stays = from.directory().inode.tree == to.directory().inode.tree;
    if stays || !node.inode.is_directory() && node.inode.links == 1 {
        return Ok(());
    }
    Err(MetaError::CrossDevice { path: text(path) })
}

/// Checks that a file may be replaced: a directory only by a directory, and only if it is empty;
/// any other file only by one that is no directory.
fn replaceable(source: &Node, old: Option<&Node>, path: &[u8]) -> Result<(), MetaError> {
    let Some(old) = old else {
        return Ok(());
    };
    match (source.inode.is_directory(), old.inode.is_directory()) {
        (true, false) => Err(not_directory(path)),
        (false, true) => Err(MetaError::IsDirectory { path: text(path) }),
        (true, true) if old.inode.size > 0 => Err(MetaError::NotEmpty { path: text(path) }),
        _ => Ok(()),
    }
}

fn replace(
    tx: &mut Tx<'_, '_>,
    from: &Slot,
    source: &Node,
    to: &Slot,
    now: i64,
) -> Result<(), MetaError> {
    if let Some(old) = to.found() {
        tx.remove_entry(to.directory(), to.name(), now);
        if old.inode.is_directory() {
            tx.change(to.directory().id, &to.directory().inode).links -= 1;
        }
        tx.unlink(old, now)?;
    }
    tx.remove_entry(from.directory(), from.name(), now);
    tx.add_entry(
        to.directory(),
        to.name(),
        (source.id, source.inode.kind),
        now,
    );
    update_moved(tx, from, source, to, now);
    Ok(())
}

fn exchange(tx: &mut Tx<'_, '_>, from: &Slot, source: &Node, to: &Slot, old: &Node, now: i64) {
    tx.remove_entry(from.directory(), from.name(), now);
    tx.remove_entry(to.directory(), to.name(), now);
    tx.add_entry(
        to.directory(),
        to.name(),
        (source.id, source.inode.kind),
        now,
    );
    tx.add_entry(from.directory(), from.name(), (old.id, old.inode.kind), now);
    update_moved(tx, from, source, to, now);
    update_moved(tx, to, old, from, now);
}

/// Updates a renamed inode: its change time, the tree that it is charged to, and a directory's
/// parent with the link counts of both parents.
fn update_moved(tx: &mut Tx<'_, '_>, from: &Slot, node: &Node, to: &Slot, now: i64) {
    let inode = tx.change(node.id, &node.inode);
    inode.changed = now;
    if from.directory().inode.tree != to.directory().inode.tree {
        inode.tree = to.directory().inode.tree;
    }
    if inode.kind == FileKind::Directory as i32 && from.directory().id != to.directory().id {
        inode.parent = to.directory().id;
        tx.change(from.directory().id, &from.directory().inode)
            .links -= 1;
        tx.change(to.directory().id, &to.directory().inode).links += 1;
    }
}

fn invalid(path: &[u8], reason: &'static str) -> MetaError {
    MetaError::Invalid {
        path: text(path),
        reason,
    }
}

fn not_directory(path: &[u8]) -> MetaError {
    MetaError::NotDirectory { path: text(path) }
}
