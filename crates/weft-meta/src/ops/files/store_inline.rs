//! StoreInline: replaces the bytes of a small file, which are stored with its metadata.

use weft_proto::inline::{StoreInlineReply, StoreInlineRequest};
use weft_proto::limits::INLINE_MAX;

use crate::access::without_privilege;
use crate::error::MetaError;
use crate::open::OpenMode;
use crate::ops::attributes::apply;
use crate::records::keys::{self, content};
use crate::records::{Node, attributes};
use crate::tx::Volume;

pub(crate) fn store_inline(
    volume: &Volume,
    now: i64,
    client: u64,
    request: &StoreInlineRequest,
) -> Result<StoreInlineReply, MetaError> {
    let id = request.file;
    let data = &request.data;
    let invalid = |reason| MetaError::Invalid {
        path: format!("file {id}"),
        reason,
    };
    if data.len() > INLINE_MAX {
        return Err(invalid("at most 16 KiB can lie with a file's metadata"));
    }
    volume.transact_then(
        |tx| {
            let writer = tx.open_files().is_writer(client, id);
            let ended = tx.open_files().if_detached(client, id, OpenMode::Write);
            let inode = keys::inode(tx.reader(), id)?;
            let inode = inode.ok_or(MetaError::Stale { id })?;
            if !inode.inline {
                return Err(MetaError::Spilled { id });
            }
            if !writer {
                return Err(invalid("this client has not attached it for writing"));
            }
            if content(tx.reader(), id)?.spilling {
                return Err(MetaError::Inline { id });
            }
            tx.put_content(id, data);
            if data.len() as u64 > inode.size {
                tx.grow();
            }
            let mut after = inode.clone();
            after.size = data.len() as u64;
            after.size_exact = true;
            after.note_write(request.modified);
            if request.kill_priv {
                after.mode = without_privilege(&after);
            }
            if let Some(set) = &request.set {
                after = apply(volume, id, &after, set, now)?;
            }
            *tx.change(id, &inode) = after.clone();
            let node = Node { id, inode: after };
            let unused = ended.is_some_and(|ended| ended.is_last());
            if request.detach
                && unused
                && node.inode.links == 0
                && !volume.state().grace().is_active()
            {
                tx.reap(id)?;
            }
            Ok(StoreInlineReply {
                attributes: attributes(&node),
            })
        },
        |open, _| {
            if request.detach {
                open.detach(client, id, OpenMode::Write);
            }
        },
    )
}
