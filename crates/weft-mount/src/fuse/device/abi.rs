//! The structures of `include/uapi/linux/fuse.h`, version 7.31 and later, as far as they are used.
//! Fields have the names of that header.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The protocol's major version.
pub(in crate::fuse) const MAJOR: u32 = 7;
/// The newest minor version whose messages are laid out as here.
pub(in crate::fuse) const MINOR: u32 = 44;
/// Older kernels send shorter messages: Linux 5.4 is the oldest that is served.
pub(in crate::fuse) const MINOR_OLDEST: u32 = 31;

/// Kinds of requests.
pub(in crate::fuse) mod opcode {
    pub(in crate::fuse) const LOOKUP: u32 = 1;
    pub(in crate::fuse) const FORGET: u32 = 2;
    pub(in crate::fuse) const GETATTR: u32 = 3;
    pub(in crate::fuse) const SETATTR: u32 = 4;
    pub(in crate::fuse) const READLINK: u32 = 5;
    pub(in crate::fuse) const SYMLINK: u32 = 6;
    pub(in crate::fuse) const MKNOD: u32 = 8;
    pub(in crate::fuse) const MKDIR: u32 = 9;
    pub(in crate::fuse) const UNLINK: u32 = 10;
    pub(in crate::fuse) const RMDIR: u32 = 11;
    pub(in crate::fuse) const RENAME: u32 = 12;
    pub(in crate::fuse) const LINK: u32 = 13;
    pub(in crate::fuse) const OPEN: u32 = 14;
    pub(in crate::fuse) const READ: u32 = 15;
    pub(in crate::fuse) const WRITE: u32 = 16;
    pub(in crate::fuse) const STATFS: u32 = 17;
    pub(in crate::fuse) const RELEASE: u32 = 18;
    pub(in crate::fuse) const FSYNC: u32 = 20;
    pub(in crate::fuse) const SETXATTR: u32 = 21;
    pub(in crate::fuse) const GETXATTR: u32 = 22;
    pub(in crate::fuse) const LISTXATTR: u32 = 23;
    pub(in crate::fuse) const REMOVEXATTR: u32 = 24;
    pub(in crate::fuse) const FLUSH: u32 = 25;
    pub(in crate::fuse) const INIT: u32 = 26;
    pub(in crate::fuse) const OPENDIR: u32 = 27;
    pub(in crate::fuse) const READDIR: u32 = 28;
    pub(in crate::fuse) const RELEASEDIR: u32 = 29;
    pub(in crate::fuse) const FSYNCDIR: u32 = 30;
    pub(in crate::fuse) const GETLK: u32 = 31;
    pub(in crate::fuse) const SETLK: u32 = 32;
    pub(in crate::fuse) const SETLKW: u32 = 33;
    pub(in crate::fuse) const ACCESS: u32 = 34;
    pub(in crate::fuse) const CREATE: u32 = 35;
    pub(in crate::fuse) const INTERRUPT: u32 = 36;
    pub(in crate::fuse) const DESTROY: u32 = 38;
    pub(in crate::fuse) const IOCTL: u32 = 39;
    pub(in crate::fuse) const BATCH_FORGET: u32 = 42;
    pub(in crate::fuse) const FALLOCATE: u32 = 43;
    pub(in crate::fuse) const READDIRPLUS: u32 = 44;
    pub(in crate::fuse) const RENAME2: u32 = 45;
    pub(in crate::fuse) const LSEEK: u32 = 46;
    pub(in crate::fuse) const COPY_FILE_RANGE: u32 = 47;
}

/// Capabilities of either side; the upper 32 bits travel in `flags2`.
pub(in crate::fuse) mod init {
    pub(in crate::fuse) const ASYNC_READ: u64 = 1;
    pub(in crate::fuse) const POSIX_LOCKS: u64 = 1 << 1;
    pub(in crate::fuse) const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub(in crate::fuse) const EXPORT_SUPPORT: u64 = 1 << 4;
    pub(in crate::fuse) const BIG_WRITES: u64 = 1 << 5;
    pub(in crate::fuse) const DONT_MASK: u64 = 1 << 6;
    pub(in crate::fuse) const FLOCK_LOCKS: u64 = 1 << 10;
    pub(in crate::fuse) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(in crate::fuse) const ASYNC_DIO: u64 = 1 << 15;
    pub(in crate::fuse) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(in crate::fuse) const POSIX_ACL: u64 = 1 << 20;
    pub(in crate::fuse) const MAX_PAGES: u64 = 1 << 22;
    pub(in crate::fuse) const CACHE_SYMLINKS: u64 = 1 << 23;
    pub(in crate::fuse) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(in crate::fuse) const INIT_EXT: u64 = 1 << 30;
    pub(in crate::fuse) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub(in crate::fuse) const OVER_IO_URING: u64 = 1 << 41;
}

/// What SETATTR changes.
pub(in crate::fuse) mod fattr {
    pub(in crate::fuse) const MODE: u32 = 1;
    pub(in crate::fuse) const UID: u32 = 1 << 1;
    pub(in crate::fuse) const GID: u32 = 1 << 2;
    pub(in crate::fuse) const SIZE: u32 = 1 << 3;
    pub(in crate::fuse) const ATIME: u32 = 1 << 4;
    pub(in crate::fuse) const MTIME: u32 = 1 << 5;
    pub(in crate::fuse) const FH: u32 = 1 << 6;
    pub(in crate::fuse) const ATIME_NOW: u32 = 1 << 7;
    pub(in crate::fuse) const MTIME_NOW: u32 = 1 << 8;
    pub(in crate::fuse) const KILL_SUIDGID: u32 = 1 << 11;
}

/// Flags of an opened file.
pub(in crate::fuse) mod fopen {
    pub(in crate::fuse) const DIRECT_IO: u32 = 1;
    pub(in crate::fuse) const KEEP_CACHE: u32 = 1 << 1;
    pub(in crate::fuse) const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// OPEN and CREATE: clear the set-id bits if the file is truncated.
pub(in crate::fuse) const OPEN_KILL_SUIDGID: u32 = 1;
/// READ: by direct I/O; without it the kernel reads its pages.
pub(in crate::fuse) const READ_LOCKOWNER: u32 = 1 << 1;
/// WRITE: writes back pages that a mapping changed.
pub(in crate::fuse) const WRITE_CACHE: u32 = 1;
/// WRITE: by direct I/O; without it, and without [`WRITE_CACHE`], the kernel's pages hold the data
/// already.
pub(in crate::fuse) const WRITE_LOCKOWNER: u32 = 1 << 1;
/// WRITE: clear the set-id bits.
pub(in crate::fuse) const WRITE_KILL_SUIDGID: u32 = 1 << 2;

/// GETLK, SETLK and SETLKW: `flock`, of the whole file.
pub(in crate::fuse) const LK_FLOCK: u32 = 1;

/// A notification: drop a file's attributes, and its data from an offset on.
pub(in crate::fuse) const NOTIFY_INVAL_INODE: i32 = 2;
/// A notification: drop a name.
pub(in crate::fuse) const NOTIFY_INVAL_ENTRY: i32 = 3;

/// A notification: drop the names of all directories.
pub(in crate::fuse) const NOTIFY_INC_EPOCH: i32 = 8;
/// The first minor version with [`NOTIFY_INC_EPOCH`].
pub(in crate::fuse) const MINOR_EPOCH: u32 = 44;

/// Commands of a ring.
pub(in crate::fuse) mod ring {
    /// Hands a slot to the kernel, with its first request to come.
    pub(in crate::fuse) const REGISTER: u32 = 1;
    /// Answers the request in a slot, and hands the slot back.
    pub(in crate::fuse) const COMMIT_AND_FETCH: u32 = 2;
}

/// The header of a slot of a ring, `fuse_uring_req_header`.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub(in crate::fuse) struct RingHeader {
    /// [`InHeader`], and for the answer [`OutHeader`].
    pub(in crate::fuse) in_out: [u8; 128],
    /// The fixed argument of the request.
    pub(in crate::fuse) op_in: [u8; 128],
    pub(in crate::fuse) slot: RingSlot,
}

macro_rules! incoming {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
        pub(in crate::fuse) struct $name { $(pub(in crate::fuse) $field: $type,)* }
    )*};
}

incoming! {
    /// Begins every request.
    InHeader {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32, total_extlen: u16, padding: u16,
    }
    /// Begins every reply and notification.
    OutHeader { len: u32, error: i32, unique: u64, }
    /// The rest of [`RingHeader`], `fuse_uring_ent_in_out`.
    RingSlot { flags: u64, commit_id: u64, payload_sz: u32, padding: u32, reserved: u64, }
    /// The argument of a command in a ring, `fuse_uring_cmd_req`.
    RingCommand { flags: u64, commit_id: u64, qid: u16, padding: [u8; 6], }
    /// INIT.
    InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32, }
    /// INIT's answer.
    InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16,
        max_write: u32, time_gran: u32, max_pages: u16, map_alignment: u16, flags2: u32, max_stack_depth: u32,
        request_timeout: u16, unused: [u16; 11],
    }
    /// Attributes.
    Attr {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64, atimensec: u32, mtimensec: u32,
        ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, blksize: u32, flags: u32,
    }
    /// The node that a name refers to.
    EntryOut {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32, attr_valid_nsec: u32,
        attr: Attr,
    }
    /// Attributes and how long they are valid.
    AttrOut { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr, }
    /// SETATTR.
    SetattrIn {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
    /// FORGET.
    ForgetIn { nlookup: u64, }
    /// BATCH_FORGET, followed by `count` of [`ForgetOne`].
    BatchForgetIn { count: u32, dummy: u32, }
    /// One node that the kernel forgets.
    ForgetOne { nodeid: u64, nlookup: u64, }
    /// MKNOD, followed by the name.
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32, }
    /// MKDIR, followed by the name.
    MkdirIn { mode: u32, umask: u32, }
    /// RENAME, followed by both names.
    RenameIn { newdir: u64, }
    /// RENAME2, followed by both names.
    Rename2In { newdir: u64, flags: u32, padding: u32, }
    /// LINK, followed by the new name.
    LinkIn { oldnodeid: u64, }
    /// OPEN and OPENDIR.
    OpenIn { flags: u32, open_flags: u32, }
    /// CREATE, followed by the name.
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32, }
    /// An opened file.
    OpenOut { fh: u64, open_flags: u32, backing_id: u32, }
    /// RELEASE and RELEASEDIR.
    ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64, }
    /// FLUSH.
    FlushIn { fh: u64, unused: u32, padding: u32, lock_owner: u64, }
    /// READ, READDIR and READDIRPLUS.
    ReadIn { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32, }
    /// WRITE, followed by the data.
    WriteIn { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32, }
    /// WRITE's and COPY_FILE_RANGE's answer.
    WriteOut { size: u32, padding: u32, }
    /// STATFS's answer.
    StatfsOut {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32, frsize: u32,
        padding: u32, spare: [u32; 6],
    }
    /// FSYNC and FSYNCDIR.
    FsyncIn { fh: u64, fsync_flags: u32, padding: u32, }
    /// SETXATTR, followed by name and value.
    SetxattrIn { size: u32, flags: u32, }
    /// GETXATTR, followed by the name, and LISTXATTR.
    GetxattrIn { size: u32, padding: u32, }
    /// The size of the value of GETXATTR or LISTXATTR.
    GetxattrOut { size: u32, padding: u32, }
    /// ACCESS.
    AccessIn { mask: u32, padding: u32, }
    /// INTERRUPT.
    InterruptIn { unique: u64, }
    /// FALLOCATE.
    FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32, }
    /// A lock; the last byte is included.
    FileLock { start: u64, end: u64, kind: u32, pid: u32, }
    /// GETLK, SETLK and SETLKW.
    LkIn { fh: u64, owner: u64, lk: FileLock, lk_flags: u32, padding: u32, }
    /// LSEEK.
    LseekIn { fh: u64, offset: u64, whence: u32, padding: u32, }
    /// LSEEK's answer.
    LseekOut { offset: u64, }
    /// COPY_FILE_RANGE.
    CopyFileRangeIn {
        fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64,
    }
    /// Precedes each name of READDIR; names are padded to 8 bytes.
    Dirent { ino: u64, off: u64, namelen: u32, kind: u32, }
    /// The body of [`NOTIFY_INVAL_INODE`].
    InvalInodeOut { ino: u64, off: i64, len: i64, }
    /// The body of [`NOTIFY_INVAL_ENTRY`], followed by the name and a zero.
    InvalEntryOut { parent: u64, namelen: u32, flags: u32, }
}

impl OutHeader {
    /// The header of an answer; `None` if its length does not fit.
    pub(super) fn of(unique: u64, error: i32, body: &[&[u8]]) -> Option<OutHeader> {
        let length = size_of::<OutHeader>() + body.iter().map(|b| b.len()).sum::<usize>();
        let len = u32::try_from(length).ok()?;
        Some(OutHeader { len, error, unique })
    }
}

/// Bytes that come before the data of a WRITE.
pub(in crate::fuse) const WRITE_HEAD: usize = size_of::<InHeader>() + size_of::<WriteIn>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_kernels_header() {
        assert_eq!(size_of::<InHeader>(), 40);
        assert_eq!(size_of::<OutHeader>(), 16);
        assert_eq!(size_of::<InitOut>(), 64);
        assert_eq!(size_of::<Attr>(), 88);
        assert_eq!(size_of::<EntryOut>(), 128);
        assert_eq!(size_of::<AttrOut>(), 104);
        assert_eq!(size_of::<SetattrIn>(), 88);
        assert_eq!(size_of::<WriteIn>(), 40);
        assert_eq!(size_of::<StatfsOut>(), 80);
        assert_eq!(size_of::<CopyFileRangeIn>(), 56);
        assert_eq!(size_of::<LkIn>(), 48);
        assert_eq!(size_of::<Dirent>(), 24);
        assert_eq!(WRITE_HEAD, 80);
        assert_eq!(size_of::<RingHeader>(), 288);
        assert_eq!(size_of::<RingCommand>(), 24);
    }
}
