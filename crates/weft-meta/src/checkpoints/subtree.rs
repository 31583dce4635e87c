//! Everything below a directory, read at once.

use std::collections::HashMap;
use std::ops::ControlFlow;

use weft_kv::{Reader, scan_prefix};
use weft_proto::limits::TREE_NAMES_MAX;

use crate::error::{MetaError, text};
use crate::records::Node;
use crate::records::keys::{self, ENTRIES, XATTRS};
use crate::records::record::EntryRecord;

/// Everything below a directory, read at once.
pub(crate) struct Subtree {
    nodes: Vec<Node>,
    names: Vec<(usize, Vec<u8>, usize)>,
}

impl Subtree {
    /// Reads a tree of at most [`TREE_NAMES_MAX`] names. Cost: one scan for each directory, one
    /// read for each inode.
    pub(crate) fn read(reader: &dyn Reader, root: Node, path: &[u8]) -> Result<Subtree, MetaError> {
        let mut tree = Subtree {
            nodes: vec![root],
            names: Vec::new(),
        };
        // Only inodes with several names can be found twice.
        let mut linked: HashMap<u64, usize> = HashMap::new();
        let mut at = 0;
        while at < tree.nodes.len() {
            if tree.nodes[at].inode.is_directory() {
                for (name, entry) in entries(reader, tree.nodes[at].id)? {
                    if tree.names.len() == TREE_NAMES_MAX {
                        return Err(MetaError::Invalid {
                            path: text(path),
                            reason: "the tree has more than 131,072 names; apply this to its subdirectories one by one",
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

    /// Each inode once. The directory itself is the first, and parents come before their content.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The inodes, as [`Subtree::nodes`].
    pub(crate) fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }

    /// All names: `(directory, name, what it names)`, both as places in [`Subtree::nodes`].
    pub(crate) fn names(&self) -> &[(usize, Vec<u8>, usize)] {
        &self.names
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
type StoredPair = (Vec<u8>, Vec<u8>);

/// The extended attributes of a file: their keys and stored bytes.
pub(crate) fn xattrs(reader: &dyn Reader, id: u64) -> Result<Vec<StoredPair>, MetaError> {
    let mut found = Vec::new();
    scan_prefix(reader, XATTRS, &id.to_be_bytes(), &mut |key, value| {
        found.push((key[8..].to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
