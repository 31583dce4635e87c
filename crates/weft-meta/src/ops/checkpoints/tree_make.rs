//! Makes the image of a tree.

use prost::Message;
use weft_proto::meta::FileKind;

use crate::checkpoints::{Subtree, xattrs};
use crate::error::MetaError;
use crate::records::Node;
use crate::records::keys::{
    self, CHECKPOINTS, ENTRIES, HOLDS, INLINE, INODES, TREE_FILES, XATTRS, content,
};
use crate::records::record::{
    CHECKPOINT_MAKING, CheckpointRecord, EntryRecord, FrozenRecord, InodeRecord, TASK_MAKE,
    TreeFileRecord, XattrRecord,
};
use crate::tx::Tx;

/// Copies everything below a directory and adds the intent to make a checkpoint of the cells.
/// Returns the intent's number.
///
/// Cost: O(names) reads and writes. The cost does not grow with the files' sizes, except that the
/// bytes of inline files are copied.
pub(crate) fn make_tree(
    tx: &mut Tx<'_, '_>,
    root: &Node,
    path: &[u8],
    name: &str,
    now: i64,
) -> Result<u64, MetaError> {
    let tree = Subtree::read(tx.reader(), root.clone(), path)?;
    let count = tree.nodes().len() as u64;
    let counters = tx.counters()?;
    // Image `i` has the id `first + i`.
    let first = counters.next_id;
    counters.next_id += count;
    counters.files += count;
    let number = tx.add_tree_intent(root.id, TASK_MAKE, 0, name, first)?;
    let images = images(&tree, first, number);
    let mut size = 0;
    for (node, image) in tree.nodes().iter().zip(images) {
        size += put_image(tx, node, &image, number)?;
    }
    for (directory, name, node) in tree.names() {
        let record = EntryRecord {
            id: first + *node as u64,
            kind: tree.nodes()[*node].inode.kind,
        };
        let key = keys::with_name(first + *directory as u64, name);
        tx.put_unseen(ENTRIES, &key, &record);
    }
    let record = CheckpointRecord {
        forks: false,
        number,
        made: now,
        size,
        state: CHECKPOINT_MAKING,
        image: first,
        names: tree.names().len() as u64,
    };
    let key = keys::with_name(root.id, name.as_bytes());
    tx.put(CHECKPOINTS, &key, &record);
    tx.grow();
    Ok(number)
}

/// Writes one image with the records that belong to it. Returns the bytes of an inline file.
fn put_image(
    tx: &mut Tx<'_, '_>,
    node: &Node,
    image: &Node,
    number: u64,
) -> Result<u64, MetaError> {
    let id = image.id;
    tx.put_unseen(INODES, &id.to_be_bytes(), &image.inode);
    if node.inode.xattr_bytes > 0 {
        for (name, stored) in xattrs(tx.reader(), node.id)? {
            let record: XattrRecord = decoded(node.id, &stored)?;
            tx.put_unseen(XATTRS, &keys::with_name(id, &name), &record);
        }
    }
    if !node.inode.is(FileKind::Regular) {
        return Ok(0);
    }
    if node.inode.inline {
        let mut record = content(tx.reader(), node.id)?;
        let bytes = record.data.len() as u64;
        // The record has the current bytes even while the file is spilled.
        record.spilling = false;
        if bytes > 0 {
            tx.put_unseen(INLINE, &id.to_be_bytes(), &record);
        }
        return Ok(bytes);
    }
    let record = TreeFileRecord { image: id };
    tx.put_unseen(TREE_FILES, &keys::pair(number, node.id), &record);
    let mut held = keys::hold(tx.reader(), node.id)?.unwrap_or_default();
    held.checkpoints += 1;
    tx.put_unseen(HOLDS, &node.id.to_be_bytes(), &held);
    Ok(0)
}

fn decoded<M: Message + Default>(id: u64, stored: &[u8]) -> Result<M, MetaError> {
    keys::decode("extended attribute of", id, stored)
}

/// The inodes of the copy, in the order of the tree's.
fn images(tree: &Subtree, first: u64, number: u64) -> Vec<Node> {
    let mut parents = vec![first; tree.nodes().len()];
    for (directory, _, node) in tree.names() {
        parents[*node] = first + *directory as u64;
    }
    let names = tree.name_counts();
    let image = |place: usize, node: &Node| {
        let directory = node.inode.is_directory();
        let inode = InodeRecord {
            frozen: Some(FrozenRecord {
                checkpoint: number,
                source: node.id,
                own_cells: false,
            }),
            links: if directory {
                node.inode.links
            } else {
                names[place]
            },
            parent: if directory { parents[place] } else { 0 },
            // The servers report the size of a file with cells before any client sees the copy.
            size_exact: true,
            // Writers have not reported other forks yet.
            forks_changed: !node.inode.inline
                && (node.inode.forks_changed || !node.inode.size_exact),
            truncate: 0,
            truncate_raced: false,
            tree: 0,
            codings: None,
            ..node.inode.clone()
        };
        let id = first + place as u64;
        Node { id, inode }
    };
    let nodes = tree.nodes().iter().enumerate();
    nodes.map(|(place, node)| image(place, node)).collect()
}
