//! MakeNode: fifos, sockets, device nodes, and regular files that are not opened.

use weft_proto::meta::{FileKind, MakeNodeRequest, StatReply};

use super::create::{free_slot, new_inode, place};
use crate::access::{is_root, not_owner};
use crate::error::{MetaError, text};
use crate::namespace::Namespace;
use crate::servers::placement;

impl Namespace {
    /// Creates a node; devices only for root.
    pub fn make_node(&self, now: i64, request: &MakeNodeRequest) -> Result<StatReply, MetaError> {
        let path = &request.target.path;
        let kind = FileKind::try_from(request.kind).unwrap_or(FileKind::Unspecified);
        let device = matches!(kind, FileKind::BlockDevice | FileKind::CharDevice);
        match kind {
            FileKind::Regular | FileKind::Fifo | FileKind::Socket => {}
            FileKind::BlockDevice | FileKind::CharDevice if is_root(&request.who) => {}
            FileKind::BlockDevice | FileKind::CharDevice => {
                return Err(not_owner(&request.who, path, "create a device node"));
            }
            FileKind::Unspecified | FileKind::Directory | FileKind::Symlink => {
                return Err(MetaError::Invalid {
                    path: text(path),
                    reason: "a node is a regular file, a fifo, a socket or a device",
                });
            }
        }
        self.edit(|edit| {
            let slot = free_slot(edit, &request.who, &request.target, false)?;
            let mut inode = new_inode(
                &request.who,
                &slot.directory,
                kind,
                (request.mode, request.umask),
                now,
            );
            let id = edit.next_id()?;
            if device {
                inode.device = request.device;
            }
            if kind == FileKind::Regular {
                let inherited = slot.directory.inode.wish.as_ref();
                let layout = placement::choose(&self.pool(now), id, None, inherited, path)?;
                inode.layout = Some(layout);
                inode.inline = true;
            }
            place(edit, &slot, id, inode, now)
        })
    }
}
