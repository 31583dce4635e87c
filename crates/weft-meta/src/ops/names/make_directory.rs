//! MakeDirectory: makes an empty directory.

use weft_proto::meta::{FileKind, MakeDirectoryRequest, StatReply};

use super::new_inode::{free_slot, new_directory, place};
use crate::error::MetaError;
use crate::tx::Volume;

pub(crate) fn make_directory(
    volume: &Volume,
    now: i64,
    request: &MakeDirectoryRequest,
) -> Result<StatReply, MetaError> {
    volume.transact(|tx| {
        let slot = free_slot(tx, &request.who, &request.target, FileKind::Directory)?;
        let mode = (request.mode, request.umask);
        let inode = new_directory(&request.who, slot.directory(), mode, now);
        let id = tx.next_id()?;
        let reply = place(tx, &slot, id, inode, now)?;
        tx.change(slot.directory().id, &slot.directory().inode)
            .links += 1;
        Ok(reply)
    })
}
