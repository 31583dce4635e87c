//! MakeDirectory.

use weft_proto::meta::{FileKind, MakeDirectoryRequest, StatReply};

use super::create::{free_slot, new_inode, place};
use crate::access::STICKY;
use crate::error::MetaError;
use crate::namespace::Namespace;

impl Namespace {
    /// Creates an empty directory. It inherits what its parent gives to new files, and in a setgid
    /// directory the group and the bit.
    pub fn make_directory(
        &self,
        now: i64,
        request: &MakeDirectoryRequest,
    ) -> Result<StatReply, MetaError> {
        self.edit(|edit| {
            let slot = free_slot(edit, &request.who, &request.target, true)?;
            // As Linux: set-id bits come from the parent, not from the caller.
            let mode = request.mode & (0o777 | STICKY);
            let kind = FileKind::Directory;
            let mut inode = new_inode(
                &request.who,
                &slot.directory,
                kind,
                (mode, request.umask),
                now,
            );
            inode.wish.clone_from(&slot.directory.inode.wish);
            let id = edit.next_id()?;
            let reply = place(edit, &slot, id, inode, now)?;
            edit.change(slot.directory.id, &slot.directory.inode).links += 1;
            Ok(reply)
        })
    }
}
