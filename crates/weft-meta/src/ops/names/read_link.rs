//! ReadLink: the text of a symbolic link.

use weft_proto::meta::{FileKind, ReadLinkReply, ReadLinkRequest, Target};

use crate::error::{MetaError, text};
use crate::paths::resolve;
use crate::tx::Volume;

pub(crate) fn read_link(
    volume: &Volume,
    request: &ReadLinkRequest,
) -> Result<ReadLinkReply, MetaError> {
    let target = Target {
        follow: false,
        ..request.target.clone()
    };
    volume.read(|reader| {
        let node = resolve(reader, &request.who, &target)?;
        if !node.inode.is(FileKind::Symlink) {
            return Err(MetaError::Invalid {
                path: text(&target.path),
                reason: "it is not a symbolic link",
            });
        }
        Ok(ReadLinkReply {
            text: node.inode.text.into(),
        })
    })
}
