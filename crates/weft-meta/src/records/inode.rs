//! An inode in memory: the node that operations pass around, and its attributes on the wire.

use weft_proto::meta::{Attributes, FileKind};

use super::record::InodeRecord;

/// An inode and its id.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) inode: InodeRecord,
}

impl InodeRecord {
    pub(crate) fn is(&self, kind: FileKind) -> bool {
        self.kind == kind as i32
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.is(FileKind::Directory)
    }

    /// Records a write at `time`. Reports arrive in any order, so the latest time wins, unless a
    /// caller has set the time explicitly since.
    pub(crate) fn note_write(&mut self, time: i64) {
        self.written = self.written.max(time);
        if self.written > self.modified_set {
            self.modified = self.written;
        }
        self.changed = self.changed.max(time);
    }

    /// Whether it has parity, or should have it.
    pub(crate) fn has_parity(&self) -> bool {
        let wanted = self
            .layout
            .as_ref()
            .is_some_and(|layout| layout.parity != 0);
        (wanted || self.codings.is_some()) && self.frozen.is_none()
    }

    /// Whether the bytes of this inline image are in cells as well.
    pub(crate) fn has_own_cells(&self) -> bool {
        self.frozen.is_some_and(|frozen| frozen.own_cells)
    }
}

/// The attributes of a node as the wire carries them.
pub(crate) fn attributes(node: &Node) -> Attributes {
    let inode = &node.inode;
    let inherited = inode
        .layout_options
        .as_ref()
        .map(|layout_options| weft_proto::meta::Layout {
            cells: layout_options.cells.unwrap_or(0),
            bsu: layout_options.bsu.unwrap_or(0),
            chunk: layout_options.chunk.unwrap_or(0),
            servers: layout_options.servers.clone(),
            storage: layout_options.storage.unwrap_or(0),
            parity: layout_options.parity.unwrap_or(0),
        });
    let kept = inode
        .frozen
        .filter(|_| inode.layout.is_some() && !inode.inline);
    let kept = kept.unwrap_or_default();
    let own_cells = inode.frozen.is_some_and(|frozen| frozen.own_cells);
    Attributes {
        id: node.id,
        kind: inode.kind,
        mode: inode.mode,
        uid: inode.uid,
        gid: inode.gid,
        links: inode.links,
        size: inode.size,
        size_exact: inode.size_exact,
        accessed: inode.accessed,
        modified: inode.modified,
        changed: inode.changed,
        created: inode.created,
        modified_set: inode.modified_set,
        device: inode.device,
        layout: inode.layout.as_ref().map(Into::into).or(inherited),
        parent: inode.parent,
        inline: inode.inline && !own_cells,
        source: kept.source,
        checkpoint: kept.checkpoint,
        policy: inode.policy.clone(),
        xattrs: inode.xattr_bytes > 0 || inode.acl.is_some() || inode.default_acl.is_some(),
    }
}
