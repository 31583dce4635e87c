//! Checkpoints of trees: what lies below a directory is copied in the namespace, inode by inode, and the cells of its files
//! are kept on the servers under one number.
//!
//! The copy (*image*) consists of real inodes and entries with ids of their own, so everything that reads a directory or a
//! file reads it; `Edit::finish` refuses every change of them. An image is made, replaced and removed in one transaction
//! each; `docs/design/0007-checkpoints.md` has the costs, the records and what a crash leaves.
//!
//! Invariants:
//! 1. `TREE_FILES` names for each checkpoint the files with cells in it and their images; `HELD` counts the checkpoints that
//!    name a file, and is there exactly while one does.
//! 2. A file that is held has an inode, or its hold says `deleted` and its servers still have its cells.

mod done;
mod make;
mod roll_back;

pub use done::KeptFiles;

use std::collections::HashMap;
use std::ops::ControlFlow;

use weft_kv::{Reader, scan_prefix};
use weft_layout::FileId;
use weft_proto::limits::TREE_NAMES_MAX;

use crate::MetaError;
use crate::edit::Edit;
use crate::intents::{TreeFile, checked};
use crate::keys::{self, CHECKPOINTS, ENTRIES, TREE_FILES, XATTRS};
use crate::path::Node;
use crate::permission::text;
use crate::record::{EntryRecord, TreeFileRecord};

/// What lies below a directory, read at once.
pub(crate) struct Tree {
    /// Each inode once; the directory itself is the first, parents stand before what they hold.
    pub(crate) nodes: Vec<Node>,
    /// All names: `(directory, name, what it names)`, both as places in `nodes`.
    pub(crate) names: Vec<(usize, Vec<u8>, usize)>,
}

impl Tree {
    /// Reads a tree of at most [`TREE_NAMES_MAX`] names. Cost: one scan for each directory, one read for each inode.
    pub(crate) fn read(reader: &dyn Reader, root: Node, path: &[u8]) -> Result<Tree, MetaError> {
        let mut tree = Tree {
            nodes: vec![root],
            names: Vec::new(),
        };
        // Only what has several names can be met twice.
        let mut linked: HashMap<u64, usize> = HashMap::new();
        let mut at = 0;
        while at < tree.nodes.len() {
            if tree.nodes[at].inode.is_directory() {
                for (name, entry) in entries(reader, tree.nodes[at].id)? {
                    if tree.names.len() == TREE_NAMES_MAX {
                        return Err(MetaError::Invalid {
                            path: text(path),
                            reason: "a tree has at most 131,072 names for this: take each part of it by itself",
                        });
                    }
                    let known = linked.get(&entry.id).copied();
                    let place = known.unwrap_or(tree.nodes.len());
                    if known.is_none() {
                        let inode = keys::named_inode(reader, entry.id)?;
                        if !inode.is_directory() && inode.links > 1 {
                            linked.insert(entry.id, place);
                        }
                        let id = entry.id;
                        tree.nodes.push(Node { id, inode });
                    }
                    tree.names.push((at, name, place));
                }
            }
            at += 1;
        }
        Ok(tree)
    }

    /// How many names each node has in the tree.
    pub(crate) fn name_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.nodes.len()];
        for (_, _, node) in &self.names {
            counts[*node] += 1;
        }
        counts
    }
}

fn entries(reader: &dyn Reader, directory: u64) -> Result<Vec<(Vec<u8>, EntryRecord)>, MetaError> {
    let (mut found, mut damaged) = (Vec::new(), None);
    scan_prefix(
        reader,
        ENTRIES,
        &directory.to_be_bytes(),
        &mut |key, value| match keys::decode("entry in", directory, value) {
            Ok(entry) => {
                found.push((key[8..].to_vec(), entry));
                ControlFlow::Continue(())
            }
            Err(error) => {
                damaged = Some(error);
                ControlFlow::Break(())
            }
        },
    )?;
    damaged.map_or(Ok(found), Err)
}

/// A key and what is stored under it.
type Pair = (Vec<u8>, Vec<u8>);

/// The extended attributes of a file: their keys and stored bytes.
fn xattrs(reader: &dyn Reader, id: u64) -> Result<Vec<Pair>, MetaError> {
    let mut found = Vec::new();
    scan_prefix(reader, XATTRS, &id.to_be_bytes(), &mut |key, value| {
        found.push((key[8..].to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// The files with cells of a checkpoint of a tree: `(file, image)`.
pub(crate) fn held_files(
    reader: &dyn Reader,
    checkpoint: u64,
) -> Result<Vec<(u64, u64)>, MetaError> {
    let (mut found, mut damaged) = (Vec::new(), None);
    let prefix = checkpoint.to_be_bytes();
    scan_prefix(reader, TREE_FILES, &prefix, &mut |key, value| {
        let file = keys::number(&key[8..]).unwrap_or_default();
        match keys::decode::<TreeFileRecord>("file of checkpoint", checkpoint, value) {
            Ok(record) => {
                found.push((file, record.image));
                ControlFlow::Continue(())
            }
            Err(error) => {
                damaged = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    damaged.map_or(Ok(found), Err)
}

/// As [`held_files`], with what a server needs to know of each.
pub(crate) fn tree_files(reader: &dyn Reader, checkpoint: u64) -> Result<Vec<TreeFile>, MetaError> {
    let with_layout = |(file, image): (u64, u64)| {
        let inode = keys::named_inode(reader, image)?;
        let corrupt = |reason: String| MetaError::Corrupt {
            what: "inode",
            id: image,
            reason,
        };
        let layout = inode.layout.as_ref();
        let layout = layout.ok_or_else(|| corrupt("a regular file without a layout".into()))?;
        Ok(TreeFile {
            file: FileId(file),
            layout: checked(layout).map_err(corrupt)?,
        })
    };
    let files = held_files(reader, checkpoint)?;
    files.into_iter().map(with_layout).collect()
}

impl Edit<'_, '_> {
    /// Whether a file or directory has checkpoints, also such as are being made or dropped.
    pub(crate) fn has_checkpoints(&self, id: u64) -> Result<bool, MetaError> {
        let mut found = false;
        let prefix = id.to_be_bytes();
        scan_prefix(self.reader(), CHECKPOINTS, &prefix, &mut |_, _| {
            found = true;
            ControlFlow::Break(())
        })?;
        Ok(found)
    }
}
