//! ReadLink: the text of a symbolic link.

use weft_proto::meta::{FileKind, ReadLinkReply, ReadLinkRequest, Target};

use crate::error::{MetaError, text};
use crate::namespace::Namespace;
use crate::paths::resolve;

impl Namespace {
    /// The text of the link that the path names; the last component is not followed.
    pub fn read_link(&self, request: &ReadLinkRequest) -> Result<ReadLinkReply, MetaError> {
        let target = Target {
            follow: false,
            ..request.target.clone()
        };
        self.read(|reader| {
            let node = resolve(reader, &request.who, &target)?;
            if !node.inode.is(FileKind::Symlink) {
                return Err(MetaError::Invalid {
                    path: text(&target.path),
                    reason: "this is no symbolic link",
                });
            }
            Ok(ReadLinkReply {
                text: node.inode.text.into(),
            })
        })
    }
}
