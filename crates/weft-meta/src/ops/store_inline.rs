//! StoreInline: replace the bytes of a small file, which lie with its metadata.

use weft_proto::inline::{StoreInlineReply, StoreInlineRequest};
use weft_proto::limits::INLINE_MAX;

use super::set_attributes::apply;
use crate::access::without_privilege;
use crate::error::MetaError;
use crate::namespace::Namespace;
use crate::open::reap;
use crate::records::keys::{self, content};
use crate::records::{Node, attributes};

impl Namespace {
    /// Replaces the content of an inline file that this client has attached for writing; see [`StoreInlineRequest`].
    ///
    /// # Errors
    /// [`MetaError::Spilled`] where its bytes are in its cells, [`MetaError::Inline`] where they are on their way.
    pub fn store_inline(
        &self,
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
        self.edit_then(
            |edit| {
                let writer = edit.open_files().is_writer(client, id);
                let ended = edit.open_files().if_detached(client, id, true);
                let inode = keys::inode(edit.reader(), id)?;
                let inode = inode.ok_or(MetaError::Stale { id })?;
                if !inode.inline {
                    return Err(MetaError::Spilled { id });
                }
                if !writer {
                    return Err(invalid("this client has not attached it for writing"));
                }
                if content(edit.reader(), id)?.spilling {
                    return Err(MetaError::Inline { id });
                }
                edit.put_content(id, data);
                if data.len() as u64 > inode.size {
                    edit.grow();
                }
                let mut after = inode.clone();
                after.size = data.len() as u64;
                after.size_exact = true;
                after.note_write(request.modified);
                if request.kill_priv {
                    after.mode = without_privilege(&after);
                }
                if let Some(set) = &request.set {
                    after = apply(self, id, &after, set, now)?;
                }
                *edit.change(id, &inode) = after.clone();
                let node = Node { id, inode: after };
                let unused = ended.is_some_and(|ended| ended.unused);
                if request.detach && unused && node.inode.links == 0 && !self.recovering() {
                    reap(edit, id)?;
                }
                Ok(StoreInlineReply {
                    attributes: attributes(&node),
                })
            },
            |open, _| {
                if request.detach {
                    open.detach(client, id, true);
                }
            },
        )
    }
}
