//! The bounds of the wire. A peer that exceeds one is refused and its connection closed.

/// Bytes of a body. Lists (of servers, of directory entries, of lengths) are paged to fit.
pub const BODY_MAX: u32 = 1 << 20;
/// Bytes of one frame's payload; larger transfers are several frames of one call.
pub const PAYLOAD_MAX: u32 = 1 << 20;
/// Bytes one call may read or write on one server; clients split what is larger.
pub const TRANSFER_MAX: u64 = 1 << 30;
/// Bytes of a path from the root or from a directory.
pub const PATH_MAX: usize = 4096;
/// Bytes of one name in a directory.
pub const NAME_MAX: usize = 255;
/// Symbolic links followed in one resolution.
pub const LINKS_MAX: usize = 40;
/// Bytes of an extended attribute's value.
pub const XATTR_VALUE_MAX: usize = 64 << 10;
/// Bytes of all extended attributes of one file together, names included.
pub const XATTR_TOTAL_MAX: usize = 256 << 10;
/// Entries of one page of a directory listing.
pub const LIST_PAGE_MAX: u32 = 1000;
/// Supplementary groups of a caller.
pub const GROUPS_MAX: usize = 65_536 / 4;
