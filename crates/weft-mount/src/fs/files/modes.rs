//! How files are opened and written.

use weft_client::Access;

use crate::fs::caller::Caller;

/// Linux's flag of an open that executes the file; not in the C library's headers.
const FOR_EXECUTION: i32 = 0x20;

/// An opened file.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a separate answer to the kernel"
)]
pub struct Opened {
    /// Its handle.
    pub handle: u64,
    /// The kernel's pages of it are current.
    pub keep_pages: bool,
    /// The kernel must not cache its data.
    pub direct: bool,
    /// Writes may overtake each other.
    pub parallel: bool,
}

/// The mode of a write.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteHow {
    /// It goes to the end of the file, wherever that is.
    pub append: bool,
    /// The writer, if its write must clear the file's set-id bits.
    pub kill_set_id: Option<Caller>,
    /// It survives power loss when the write returns.
    pub synced: bool,
    /// How the bytes reach the mount.
    pub way: WriteWay,
}

/// How a write reaches the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteWay {
    /// Through the kernel's pages, which hold the bytes already.
    #[default]
    Through,
    /// Past the kernel's pages.
    Past,
    /// As whole pages that a mapping has changed, which are written back.
    Back,
}

pub(in crate::fs) fn access(flags: i32) -> Access {
    match flags & libc::O_ACCMODE {
        // The kernel has checked the execute permission, which needs no read permission.
        libc::O_RDONLY if flags & FOR_EXECUTION != 0 => Access::default(),
        // A truncation is a write, however the file is opened.
        libc::O_RDONLY if flags & libc::O_TRUNC != 0 => Access::read_write(),
        libc::O_RDONLY => Access::read(),
        libc::O_WRONLY => Access::write(),
        _ => Access::read_write(),
    }
}

pub(in crate::fs) fn writes(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}
