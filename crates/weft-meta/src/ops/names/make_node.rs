//! MakeNode: makes fifos, sockets, device nodes, and regular files that are not opened.

use weft_proto::meta::{FileKind, MakeNodeRequest, StatReply};

use super::new_inode::{free_slot, new_inode, place};
use crate::access::{is_root, not_owner};
use crate::error::{MetaError, text};
use crate::servers::placement;
use crate::tx::Volume;

pub(crate) fn make_node(
    volume: &Volume,
    now: i64,
    request: &MakeNodeRequest,
) -> Result<StatReply, MetaError> {
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
    volume.transact(|tx| {
        let slot = free_slot(tx, &request.who, &request.target, kind)?;
        let mut inode = new_inode(
            &request.who,
            slot.directory(),
            kind,
            (request.mode, request.umask),
            now,
        );
        let id = tx.next_id()?;
        if device {
            inode.device = request.device;
        }
        if kind == FileKind::Regular {
            let inherited = slot.directory().inode.layout_options.as_ref();
            let layout = placement::choose(
                &volume.state().servers().pool(now),
                id,
                None,
                inherited,
                path,
            )?;
            inode.layout = Some(layout);
            inode.inline = true;
        }
        place(tx, &slot, id, inode, now)
    })
}
