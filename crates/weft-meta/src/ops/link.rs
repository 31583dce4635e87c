//! Link: a further name for a file.

use weft_proto::meta::{LinkRequest, StatReply};

use super::create::free_slot;
use crate::error::{MetaError, text};
use crate::limits::HARD_LINKS_MAX;
use crate::namespace::Namespace;
use crate::paths::{not_found, resolve};
use crate::records::{Node, attributes};

impl Namespace {
    /// Gives a file a further name; symbolic links can have several names too, directories cannot.
    pub fn link(&self, now: i64, request: &LinkRequest) -> Result<StatReply, MetaError> {
        let source = &request.source.path;
        self.edit(|edit| {
            let node = resolve(edit.reader(), &request.who, &request.source)?;
            let slot = free_slot(edit, &request.who, &request.target, false)?;
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
            if node.inode.tree != slot.directory.inode.tree {
                let path = text(&request.target.path);
                return Err(MetaError::CrossDevice { path });
            }
            edit.enter(&slot.directory, &slot.name, (node.id, node.inode.kind), now);
            let inode = edit.change(node.id, &node.inode);
            inode.links += 1;
            inode.changed = now;
            let inode = inode.clone();
            let id = node.id;
            let attributes = attributes(&Node { id, inode });
            Ok(StatReply { attributes })
        })
    }
}
