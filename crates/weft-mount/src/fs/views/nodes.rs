//! The nodes of views and checkpoints that the kernel knows.

use std::collections::HashMap;

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::fs::error::FsError;
use crate::fs::metadata::Attr;
use crate::fs::view_ids::{CHECKPOINT_MARK, MARK};

pub(super) const VIEWS: &[u8] = b"views";

/// The directory of checkpoints in the hidden one.
pub(super) const CHECKPOINTS: &[u8] = b"checkpoints";

/// The kinds of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ViewNode {
    /// `.weft` in a directory.
    Hidden { directory: u64 },
    /// `.weft/views`.
    Views { directory: u64 },
    /// `.weft/views/FILE`.
    File { file: u64 },
    /// `.weft/views/FILE/VIEW`.
    View { file: u64, text: String },
    /// `.weft/checkpoints`.
    Checkpoints { directory: u64 },
    /// `.weft/checkpoints/NAME`, if single files have a checkpoint NAME, and not the tree.
    FilesAt { directory: u64, name: String },
    /// `.weft/checkpoints/NAME/FILE`.
    FileAt(CheckpointFile),
}

/// A file as it is in its checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CheckpointFile {
    pub(super) file: u64,
    /// The checkpoint's number.
    pub(super) number: u64,
    pub(super) size: u64,
    pub(super) made: i64,
}

impl CheckpointFile {
    /// Its attributes: the file's, except those of its bytes.
    pub(super) fn attr(&self, id: u64, mut attr: Attr) -> Attr {
        attr.id = id;
        attr.links = 1;
        attr.size = self.size;
        attr.modified = self.made;
        attr.mode &= !0o222;
        attr
    }
}

/// The additional mark of a node's id.
fn mark(node: &ViewNode) -> u64 {
    match node {
        ViewNode::Checkpoints { .. } | ViewNode::FilesAt { .. } | ViewNode::FileAt(_) => {
            CHECKPOINT_MARK
        }
        ViewNode::Hidden { .. }
        | ViewNode::Views { .. }
        | ViewNode::File { .. }
        | ViewNode::View { .. } => 0,
    }
}

/// The nodes that the kernel knows.
#[derive(Default)]
pub(in crate::fs) struct ViewNodes(Mutex<NodeTable>);

#[derive(Default)]
struct NodeTable {
    ids: HashMap<ViewNode, u64>,
    nodes: HashMap<u64, (ViewNode, u64)>,
    last: u64,
}

impl ViewNodes {
    pub(super) fn looked_up(&self, node: ViewNode) -> u64 {
        let mut known = self.0.lock();
        let id = if let Some(id) = known.ids.get(&node) {
            *id
        } else {
            known.last += 1;
            known.last | MARK | mark(&node)
        };
        known.ids.insert(node.clone(), id);
        known.nodes.entry(id).or_insert((node, 0)).1 += 1;
        id
    }

    pub(super) fn get(&self, id: u64) -> Result<ViewNode, FsError> {
        let node = self.0.lock().nodes.get(&id).map(|(node, _)| node.clone());
        node.ok_or(FsError::refused("the view is unknown", Errno::STALE))
    }

    pub(in crate::fs) fn forgotten(&self, id: u64, lookups: u64) {
        let mut known = self.0.lock();
        let Some((_, count)) = known.nodes.get_mut(&id) else {
            return;
        };
        *count = count.saturating_sub(lookups);
        if *count == 0
            && let Some((node, _)) = known.nodes.remove(&id)
        {
            known.ids.remove(&node);
        }
    }
}

pub(super) fn not_found() -> FsError {
    FsError::refused("the view does not exist", Errno::NOENT)
}

pub(super) fn no_checkpoint() -> FsError {
    FsError::refused("the checkpoint does not exist", Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::view_ids::is_view;

    #[test]
    fn a_node_keeps_its_id_while_the_kernel_knows_it() {
        let nodes = ViewNodes::default();
        let node = ViewNode::View {
            file: 7,
            text: "cell=0".into(),
        };
        let id = nodes.looked_up(node.clone());
        assert!(is_view(id));
        assert_eq!(nodes.looked_up(node.clone()), id);
        nodes.forgotten(id, 1);
        assert_eq!(nodes.get(id).unwrap(), node);
        nodes.forgotten(id, 1);
        assert!(nodes.get(id).is_err());
        assert!(nodes.0.lock().ids.is_empty());
    }
}
