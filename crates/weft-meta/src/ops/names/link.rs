//! Link: adds a hard link.

use weft_proto::meta::{FileKind, LinkRequest, StatReply};

use super::new_inode::free_slot;
use crate::error::{MetaError, text};
use crate::limits::HARD_LINKS_MAX;
use crate::paths::{not_found, resolve};
use crate::records::{Node, attributes};
use crate::tx::Volume;

pub(crate) fn link(
    volume: &Volume,
    now: i64,
    request: &LinkRequest,
) -> Result<StatReply, MetaError> {
    let source = &request.source.path;
    volume.transact(|tx| {
        let node = resolve(tx.reader(), &request.who, &request.source)?;
        let slot = free_slot(tx, &request.who, &request.target, FileKind::Regular)?;
        if node.inode.is_directory() {
            return Err(MetaError::LinkToDirectory { path: text(source) });
        }
        if node.inode.links == 0 {
            // A file that lost its last name does not come back.
            return Err(not_found(source));
        }
        if node.inode.links >= HARD_LINKS_MAX {
            return Err(MetaError::TooManyLinks { path: text(source) });
        }
        if node.inode.tree != slot.directory().inode.tree {
            let path = text(&request.target.path);
            return Err(MetaError::CrossDevice { path });
        }
        tx.add_entry(
            slot.directory(),
            slot.name(),
            (node.id, node.inode.kind),
            now,
        );
        let inode = tx.change(node.id, &node.inode);
        inode.links += 1;
        inode.changed = now;
        let inode = inode.clone();
        let id = node.id;
        let attributes = attributes(&Node { id, inode });
        Ok(StatReply { attributes })
    })
}
