//! RemoveDirectory: removes an empty directory.

use weft_proto::meta::{RemoveDirectoryRequest, UnlinkReply};

use crate::access::{WRITE, need, need_removable};
use crate::error::{MetaError, text};
use crate::paths::{Nameless, not_found, slot};
use crate::tx::Volume;

pub(crate) fn remove_directory(
    volume: &Volume,
    now: i64,
    request: &RemoveDirectoryRequest,
) -> Result<UnlinkReply, MetaError> {
    let who = &request.who;
    let path = &request.target.path;
    let invalid = |reason| {
        Err(MetaError::Invalid {
            path: text(path),
            reason,
        })
    };
    let removed = volume.transact(|tx| {
        let slot = match slot(tx.reader(), who, &request.target)? {
            Ok(slot) => slot,
            Err(Nameless::Empty) => return Err(not_found(path)),
            Err(Nameless::DotDot) => return Err(MetaError::NotEmpty { path: text(path) }),
            Err(Nameless::Dot) => return invalid("a directory cannot be removed by the name ."),
            Err(Nameless::Root) => return invalid("the root directory cannot be removed"),
        };
        let node = slot.found().ok_or_else(|| not_found(path))?;
        need(who, &slot.directory().inode, WRITE, path)?;
        need_removable(who, &slot.directory().inode, &node.inode, path)?;
        if !node.inode.is_directory() {
            return Err(MetaError::NotDirectory { path: text(path) });
        }
        if node.inode.size > 0 {
            return Err(MetaError::NotEmpty { path: text(path) });
        }
        tx.need_no_checkpoints(node, path)?;
        tx.remove_entry(slot.directory(), slot.name(), now);
        tx.change(slot.directory().id, &slot.directory().inode)
            .links -= 1;
        let links = tx.unlink(node, now)?;
        Ok(UnlinkReply {
            file: node.id,
            links,
            directory: Some(tx.attributes(slot.directory())),
        })
    })?;
    volume.state().leases().end(removed.file);
    volume.state().delegations().directory_removed(removed.file);
    Ok(removed)
}
