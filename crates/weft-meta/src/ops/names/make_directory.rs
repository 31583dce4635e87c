//! MakeDirectory: makes an empty directory.

use weft_proto::meta::{FileKind, MakeDirectoryRequest, StatReply};

use super::new_inode::{free_slot, new_inode, place};
use crate::access::STICKY;
use crate::error::MetaError;
use crate::tx::Volume;

pub(crate) fn make_directory(
    volume: &Volume,
    now: i64,
    request: &MakeDirectoryRequest,
) -> Result<StatReply, MetaError> {
    volume.transact(|tx| {
        let slot = free_slot(tx, &request.who, &request.target, FileKind::Directory)?;
        // As on Linux, set-id bits come from the parent and not from the caller.
        let mode = request.mode & (0o777 | STICKY);
        let kind = FileKind::Directory;
        let mut inode = new_inode(
            &request.who,
            slot.directory(),
            kind,
            (mode, request.umask),
            now,
        );
        inode
            .layout_options
            .clone_from(&slot.directory().inode.layout_options);
        let id = tx.next_id()?;
        let reply = place(tx, &slot, id, inode, now)?;
        tx.change(slot.directory().id, &slot.directory().inode)
            .links += 1;
        Ok(reply)
    })
}
