//! Contradictions within one inode.

use weft_proto::meta::FileKind;

use crate::records::record::InodeRecord;

/// The first contradiction between fields of an inode, whatever other records say.
pub(super) fn contradiction(inode: &InodeRecord) -> Option<&'static str> {
    let of_files = inode.layout.is_some() || inode.inline || inode.truncate != 0;
    match FileKind::try_from(inode.kind) {
        Err(_) | Ok(FileKind::Unspecified) => Some("its kind is unknown"),
        Ok(FileKind::Regular) if inode.inline && !inode.size_exact => {
            Some("the size of an inline file is not exact")
        }
        Ok(FileKind::Regular) if inode.inline && inode.truncate != 0 => {
            Some("an inline file has a pending truncate")
        }
        Ok(FileKind::Regular) if inode.truncate != 0 && inode.size_exact => {
            Some("its size is exact while a truncate is pending")
        }
        Ok(kind) if kind != FileKind::Regular && of_files => {
            Some("only a regular file can have a layout, inline bytes or a truncate")
        }
        _ => None,
    }
}
