//! Unlink: removes a name of a file that is no directory.

use weft_proto::meta::{UnlinkReply, UnlinkRequest};

use crate::access::{WRITE, need, need_removable};
use crate::error::{MetaError, text};
use crate::paths::{Nameless, not_found, slot};
use crate::tx::Volume;

pub(crate) fn unlink(
    volume: &Volume,
    now: i64,
    request: &UnlinkRequest,
) -> Result<UnlinkReply, MetaError> {
    let who = &request.who;
    let path = &request.target.path;
    volume.transact(|tx| {
        let slot = match slot(tx.reader(), who, &request.target)? {
            Ok(slot) => slot,
            Err(Nameless::Empty) => return Err(not_found(path)),
            Err(_) => return Err(MetaError::IsDirectory { path: text(path) }),
        };
        let node = slot.found().ok_or_else(|| not_found(path))?;
        need(who, &slot.directory().inode, WRITE, path)?;
        need_removable(who, &slot.directory().inode, &node.inode, path)?;
        if node.inode.is_directory() {
            return Err(MetaError::IsDirectory { path: text(path) });
        }
        if slot.has_slash() {
            return Err(MetaError::NotDirectory { path: text(path) });
        }
        tx.remove_entry(slot.directory(), slot.name(), now);
        let links = tx.unlink(node, now)?;
        Ok(UnlinkReply {
            file: node.id,
            links,
            directory: Some(tx.attributes(slot.directory())),
        })
    })
}
