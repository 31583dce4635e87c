//! MakeLink: makes a symbolic link.

use weft_proto::limits::PATH_MAX;
use weft_proto::meta::{FileKind, MakeLinkRequest, StatReply};

use super::new_inode::{free_slot, new_inode, place};
use crate::error::{MetaError, text};
use crate::paths::not_found;
use crate::tx::Volume;

pub(crate) fn make_link(
    volume: &Volume,
    now: i64,
    request: &MakeLinkRequest,
) -> Result<StatReply, MetaError> {
    let link = &request.text;
    if link.len() > PATH_MAX {
        return Err(MetaError::PathTooLong { length: link.len() });
    }
    if link.is_empty() {
        return Err(not_found(link));
    }
    if link.contains(&0) {
        return Err(MetaError::Invalid {
            path: text(&request.target.path),
            reason: "a link's text cannot contain a zero byte",
        });
    }
    volume.transact(|tx| {
        let slot = free_slot(tx, &request.who, &request.target, FileKind::Symlink)?;
        let kind = FileKind::Symlink;
        let mut inode = new_inode(&request.who, slot.directory(), kind, (0o777, 0), now);
        inode.size = link.len() as u64;
        inode.text = link.to_vec();
        let id = tx.next_id()?;
        place(tx, &slot, id, inode, now)
    })
}
