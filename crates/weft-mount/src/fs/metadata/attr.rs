//! Attributes as programs see them.

use std::time::Duration;

use weft_client::{Attributes, FileKind};

/// The attributes that `stat` shows. Times are nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// The file's id, its inode number.
    pub id: u64,
    /// Its kind.
    pub kind: FileKind,
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names.
    pub links: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes of an efficient request.
    pub block_size: u32,
    /// Last access.
    pub accessed: i64,
    /// Last modification.
    pub modified: i64,
    /// Last change of attributes.
    pub changed: i64,
    /// Device number of a device node.
    pub device: u32,
}

/// A node, and how long the cache above may keep its attributes and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The attributes.
    pub attr: Attr,
    /// How long the attributes are valid.
    pub attr_valid: Duration,
    /// How long the name is valid.
    pub entry_valid: Duration,
}

/// Larger requests gain nothing: the kernel splits them.
const BLOCK_FILE: u32 = 1 << 20;
const BLOCK_OTHER: u32 = 4096;

impl From<&Attributes> for Attr {
    fn from(a: &Attributes) -> Attr {
        let kind = FileKind::try_from(a.kind).unwrap_or(FileKind::Unspecified);
        Attr {
            id: a.id,
            kind,
            mode: a.mode & 0o7777,
            uid: a.uid,
            gid: a.gid,
            links: a.links,
            size: a.size,
            block_size: if kind == FileKind::Regular {
                BLOCK_FILE
            } else {
                BLOCK_OTHER
            },
            accessed: a.accessed,
            modified: a.modified,
            changed: a.changed,
            // Device numbers as Linux packs them into 32 bits are the lower half of those of the C
            // library.
            device: a.device as u32,
        }
    }
}

impl Attr {
    /// The file type bits and the permission bits, as in `st_mode`.
    pub fn full_mode(&self) -> u32 {
        let kind = match self.kind {
            FileKind::Directory => libc::S_IFDIR,
            FileKind::Symlink => libc::S_IFLNK,
            FileKind::Fifo => libc::S_IFIFO,
            FileKind::Socket => libc::S_IFSOCK,
            FileKind::BlockDevice => libc::S_IFBLK,
            FileKind::CharDevice => libc::S_IFCHR,
            FileKind::Regular | FileKind::Unspecified => libc::S_IFREG,
        };
        kind | self.mode
    }

    /// Blocks of 512 bytes, holes included: only the servers know those.
    pub fn blocks(&self) -> u64 {
        match self.kind {
            FileKind::Regular => self.size.div_ceil(512),
            _ => 0,
        }
    }
}

/// The kind for `st_mode`'s type bits, if `mknod` may make it.
pub(in crate::fs) fn kind_of_mode(mode: u32) -> Option<FileKind> {
    match mode & libc::S_IFMT {
        libc::S_IFIFO => Some(FileKind::Fifo),
        libc::S_IFSOCK => Some(FileKind::Socket),
        libc::S_IFBLK => Some(FileKind::BlockDevice),
        libc::S_IFCHR => Some(FileKind::CharDevice),
        0 | libc::S_IFREG => Some(FileKind::Regular),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_match_the_c_library() {
        let device = libc::makedev(8, 300);
        let attributes = Attributes {
            kind: FileKind::BlockDevice as i32,
            device,
            mode: 0o660,
            ..Attributes::default()
        };
        let attr = Attr::from(&attributes);
        // The kernel's `new_encode_dev`.
        assert_eq!(
            attr.device,
            (0x12c & 0xff) | (8 << 8) | ((0x12c & !0xff) << 12)
        );
        assert_eq!(attr.full_mode(), libc::S_IFBLK | 0o660);
    }
}
