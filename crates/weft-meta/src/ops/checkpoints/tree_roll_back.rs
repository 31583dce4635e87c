//! Rolls a tree back to a checkpoint.
//!
//! The id identifies a file. A file that still exists, wherever it was renamed to, gets its old
//! state and its old names in the tree, beside names that it has elsewhere. A deleted file comes
//! back. A file that was made since loses its names in the tree, and is removed if it has no
//! others. Directories that were moved out of the tree stay where they are, and new ones take their
//! places.

use std::collections::{HashMap, HashSet};

use weft_proto::meta::{Credentials, FileKind};

use crate::access::{is_root, not_owner};
use crate::checkpoints::{Subtree, has_checkpoints, xattrs};
use crate::error::{MetaError, text};
use crate::open::Author;
use crate::quota::{Payer, quota_record};
use crate::records::Node;
use crate::records::keys::{self, ENTRIES, HOLDS, ORPHANS, XATTRS, content};
use crate::records::record::{
    CheckpointRecord, EntryRecord, InodeRecord, TASK_ROLL_BACK, XattrRecord,
};
use crate::tx::Tx;

/// The inode that an image is restored to.
struct RollbackTarget {
    id: u64,
    /// The inode under this id now.
    current: Option<InodeRecord>,
}

/// Replaces the tree below a directory, and adds the intent to roll back the cells. Returns the
/// intent's number.
///
/// Cost: O(names in the checkpoint and in the tree).
pub(crate) fn roll_back_tree(
    tx: &mut Tx<'_, '_>,
    who: &Credentials,
    (root, path): (&Node, &[u8]),
    (record, name): (&CheckpointRecord, &str),
    now: i64,
) -> Result<u64, MetaError> {
    let first = Node {
        id: record.image,
        inode: keys::named_inode(tx.reader(), record.image)?,
    };
    let image = Subtree::read(tx.reader(), first, path)?;
    let current = Subtree::read(tx.reader(), root.clone(), path)?;
    let all = image.nodes().iter().chain(current.nodes());
    if !is_root(who) && all.clone().any(|node| node.inode.uid != who.uid) {
        return Err(not_owner(who, path, "roll back what others own"));
    }
    let (root_id, number) = (root.id, record.number);
    let number = tx.add_tree_intent(root_id, TASK_ROLL_BACK, number, name, record.image)?;
    for (directory, name, _) in current.names() {
        tx.delete(
            ENTRIES,
            &keys::with_name(current.nodes()[*directory].id, name),
        );
    }
    let targets = targets(tx, root, &image, &current)?;
    remove_others(tx, &current, &targets, now)?;
    restore(tx, &image, &current, &targets, number, now)?;
    for (directory, name, node) in image.names() {
        let record = EntryRecord {
            id: targets[*node].id,
            kind: image.nodes()[*node].inode.kind,
        };
        let key = keys::with_name(targets[*directory].id, name);
        tx.put(ENTRIES, &key, &record);
    }
    Ok(number)
}

/// The targets of all images.
fn targets(
    tx: &mut Tx<'_, '_>,
    root: &Node,
    image: &Subtree,
    current: &Subtree,
) -> Result<Vec<RollbackTarget>, MetaError> {
    let in_tree: HashSet<u64> = current.nodes().iter().map(|node| node.id).collect();
    let mut targets = Vec::with_capacity(image.nodes().len());
    for (place, node) in image.nodes().iter().enumerate() {
        let source = node.inode.frozen.map_or(0, |frozen| frozen.source);
        let id = if place == 0 { root.id } else { source };
        let found = keys::inode(tx.reader(), id)?;
        let fits = |found: &InodeRecord| {
            if found.is_directory() {
                in_tree.contains(&id)
            } else {
                // Bytes that were spilled to cells do not become inline again.
                !node.inode.inline || found.inline
            }
        };
        let misfit = found
            .as_ref()
            .is_some_and(|f| !f.is_directory() && !fits(f));
        if misfit && has_checkpoints(tx.reader(), id)? {
            let name = image.names().iter().find(|(_, _, named)| *named == place);
            let name = name.map_or_else(String::new, |(_, name, _)| text(name));
            return Err(MetaError::HasOwnCheckpoints { name });
        }
        let target = match found.filter(fits) {
            Some(current) => RollbackTarget {
                id,
                current: Some(current),
            },
            None if has_cells(&node.inode) => RollbackTarget { id, current: None },
            None => RollbackTarget {
                id: tx.next_id()?,
                current: None,
            },
        };
        targets.push(target);
    }
    Ok(targets)
}

/// Removes what is in the tree and not in the checkpoint.
fn remove_others(
    tx: &mut Tx<'_, '_>,
    current: &Subtree,
    targets: &[RollbackTarget],
    now: i64,
) -> Result<(), MetaError> {
    let kept: HashSet<u64> = targets.iter().map(|target| target.id).collect();
    let names = current.name_counts();
    for (place, (node, names)) in current.nodes().iter().zip(names).enumerate() {
        if kept.contains(&node.id) {
            continue;
        }
        if node.inode.is_directory() && has_checkpoints(tx.reader(), node.id)? {
            let name = current.names().iter().find(|(_, _, named)| *named == place);
            let path = name.map_or_else(String::new, |(_, name, _)| text(name));
            return Err(MetaError::HasCheckpoints { path });
        }
        let inode = tx.change(node.id, &node.inode);
        inode.changed = now;
        if inode.is_directory() {
            inode.size = 0;
            tx.unlink(node, now)?;
            continue;
        }
        inode.links = inode.links.saturating_sub(names);
        if inode.links == 0 {
            // Remove its last name as any other.
            inode.links = 1;
            tx.unlink(node, now)?;
        }
    }
    Ok(())
}

/// Restores every target to its image.
fn restore(
    tx: &mut Tx<'_, '_>,
    image: &Subtree,
    current: &Subtree,
    targets: &[RollbackTarget],
    number: u64,
    now: i64,
) -> Result<(), MetaError> {
    let mut parents = vec![0; image.nodes().len()];
    for (directory, _, node) in image.names() {
        parents[*node] = targets[*directory].id;
    }
    let (nodes, counts) = (current.nodes(), current.name_counts());
    let in_tree: HashMap<u64, u32> = nodes.iter().map(|n| n.id).zip(counts).collect();
    let names = image.name_counts();
    let mut trees: Vec<u64> = Vec::with_capacity(targets.len());
    let mut directories = vec![0; image.nodes().len()];
    for (directory, _, node) in image.names() {
        directories[*node] = *directory;
    }
    for (place, (node, target)) in image.nodes().iter().zip(targets).enumerate() {
        let id = target.id;
        let mut inode = InodeRecord {
            frozen: None,
            changed: now,
            ..node.inode.clone()
        };
        // Parity is of the cells, which the servers roll back: it stays as it is.
        inode.codings = match &target.current {
            Some(current) => current.codings.clone(),
            None => keys::hold(tx.reader(), id)?.and_then(|held| held.codings),
        };
        let outer = trees.get(directories[place]).copied();
        inode.tree = tree_again(tx, target, outer)?;
        trees.push(inode.tree);
        if inode.is_directory() {
            let root = target.current.as_ref().filter(|_| place == 0);
            inode.parent = root.map_or(parents[place], |root| root.parent);
        } else {
            let outside = target.current.as_ref().map_or(0, |current| {
                let inside = in_tree.get(&id).copied().unwrap_or(0);
                current.links.saturating_sub(inside)
            });
            inode.links = names[place] + outside;
            if let Some(current) = target.current.as_ref().filter(|_| outside > 0) {
                inode.tree = current.tree;
            }
        }
        if has_cells(&inode) {
            let forks_now = target
                .current
                .as_ref()
                .is_some_and(|now| now.fork_bytes > 0 || now.forks_changed);
            inode.forks_changed |= forks_now || inode.fork_bytes > 0;
            inode.size_exact = false;
            inode.truncate = number;
            tx.open_files().truncated(id);
        }
        restore_beside(tx, node, id)?;
        match &target.current {
            Some(current) => *tx.change(id, current) = inode,
            None => tx.create(id, inode)?,
        }
    }
    Ok(())
}

/// The tree that a target is charged to. `outer` is that of its directory, unless the target is the
/// root of the rollback.
fn tree_again(
    tx: &Tx<'_, '_>,
    target: &RollbackTarget,
    outer: Option<u64>,
) -> Result<u64, MetaError> {
    let (current, Some(outer)) = (target.current.as_ref(), outer) else {
        return Ok(target.current.as_ref().map_or(0, |current| current.tree));
    };
    if current.is_none_or(|current| current.tree != target.id) {
        return Ok(outer);
    }
    let quota = quota_record(tx.reader(), Payer::Tree(target.id))?;
    if quota.is_some_and(|quota| quota.above != outer) {
        let path = format!("directory {}, which has a quota of its own", target.id);
        return Err(MetaError::CrossDevice { path });
    }
    Ok(target.id)
}

/// Restores the records beside the inode: extended attributes, inline bytes, the mark of an orphan.
fn restore_beside(tx: &mut Tx<'_, '_>, image: &Node, id: u64) -> Result<(), MetaError> {
    tx.delete(ORPHANS, &id.to_be_bytes());
    for (name, _) in xattrs(tx.reader(), id)? {
        tx.delete(XATTRS, &keys::with_name(id, &name));
    }
    if image.inode.xattr_bytes > 0 {
        for (name, stored) in xattrs(tx.reader(), image.id)? {
            let record: XattrRecord = keys::decode("extended attribute of", id, &stored)?;
            tx.put(XATTRS, &keys::with_name(id, &name), &record);
        }
    }
    if image.inode.inline {
        let data = content(tx.reader(), image.id)?.data;
        tx.put_content(id, &data);
        tx.open_files()
            .truncate_inline(id, data.len() as u64, Author::Other);
    } else if has_cells(&image.inode)
        && let Some(mut held) = keys::hold(tx.reader(), id)?
        && held.deleted
    {
        held.deleted = false;
        (held.codings, held.layout) = (None, None);
        tx.put(HOLDS, &id.to_be_bytes(), &held);
    }
    Ok(())
}

/// Whether the servers have the bytes.
fn has_cells(image: &InodeRecord) -> bool {
    image.is(FileKind::Regular) && !image.inline
}
