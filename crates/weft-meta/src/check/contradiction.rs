//! Contradictions within one inode, whatever other records say.

use weft_proto::meta::FileKind;

use crate::records::record::InodeRecord;

/// Contradictions within one inode, whatever other records say.
pub(super) fn contradiction(inode: &InodeRecord) -> Option<&'static str> {
    let of_files = inode.layout.is_some() || inode.inline || inode.truncate != 0;
    match FileKind::try_from(inode.kind) {
        Err(_) | Ok(FileKind::Unspecified) => Some("it is of no kind"),
        Ok(FileKind::Regular) if inode.inline && !inode.size_exact => {
            Some("the size of an inline file is not exact")
        }
        Ok(FileKind::Regular) if inode.inline && inode.truncate != 0 => {
            Some("an inline file waits for a truncate")
        }
        Ok(FileKind::Regular) if inode.truncate != 0 && inode.size_exact => {
            Some("its size is exact while a truncate is owed")
        }
        Ok(kind) if kind != FileKind::Regular && of_files => Some("a layout of what is no file"),
        _ => None,
    }
}
