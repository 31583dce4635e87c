//! Attributes of files, as C programs see them.

use std::ffi::c_char;
use std::mem::size_of;

use weft_client::{Attributes, FileKind};

use crate::arguments::Versioned;

/// In weft_attributes.kind: a regular file.
pub const WEFT_KIND_FILE: u32 = 1;
/// In weft_attributes.kind: a directory.
pub const WEFT_KIND_DIRECTORY: u32 = 2;
/// In weft_attributes.kind: a symbolic link.
pub const WEFT_KIND_LINK: u32 = 3;
/// In weft_attributes.kind: a device, a socket or a FIFO.
pub const WEFT_KIND_OTHER: u32 = 4;

/// Bytes of the name of a policy with its NUL, in weft_attributes.
pub const WEFT_POLICY_ROOM: usize = 64;

/// What a file is. Set `size` to sizeof(weft_attributes) before it is filled. Times are nanoseconds
/// since 1970.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct weft_attributes {
    /// sizeof(weft_attributes).
    pub size: usize,
    /// The file's number in the volume, its inode number on a mount.
    pub id: u64,
    /// A constant WEFT_KIND_*.
    pub kind: u32,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names.
    pub links: u32,
    /// Cells of a regular file, or what a directory gives to new ones; 0: the volume's.
    pub cells: u32,
    /// Bytes of the file in canonical order.
    pub length: u64,
    /// Last access.
    pub accessed: i64,
    /// Last modification.
    pub modified: i64,
    /// Last change of attributes.
    pub changed: i64,
    /// Creation.
    pub created: i64,
    /// Bytes of a basic striping unit.
    pub bsu: u64,
    /// Bytes of a chunk.
    pub chunk: u32,
    /// Servers.
    pub server_count: u32,
    /// WEFT_STORAGE_PLAIN or WEFT_STORAGE_ADDRESSED; 0 for what has no layout.
    pub storage: u32,
    /// 0.
    pub reserved: u32,
    /// Name of the consistency policy; "": none.
    pub policy: [c_char; WEFT_POLICY_ROOM],
}

// SAFETY: as the trait asks.
unsafe impl Versioned for weft_attributes {
    const NAME: &'static str = "weft_attributes";
}

const _: () = assert!(size_of::<weft_attributes>() == 168);

/// Attributes as C programs see them.
pub(crate) fn written(found: &Attributes) -> weft_attributes {
    let layout = found.layout.clone().unwrap_or_default();
    let mut policy = [0; WEFT_POLICY_ROOM];
    for (to, from) in policy
        .iter_mut()
        .zip(found.policy.bytes().take(WEFT_POLICY_ROOM - 1))
    {
        *to = from.cast_signed();
    }
    weft_attributes {
        size: size_of::<weft_attributes>(),
        id: found.id,
        kind: match found.kind() {
            FileKind::Regular => WEFT_KIND_FILE,
            FileKind::Directory => WEFT_KIND_DIRECTORY,
            FileKind::Symlink => WEFT_KIND_LINK,
            _ => WEFT_KIND_OTHER,
        },
        mode: found.mode,
        uid: found.uid,
        gid: found.gid,
        links: found.links,
        cells: layout.cells,
        length: found.size,
        accessed: found.accessed,
        modified: found.modified,
        changed: found.changed,
        created: found.created,
        bsu: layout.bsu,
        chunk: layout.chunk,
        server_count: layout.servers.len() as u32,
        storage: if found.layout.is_some() {
            layout.storage + 1
        } else {
            0
        },
        reserved: 0,
        policy,
    }
}
