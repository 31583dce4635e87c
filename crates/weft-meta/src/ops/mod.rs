//! The operations, one per file, and the few steps that several of them share.

mod accessed;
mod attach;
mod change_names;
mod checkpoint;
mod create;
mod delegate;
mod file_checkpoints;
mod link;
mod list;
mod make_directory;
mod make_link;
mod make_node;
mod quota;
mod read_link;
mod remove_directory;
mod rename;
mod report;
mod set_attributes;
mod stat;
mod store_inline;
mod tree;
mod truncate;
mod unlink;
mod xattr;

pub use attach::Attached;
pub(crate) use checkpoint::image;
pub(crate) use report::note_write;
pub use tree::KeptFiles;
pub(crate) use tree::{held_files, tree_files};
pub use truncate::Truncation;

use weft_proto::meta::Attributes;

use crate::path::Node;

/// What the wire says of a file.
pub(crate) fn attributes(node: &Node) -> Attributes {
    let inode = &node.inode;
    let inherited = inode.wish.as_ref().map(|wish| weft_proto::meta::Layout {
        cells: wish.cells.unwrap_or(0),
        bsu: wish.bsu.unwrap_or(0),
        chunk: wish.chunk.unwrap_or(0),
        servers: wish.servers.clone(),
        storage: 0,
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
        xattrs: inode.xattr_bytes > 0 || inode.acl.is_some() || inode.default_acl.is_some(),
    }
}
